//! Runs the launch of a rank: the rank that completes a gang starts the kernels of all its ranks
//! and watches them, and the others wait for the outcome.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use executor::backend::LaunchContext;
use executor::supervisor::WaitsFor;
use executor::{Error, Waiting};
use shared_memory::Bell;

use crate::driver::{DeviceCopy, DeviceDriver, Repeats, Running, Start};
use crate::entry::Kernel;
use crate::gang::Deposit;
use crate::layout::LaunchPart;
use crate::process_ranks::ProcessRanks;
use crate::remote::RemoteRanks;

/// How long the host polls a launch without sleeping. Later a sleep adds its length to the measured
/// end, which does not matter for long launches.
const WATCHING: Duration = Duration::from_millis(50);

/// A sleep between two polls of a long launch is this part of its time so far.
const PART: u32 = 1000;

/// Sleep between two polls of kernels that wait for other processes, if a busy program needs the
/// core.
pub(crate) const NAP: Duration = Duration::from_micros(50);

/// Longest sleep between two polls of a long launch.
const LONG_NAP: Duration = Duration::from_millis(1);

/// Polls of a launch between two reads of the clock.
const LOOKS: u32 = 256;

/// A launch that was submitted in the order of streams.
pub(crate) struct Submitted<M: DeviceDriver> {
    pub running: M::Running,
    /// The ranks of this process that it runs.
    pub ranks: Vec<u32>,
    pub remote: RemoteRanks,
    pub waiting: Waiting,
    pub uses_network: bool,
    pub progress: u64,
    /// Since when it runs although it was told to end.
    pub ending: Option<Instant>,
}

/// The parts of a launch of one rank.
pub(crate) struct Launcher<'a, M: DeviceDriver> {
    pub shared: &'a ProcessRanks<M>,
    pub rank: u32,
    /// Bells of the PXN proxies that forward for this rank.
    pub proxy_bells: &'a [Bell],
}

/// The launch of one device: its kernel and the parts of all its ranks, with their streams.
struct DeviceLaunch {
    device: u32,
    kernel: Kernel,
    parts: Vec<LaunchPart>,
    streams: Vec<u64>,
    before: Vec<DeviceCopy>,
    after: Vec<DeviceCopy>,
}

impl<M: DeviceDriver> Launcher<'_, M> {
    pub fn failed(&self, why: String) -> Error {
        let rank = self.rank;
        Error::Device { rank, why }
    }

    /// Deposits a launch and waits until it has ended.
    pub fn launch(
        &self,
        deposit: Deposit,
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let gang = &self.shared.gang;
        let before = gang.ended(self.rank);
        let Some(deposits) = gang.join(deposit) else {
            return self.follow(before, waiting, context);
        };
        let outcome = self.lead(&deposits, waiting, context);
        let failure = outcome.as_ref().err().map(Error::to_string);
        gang.finish(&deposits, failure.as_ref());
        for other in deposits.iter().filter(|other| other.rank != self.rank) {
            context.connections.bells[other.rank as usize].ring();
        }
        outcome
    }

    /// Waits until the leader's launch has ended. `before`: launches that had ended earlier.
    fn follow(
        &self,
        before: u32,
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let gang = &self.shared.gang;
        let mut ended = || gang.ended(self.rank) != before;
        let began = Instant::now();
        let mut looks = 0_u32;
        // The leader rings the bell only when the launch is over.
        while !ended() && began.elapsed() < WATCHING {
            looks += 1;
            let yielder = context.supervisor.yielder();
            if looks <= context.spins {
                std::hint::spin_loop();
            } else if yielder.try_yield(Instant::now()).is_none() {
                break;
            }
            if looks.is_multiple_of(LOOKS) && gang.is_aborted() {
                break;
            }
        }
        let missing = || {
            gang.missing(self.rank).map_or(waiting, |from| {
                let channel = 0;
                Waiting::Signal { from, channel }
            })
        };
        let mut progress = gang.progress();
        while let Err(error) = context
            .supervisor
            .wait(&mut ended, missing, || WaitsFor::Any)
        {
            if matches!(error, Error::Timeout { .. }) && progress != gang.progress() {
                // The leader counts the time from the last launch, and ends this wait.
                progress = gang.progress();
                context.supervisor.restart();
                continue;
            }
            gang.abort();
            if !gang.withdraw(self.rank) {
                // Kernels use this launch's buffers, so they must end first. They do, because
                // they poll the abort word.
                while gang.ended(self.rank) == before {
                    std::thread::yield_now();
                }
            }
            return Err(error);
        }
        match gang.failure(self.rank) {
            Some(why) => Err(self.failed(why)),
            None => Ok(()),
        }
    }

    /// Launches all deposits and waits until the kernels have ended.
    fn lead(
        &self,
        deposits: &[Deposit],
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let shared = self.shared;
        let remote = deposits.iter().flat_map(|deposit| &deposit.remote);
        let mut remote = RemoteRanks::new(self.rank, remote.copied());
        let uses_network = deposits.iter().any(|deposit| deposit.uses_network);
        let mut running = self.start(deposits, remote.waits(), shared.repeats())?;
        remote.restart();
        // This thread moves network data only as fast as it polls.
        let may_sleep = !uses_network && self.proxy_bells.is_empty();
        let began = Instant::now();
        let mut looks = 0_u32;
        let (mut told, mut long, mut progress) = (false, false, 0);
        while !running.poll().map_err(|why| self.failed(why))? {
            if shared.gang.is_aborted() && !told {
                running.abort();
                told = true;
            }
            looks += 1;
            long = long || looks.is_multiple_of(LOOKS) && began.elapsed() > WATCHING;
            if long && may_sleep {
                let part = began.elapsed() / PART;
                std::thread::sleep(part.clamp(NAP, LONG_NAP));
            } else if remote.waits() {
                // Kernels cannot wake proxies, so this thread does, or runs their work inline.
                if uses_network && !context.supervisor.make_progress() {
                    context.connections.ring_proxies();
                }
                self.proxy_bells.iter().for_each(Bell::ring);
                let yielder = context.supervisor.yielder();
                if looks > context.spins && yielder.try_yield(Instant::now()).is_none() {
                    // Nothing wakes this thread when kernels end.
                    std::thread::sleep(NAP);
                }
            } else if looks.is_multiple_of(LOOKS) {
                std::thread::yield_now();
            } else {
                continue;
            }
            if progress != running.progress() {
                progress = running.progress();
                shared.gang.advance();
                remote.restart();
            }
            if let Err(error) = remote.look(&mut context.supervisor, waiting) {
                shared.gang.abort();
                // Dropping it ends the kernels, or leaves those that do not end.
                running.abort();
                return Err(error);
            }
        }
        if told {
            return Err(self.failed("another rank aborted".to_owned()));
        }
        shared.set_time(running.time_us());
        shared.note_without_graph(running.without_graph());
        Ok(())
    }

    /// Starts the kernels of all deposits.
    pub fn start(
        &self,
        deposits: &[Deposit],
        remote: bool,
        repeats: Repeats,
    ) -> Result<M::Running, Error> {
        let launches = self.by_device(deposits)?;
        let starts = launches.iter().map(|it| Start {
            device: it.device,
            kernel: it.kernel,
            parts: &it.parts,
            threads: self.shared.options.threads,
            remote,
            streams: &it.streams,
            before: &it.before,
            after: &it.after,
        });
        let starts: Vec<Start<'_>> = starts.collect();
        let started = self.shared.driver.start(&starts, repeats);
        started.map_err(|why| self.failed(why))
    }

    /// One launch for each device, without lanes that have no steps.
    fn by_device(&self, deposits: &[Deposit]) -> Result<Vec<DeviceLaunch>, Error> {
        let mut launches: Vec<DeviceLaunch> = Vec::new();
        let in_order = |it: &Deposit| it.stream.is_some();
        if let [first, others @ ..] = deposits
            && let Some(other) = others.iter().find(|it| in_order(it) != in_order(first))
        {
            return Err(self.failed(format!(
                "ranks {} and {} run a collective in the order of a stream and at once; all ranks do the same",
                first.rank, other.rank
            )));
        }
        let mut sorted: Vec<&Deposit> = deposits.iter().collect();
        sorted.sort_by_key(|deposit| deposit.device);
        for own in sorted.chunk_by(|one, other| one.device == other.device) {
            let kernel = own[0].kernel;
            if let Some(other) = own.iter().find(|other| other.kernel != kernel) {
                return Err(self.failed(format!(
                    "rank {} reduces {:?}, and rank {} {kernel:?}; all ranks call collectives with equal types",
                    other.rank, other.kernel, own[0].rank
                )));
            }
            let parts = own.iter().flat_map(|deposit| &deposit.parts);
            let parts: Vec<LaunchPart> = parts.filter(|it| it.lane_count > 0).copied().collect();
            let copies = own.iter().flat_map(|it| &it.before);
            // Nothing to do is in order, too.
            if parts.is_empty() && copies.count() == 0 {
                continue;
            }
            let streams: BTreeSet<u64> = own.iter().filter_map(|it| it.stream).collect();
            launches.push(DeviceLaunch {
                device: own[0].device,
                kernel,
                parts,
                streams: streams.into_iter().collect(),
                before: own.iter().flat_map(|it| &it.before).copied().collect(),
                after: own.iter().flat_map(|it| &it.after).copied().collect(),
            });
        }
        Ok(launches)
    }
}
