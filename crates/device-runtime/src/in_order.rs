//! Launches in the order of a stream: they are submitted behind the work of the callers' streams
//! and before what these get later, and looked after until they end.
//!
//! As at once, the ranks of a process are launched together. A rank's call returns when the one
//! that came last has submitted the launch of all; nobody waits for a kernel. The rank that
//! submitted a launch looks after it.

use std::time::{Duration, Instant};

use executor::backend::{InFlight, LaunchContext, Part};
use executor::{Error, Memory, Waiting};
use shared_memory::Bell;

use crate::backend::{DeviceProgram, Kernels};
use crate::driver::{DeviceCopy, DeviceDriver, LaunchMemory, Repeats, Running};
use crate::gang::Deposit;
use crate::launch::{NAP, Submitted};
use crate::remote::RemoteRanks;

/// Most launches of a rank that have not ended. The driver's queue has room for them, so a thread
/// that submits one never blocks where it could not abort.
pub const MOST_IN_FLIGHT: u32 = 64;

/// Between two looks at other ranks while a rank waits for those of its process.
const LOOK: Duration = Duration::from_millis(1);

/// How long a kernel that was told to end may take before it is left to its driver.
const ENDING: Duration = Duration::from_secs(5);

fn addresses(memory: &Memory<'_>) -> (u64, u64) {
    let input = memory.input().expose_provenance() as u64;
    (input, memory.output().expose_provenance() as u64)
}

/// A copy, if there is something to copy.
fn copy(from: u64, to: u64, bytes: usize) -> Option<DeviceCopy> {
    let bytes = bytes as u64;
    (bytes > 0 && from != to).then_some(DeviceCopy { from, to, bytes })
}

/// A launch in the order of streams runs once.
const ONCE: Repeats = Repeats { count: 1, graph: 0 };

impl<M: DeviceDriver> Kernels<M> {
    fn in_flight(&self) -> InFlight {
        InFlight {
            launches: self.shared.gang.open(self.rank),
            hurries: self.in_flight.iter().any(|it| it.uses_network),
        }
    }

    /// Enqueues programs and copies behind the work of a stream.
    pub(crate) fn enqueue_parts(
        &mut self,
        parts: &mut [Part<'_, DeviceProgram<M>>],
        copies: &[Memory<'_>],
        stream: u64,
        context: &mut LaunchContext<'_>,
    ) -> Result<InFlight, Error> {
        self.expect_room(parts, context)?;
        while self.in_flight().launches >= MOST_IN_FLIGHT {
            if self.look_after_all(context)?.launches >= MOST_IN_FLIGHT {
                std::thread::sleep(NAP);
            }
        }
        let device = self.device();
        let mut deposit = self.deposit(Some(stream));
        let mut staged = Vec::with_capacity(parts.len());
        let rank = self.rank;
        let mut waiting = Waiting::Signal {
            from: rank,
            channel: 0,
        };
        for memory in copies {
            let (input, output) = addresses(memory);
            deposit
                .before
                .extend(copy(input, output, memory.input_bytes()));
        }
        for part in parts {
            let in_regions = self.in_regions(part, context)?;
            let memory = &part.memory;
            let (own, origins) = match in_regions {
                Some(origins) => (LaunchMemory::of_caller(memory), origins),
                None => {
                    let at = self.window_buffers(part.program);
                    let driver = &self.shared.driver;
                    let located = driver.locate(device, memory, at, part.program.direct);
                    let own = located.map_err(|why| self.failed(why))?;
                    let origins = self.origins(part, &own);
                    (own, origins)
                }
            };
            let (input, output) = addresses(memory);
            let before = copy(input, own.input, memory.input_bytes());
            let after = copy(own.output, output, memory.output_bytes());
            deposit.before.extend(before);
            deposit.after.extend(after);
            self.add_part(&mut deposit, part, (&own, origins), context.launch);
            waiting = part.program.waiting;
            staged.push(own);
        }
        deposit.peers.sort_unstable();
        deposit.peers.dedup();
        deposit.peers.retain(|peer| *peer != rank);
        let launched = self.submit(deposit, waiting, context);
        staged.into_iter().for_each(|own| self.keep_staging(own));
        launched.map(|()| self.in_flight())
    }

    /// Fails if the blocks of programs that run together do not fit beside those of other ranks.
    fn expect_room(
        &self,
        parts: &[Part<'_, DeviceProgram<M>>],
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let blocks = |it: &Part<'_, DeviceProgram<M>>| {
            let part = &it.program.part;
            part.lane_count * part.shares
        };
        let needed: u32 = parts.iter().map(blocks).sum();
        let of_part = |it: &Part<'_, DeviceProgram<M>>| {
            let kernel = it.program.kernel;
            self.connected.peers.blocks.of(kernel)
        };
        let most = parts.iter().map(of_part).min().unwrap_or(u32::MAX);
        if needed <= most {
            return Ok(());
        }
        Err(Error::Unsupported {
            collective: context.supervisor.collective(),
            ranks: context.supervisor.bootstrap().ranks(),
            why: format!(
                "what runs together needs {needed} blocks of rank {}, and on the GPU with the fewest each rank has {most}; \
                 take fewer transfers in a group, or fewer ranks on a GPU",
                self.rank
            ),
        })
    }

    fn keep_staging(&self, own: LaunchMemory<M::Block>) {
        // A later launch that takes it runs behind this one.
        self.shared.driver.take_back(self.device(), own);
    }

    /// Submits a launch together with those of the other ranks of this process.
    fn submit(
        &mut self,
        deposit: Deposit,
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let before = self.shared.gang.submitted(self.rank);
        let Some(deposits) = self.shared.gang.join(deposit) else {
            return self.follow(before, waiting, context);
        };
        let remote = deposits.iter().flat_map(|deposit| &deposit.remote);
        let remote = RemoteRanks::new(self.rank, remote.copied());
        let started = self.launcher().start(&deposits, remote.waits(), ONCE);
        let failure = started.as_ref().err().map(Error::to_string);
        let ranks: Vec<u32> = deposits.iter().map(|it| it.rank).collect();
        self.shared.gang.submit(&ranks, failure.as_ref());
        self.in_flight.push_back(Submitted {
            running: started?,
            ranks,
            remote,
            waiting,
            uses_network: deposits.iter().any(|it| it.uses_network),
            progress: 0,
            ending: None,
        });
        Ok(())
    }

    /// Waits until another rank of this process has submitted the launch of all. `before`: launches
    /// submitted earlier.
    fn follow(
        &mut self,
        before: u32,
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let began = Instant::now();
        let mut looked = began;
        let mut looks = 0_u32;
        while self.shared.gang.submitted(self.rank) == before {
            looks += 1;
            if looks <= context.spins {
                std::hint::spin_loop();
                continue;
            }
            let now = Instant::now();
            if context.supervisor.yielder().try_yield(now).is_none() {
                std::thread::sleep(NAP);
            }
            if now < looked + LOOK {
                continue;
            }
            looked = now;
            let channel = 0;
            let missing = self.shared.gang.missing(self.rank);
            let missing = missing.map(|from| Waiting::Signal { from, channel });
            let looked = self.look_after_all(context).map(|_| ());
            let looked = looked.and_then(|()| {
                let waiting = missing.unwrap_or(waiting);
                context.supervisor.look(began, waiting)
            });
            let Err(error) = looked else {
                continue;
            };
            let gang = &self.shared.gang;
            gang.abort();
            if !gang.withdraw(self.rank) {
                // Another rank submits it just now.
                while gang.submitted(self.rank) == before {
                    std::thread::yield_now();
                }
            }
            return Err(error);
        }
        self.failure_of_gang()
    }

    /// Fails if another rank of this process has seen a launch of this one fail.
    fn failure_of_gang(&self) -> Result<(), Error> {
        match self.shared.gang.failure(self.rank) {
            Some(why) => Err(self.failed(why)),
            None => Ok(()),
        }
    }

    /// Waits until all launches in the order of streams have ended.
    pub(crate) fn drain(&mut self, context: &mut LaunchContext<'_>) -> Result<(), Error> {
        while self.look_after_all(context)?.launches > 0 {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Looks after the launches that this rank submitted.
    pub(crate) fn look_after_all(
        &mut self,
        context: &mut LaunchContext<'_>,
    ) -> Result<InFlight, Error> {
        let (rank, shared) = (self.rank, &self.shared);
        let failed = |why| Error::Device { rank, why };
        while let Some(first) = self.in_flight.front_mut() {
            if first.running.poll().map_err(failed)? {
                shared.gang.close(&first.ranks, None);
                self.in_flight.pop_front();
                continue;
            }
            if shared.gang.is_aborted() {
                return Err(failed("another rank aborted".to_owned()));
            }
            if first.remote.waits() {
                // Kernels wake nobody.
                if first.uses_network {
                    context.connections.ring_proxies();
                }
                self.connected.proxy_bells.iter().for_each(Bell::ring);
            }
            let progress = first.running.progress();
            if progress != first.progress || !first.running.has_begun() {
                // The work of the callers' streams before it takes as long as it takes.
                first.progress = progress;
                first.remote.restart();
            }
            first.remote.look(&mut context.supervisor, first.waiting)?;
            break;
        }
        let in_flight = self.in_flight();
        if in_flight.launches > 0 && self.in_flight.is_empty() {
            self.failure_of_gang()?;
        }
        Ok(in_flight)
    }

    /// Tells all launches to end, and forgets those that did.
    pub(crate) fn end_all_early(&mut self) -> InFlight {
        let gang = &self.shared.gang;
        gang.abort();
        let why = "the communicator failed".to_owned();
        self.in_flight.iter_mut().for_each(|it| it.running.abort());
        self.in_flight.retain_mut(|it| {
            let waits = match it.running.is_over() {
                true => false,
                // What waits for work of its stream may begin much later.
                false if !it.running.has_begun() => true,
                false => it.ending.get_or_insert_with(Instant::now).elapsed() < ENDING,
            };
            if !waits {
                gang.close(&it.ranks, Some(&why));
            }
            waits
        });
        self.in_flight()
    }
}
