//! Ranks on GPUs, as threads of this process or as processes. Times are the devices' own.
//!
//! In reading order: `open`, `choose`, `bench`, `trace`, `timeline`; [`pairs`].

mod bench;
mod choose;
mod open;
pub mod pairs;
mod timeline;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use backend_cuda::Cuda;
use device_runtime::{DeviceDriver, Kernels, PeerTransport, ProcessRanks};
use executor::bootstrap::Bootstrap;
use executor::check::{self, ForType, Sample};
use executor::{Communicator, Error, Failure, Transport};

use self::bench::Bench;
pub use self::bench::{TimingLimits, repeat, time};
pub use self::choose::{ChoiceLimits, choose};
use self::open::open_place;
pub use self::open::{
    OpenedRanks, count_for_multicast, describe, open_all, open_on_first, open_one_each,
};
use crate::event::{Event, Observer};
use crate::load::CoreTime;
use crate::ranks;
use crate::row::{FigureTiming, RunRow};
use crate::spec::{RunsOn, Spec, request};

/// The communicator of a rank on a GPU, real or emulated.
pub type Gpu<M = Cuda> = Communicator<Kernels<M>>;

/// Runs all ranks as threads on the GPUs of this machine. Returns notes on the run, and rows.
///
/// # Errors
/// There is no GPU, or a rank failed.
pub fn threads(spec: &Spec, observer: &mut Observer<'_>) -> Result<(String, Vec<RunRow>)> {
    match spec.backend {
        RunsOn::Cuda => {
            let ranks = open::open(spec)?;
            let words = describe(&ranks.process_ranks.driver);
            threads_on(ranks, words, spec, observer)
        }
        #[cfg(feature = "emulator")]
        RunsOn::Emulator => {
            let words = "emulated devices\n".to_owned();
            let devices = vec![0; spec.ranks as usize];
            let ranks = open::ranks_on(open::emulator(), devices, spec)?;
            threads_on(ranks, words, spec, observer)
        }
        RunsOn::Cpu => bail!("the CPU's ranks use no GPU"),
    }
}

/// Runs this process as one rank, on the GPU of its place on this machine. Returns as [`threads`].
///
/// # Errors
/// As [`threads`].
pub fn process(
    spec: &Spec,
    bootstrap: Box<dyn Bootstrap>,
    place: u32,
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    match spec.backend {
        RunsOn::Cuda => process_on(spec, bootstrap, observer, || {
            let cuda = open_place(place, spec)?;
            let words = describe(&cuda);
            Ok((cuda, words))
        }),
        #[cfg(feature = "emulator")]
        RunsOn::Emulator => process_on(spec, bootstrap, observer, || {
            Ok((open::emulator(), format!("emulated device {place}\n")))
        }),
        RunsOn::Cpu => bail!("the CPU's ranks use no GPU"),
    }
}

fn process_on<M: DeviceDriver>(
    spec: &Spec,
    mut bootstrap: Box<dyn Bootstrap>,
    observer: &mut Observer<'_>,
    open: impl FnOnce() -> Result<(M, String)>,
) -> Result<(String, Vec<RunRow>)> {
    let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
    let opened = open();
    if let Err(error) = &opened {
        // The others wait for this one otherwise.
        bootstrap.fail(&Failure {
            rank,
            what: format!("{error:#}"),
        });
    }
    let (machine, mut words) = opened?;
    let process_ranks = ProcessRanks::new(machine, open::options(spec), vec![0; ranks as usize]);
    let backend = Kernels::new(Arc::clone(&process_ranks), rank);
    let mut communicator = Communicator::join(backend, bootstrap, &open::settings(spec)?)?;
    words.push_str(&transports(&process_ranks, rank));
    observer(Event::Connected(&words));
    let rows = sweep(&mut communicator, &process_ranks, spec, observer)?;
    Ok((finish(&process_ranks, spec, Some(rank))?, rows))
}

/// The rows have the wrong elements of all ranks and the slowest times.
fn threads_on<M: DeviceDriver>(
    opened: OpenedRanks<M>,
    mut words: String,
    spec: &Spec,
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    let process_ranks = &opened.process_ranks;
    words.push_str(&transports(process_ranks, 0));
    observer(Event::Connected(&words));
    let gathered = Mutex::new(GatheredRows {
        rows: Vec::with_capacity(spec.sizes.len()),
        observer,
    });
    ranks::run(opened.communicators, |communicator| {
        let mut place = 0;
        let rank = communicator.rank();
        sweep(communicator, process_ranks, spec, &mut |event| {
            let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Row(row) => {
                    gathered.add(place, row, spec.ranks);
                    place += 1;
                }
                event if rank == 0 => (gathered.observer)(event),
                _ => {}
            }
        })
    })?;
    let gathered = gathered.into_inner();
    let rows = gathered.unwrap_or_else(PoisonError::into_inner).rows;
    let rows = rows.into_iter().map(|(row, _)| row).collect();
    Ok((finish(process_ranks, spec, None)?, rows))
}

/// The rows that ranks of this process have measured.
struct GatheredRows<'a, 'b> {
    /// Each with the number of ranks whose figures it has.
    rows: Vec<(RunRow, u32)>,
    observer: &'a mut Observer<'b>,
}

impl GatheredRows<'_, '_> {
    /// Adds a rank's figures to a row, which is whole when it has those of all `ranks`.
    fn add(&mut self, place: usize, figures: &RunRow, ranks: u32) {
        let Some((row, measured)) = self.rows.get_mut(place) else {
            self.rows.push((figures.clone(), 1));
            return self.tell(place, ranks);
        };
        add(&mut row.separate, &figures.separate);
        if let (Some(row), Some(other)) = (&mut row.in_place, &figures.in_place) {
            add(row, other);
        }
        *measured += 1;
        self.tell(place, ranks);
    }

    fn tell(&mut self, place: usize, ranks: u32) {
        if let Some((row, measured)) = self.rows.get(place)
            && *measured == ranks
        {
            (self.observer)(Event::Row(row));
        }
    }
}

fn add(to: &mut FigureTiming, other: &FigureTiming) {
    to.wrong = to.wrong.zip(other.wrong).map(|(one, other)| one + other);
    to.time_us = to.time_us.max(other.time_us);
}

fn transports<M: DeviceDriver>(process_ranks: &ProcessRanks<M>, rank: u32) -> String {
    let reached = process_ranks.reached();
    let own: Vec<&PeerTransport> = reached.iter().filter(|it| it.rank == rank).collect();
    let count = |wanted: Transport| own.iter().filter(|it| it.transport == wanted).count();
    let all = [Transport::P2p, Transport::Shm, Transport::Net];
    let counts = all.into_iter().filter(|it| count(*it) > 0);
    let counts: Vec<String> = counts.map(|it| format!("{} by {it}", count(it))).collect();
    if counts.is_empty() {
        return String::new();
    }
    let mut text = format!("rank {rank} reaches {}\n", counts.join(", "));
    let beside = own.iter().filter(|it| it.shares_device).count();
    if beside > 0 {
        let beside = match beside {
            1 => "the process of 1 other rank shares".to_owned(),
            _ => format!("processes of {beside} other ranks share"),
        };
        let how = match process_ranks.driver.takes_turns() {
            true => {
                "without MPS they take turns in time slices of milliseconds, and the times are those of the slices"
            }
            false => "by MPS they run side by side",
        };
        text.push_str(&format!("{beside} rank {rank}'s GPU: {how}\n"));
    }
    let remote = own
        .iter()
        .copied()
        .filter(|it| it.transport == Transport::Net);
    let (by_nics, copied): (Vec<&PeerTransport>, Vec<&PeerTransport>) =
        remote.partition(|it| it.rdma.is_ok());
    if !by_nics.is_empty() {
        let all = if copied.is_empty() { "all" } else { "some" };
        text.push_str(&format!(
            "NICs read and write memory of GPUs (GPUDirect RDMA) for {all} of those by NET\n"
        ));
    }
    let mut why_not = copied
        .iter()
        .filter_map(|it| it.rdma.clone().err().flatten());
    if let Some(why) = why_not.next() {
        text.push_str(&format!("fallback: no GPUDirect RDMA: {why}\n"));
    }
    let mut fallen_back = own.iter().filter(|it| it.fallen_back.is_some());
    if let Some(first) = fallen_back.next()
        && let Some(why) = &first.fallen_back
    {
        let others = match fallen_back.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!(
            "fallback: {} instead of P2P to rank {}{others}: {why}\n",
            first.transport, first.peer
        ));
    }
    text
}

/// Waits for the devices and writes the trace. Returns notes on graphs and the timeline.
fn finish<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    spec: &Spec,
    rank: Option<u32>,
) -> Result<String> {
    // Errors of kernels may show late.
    process_ranks.synchronize().map_err(|why| anyhow!(why))?;
    let mut text = String::new();
    if let Some(why) = process_ranks.take_without_graph() {
        text.push_str(&format!("launches are no graph: {why}\n"));
    }
    if let Some(why) = process_ranks.take_without_multicast() {
        text.push_str(&format!("fallback: no NVLS: {why}\n"));
    }
    let devices = &spec.devices;
    if devices.trace.is_none() && !devices.timeline {
        return Ok(text);
    }
    let spans = process_ranks.take_spans();
    if let Some(file) = &devices.trace {
        let file = trace_file(file, rank);
        let written = files::write(&file, trace::chrome(&spans, spec).as_bytes());
        written.with_context(|| format!("cannot write {}", file.display()))?;
    }
    if devices.timeline {
        text.push_str(&timeline::table(&spans));
    }
    Ok(text)
}

/// The trace file of a process: rank 0 has the given name, the others append their rank.
fn trace_file(file: &Path, rank: Option<u32>) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    if let Some(rank) = rank.filter(|rank| *rank > 0) {
        name.push(format!(".{rank}"));
    }
    PathBuf::from(name)
}

/// Whether all ranks lack what a choice needs.
fn is_unsupported(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Unsupported { .. }))
}

/// Runs all sizes on one rank. Of ranks that are processes, all get the same rows.
fn sweep<M: DeviceDriver>(
    communicator: &mut Gpu<M>,
    process_ranks: &ProcessRanks<M>,
    spec: &Spec,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    let sweep = Sweep {
        communicator,
        process_ranks,
        spec,
        observer,
    };
    check::of_type(spec.element, sweep)
}

struct Sweep<'a, M: DeviceDriver> {
    communicator: &'a mut Gpu<M>,
    process_ranks: &'a ProcessRanks<M>,
    spec: &'a Spec,
    observer: &'a mut Observer<'a>,
}

impl<M: DeviceDriver> ForType for Sweep<'_, M> {
    type Output = Result<Vec<RunRow>>;

    fn run<T: Sample>(self) -> Self::Output {
        let Self {
            communicator,
            process_ranks,
            spec,
            observer,
        } = self;
        let wanted = ChoiceLimits::of(spec);
        let mut rows = Vec::with_capacity(spec.sizes.len());
        let mut warm = Duration::from_millis(spec.devices.warm_ms);
        for bytes in &spec.sizes {
            let check = spec.check::<T>(*bytes);
            let mut request = request::<T>(&check);
            let mut choice = choose(communicator, &wanted, &request)?;
            observer(Event::Size(*bytes));
            let mut bench = Bench {
                communicator: &mut *communicator,
                process_ranks,
                spec,
                check,
                warm: std::mem::take(&mut warm),
            };
            let mut separate = bench.measure::<T>(choice, false);
            // All ranks may have found that what was chosen cannot be had.
            if separate.as_ref().is_err_and(is_unsupported)
                && let Ok(other) = choose(bench.communicator, &wanted, &request)
                && other != choice
            {
                choice = other;
                separate = bench.measure::<T>(choice, false);
            }
            let separate = separate?;
            let (mut choice_in_place, mut in_place) = (None, None);
            if spec.in_place {
                request.in_place = true;
                if let Ok(choice) = choose(bench.communicator, &wanted, &request) {
                    choice_in_place = Some(choice);
                    in_place = Some(bench.measure::<T>(choice, true)?);
                }
            }
            let row = RunRow {
                collective: spec.collective,
                bytes: request.bytes(spec.ranks),
                count: request.count,
                choice,
                choice_in_place,
                separate,
                in_place,
                predicted_us: None,
                explained: Vec::new(),
                compared: Vec::new(),
                cores: CoreTime::default(),
            };
            observer(Event::Row(&row));
            rows.push(row);
        }
        Ok(rows)
    }
}
