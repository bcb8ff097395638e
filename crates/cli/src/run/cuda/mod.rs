//! Ranks on GPUs: threads of this process, one or several on each GPU. Times are the devices' own.

mod bench;
mod choose;
mod trace;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backend_cuda::{Cuda, Options};
use executor::check::{self, ForType, Sample};
use executor::{Communicator, Settings};
use kernel_bundle::{Fleet, Kernels};
use plan::program::Channels;

pub use self::bench::{Bench, Timed, time};
pub use self::choose::{Wanted, choose_way};
use super::spec::request;
use super::{Row, Spec, Timing, ranks};

/// Channels of a communicator without a plan; as many as NCCL ever has.
const PLAIN_CHANNELS: usize = 64;

/// The communicator of a rank on a GPU.
pub type Gpu = Communicator<Kernels<Cuda>>;

/// GPUs and the ranks on them.
pub struct Ranks {
    /// What the ranks share.
    pub fleet: Arc<Fleet<Cuda>>,
    /// One for each rank.
    pub communicators: Vec<Gpu>,
}

/// Opens GPUs for so many ranks: rank i on GPU i, from the first again when there are no more.
pub fn open(ranks: u32, settings: &Settings, trace: bool) -> Result<Ranks> {
    let devices = Cuda::count()?.min(ranks).max(1);
    open_on(devices, ranks, settings, trace)
}

/// Opens the first GPU for so many ranks.
pub fn open_on_first(ranks: u32, settings: &Settings) -> Result<Ranks> {
    open_on(1, ranks, settings, false)
}

fn open_on(devices: u32, ranks: u32, settings: &Settings, trace: bool) -> Result<Ranks> {
    let options = Options {
        devices: (0..devices).collect(),
        ..Options::default()
    };
    let cuda = Cuda::open(&options)?;
    let places = (0..ranks).map(|rank| rank % devices).collect();
    let launches = kernel_bundle::Options {
        trace,
        ..kernel_bundle::Options::nccl()
    };
    let fleet = Fleet::new(cuda, launches, places);
    let mut settings = settings.clone();
    if settings.channels.is_none() {
        settings.channels = Some(Channels::plain(ranks, PLAIN_CHANNELS)?);
    }
    // The communicator's own memory is the host's, which ranks on GPUs do not use.
    settings.buffer_bytes = Some(1 << 20);
    let communicators = Communicator::local(ranks, &settings, |rank| {
        Kernels::new(Arc::clone(&fleet), rank)
    })?;
    Ok(Ranks {
        fleet,
        communicators,
    })
}

/// The GPUs in words, one a line.
pub fn describe(cuda: &Cuda) -> String {
    let mut text = String::new();
    for (number, device) in cuda.devices().enumerate() {
        let facts = &device.facts;
        text.push_str(&format!(
            "GPU {number}: {}, compute capability {}.{}, {} multiprocessors, up to {} MHz, memory up to {} MHz, driver for \
             CUDA {}.{}; kernels {}, loaded in {:.1} ms\n",
            facts.name,
            facts.major,
            facts.minor,
            facts.multiprocessors,
            facts.clock_mhz,
            facts.memory_clock_mhz,
            facts.driver / 1000,
            facts.driver % 1000 / 10,
            facts.kernels,
            facts.kernels_ms,
        ));
    }
    text
}

/// Runs all ranks on the GPUs of this machine. Answers the GPUs in words, and the rows.
pub fn threads(
    spec: &Spec,
    file: Option<&Path>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(String, Vec<Row>)> {
    if spec.processes {
        bail!(
            "--backend cuda runs ranks as threads of one process; expected it without --processes"
        );
    }
    let ranks = open(spec.ranks, &spec.settings()?, file.is_some())?;
    let words = describe(&ranks.fleet.machine);
    let fleet = Arc::clone(&ranks.fleet);
    let rows = threads_of(ranks, spec, progress)?;
    if let Some(file) = file {
        crate::plan::write_beside(file, &trace::chrome(&fleet.take_spans(), spec))?;
    }
    Ok((words, rows))
}

/// Runs all ranks. Answers rank 0's rows, with the wrong elements of all and the slowest one's times.
fn threads_of(
    opened: Ranks,
    spec: &Spec,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<Row>> {
    let fleet = &opened.fleet;
    let rows = ranks::run(opened.communicators, progress, |communicator, progress| {
        let sweep = Sweep {
            communicator,
            fleet,
            spec,
            progress,
        };
        check::of_type(spec.element()?, sweep)
    })?;
    let mut rows = rows.into_iter();
    let mut all = rows.next().context("there is no rank 0")?;
    for other in rows {
        for (row, other) in all.iter_mut().zip(other) {
            add(&mut row.separate, &other.separate);
            if let (Some(row), Some(other)) = (&mut row.in_place, &other.in_place) {
                add(row, other);
            }
        }
    }
    Ok(all)
}

fn add(to: &mut Timing, other: &Timing) {
    to.wrong = to.wrong.zip(other.wrong).map(|(one, other)| one + other);
    to.time_us = to.time_us.max(other.time_us);
}

struct Sweep<'a> {
    communicator: &'a mut Gpu,
    fleet: &'a Fleet<Cuda>,
    spec: &'a Spec,
    progress: &'a mut dyn FnMut(u64),
}

impl ForType for Sweep<'_> {
    type Output = Result<Vec<Row>>;

    fn run<T: Sample>(self) -> Self::Output {
        let Self {
            communicator,
            fleet,
            spec,
            progress,
        } = self;
        let wanted = Wanted::of(spec)?;
        let mut rows = Vec::with_capacity(spec.sizes.len());
        for bytes in &spec.sizes {
            progress(*bytes);
            let check = spec.check::<T>(*bytes)?;
            let mut request = request::<T>(&check);
            let way = choose_way(communicator, &wanted, &request)?;
            let mut bench = Bench {
                communicator: &mut *communicator,
                fleet,
                spec,
                check,
            };
            let separate = bench.separate::<T>(way)?;
            let (mut way_in_place, mut in_place) = (None, None);
            if spec.in_place {
                request.in_place = true;
                if let Ok(way) = choose_way(bench.communicator, &wanted, &request) {
                    way_in_place = Some(way);
                    in_place = Some(bench.in_place::<T>(way)?);
                }
            }
            rows.push(Row {
                bytes: request.bytes(spec.ranks),
                count: request.count,
                way,
                way_in_place,
                separate,
                in_place,
                predicted_us: None,
            });
        }
        Ok(rows)
    }
}
