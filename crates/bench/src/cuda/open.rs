//! GPUs, and the ranks on them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use backend_cuda::presence::LONGEST_START;
use backend_cuda::{Cuda, Options};
use device_runtime::{DeviceDriver, Kernels, LaunchOptions, ProcessRanks};
use executor::{Communicator, Settings};
use program::Channels;

use super::Gpu;
use crate::Spec;
use crate::spec::RunsOn;

/// Channels of a communicator without a plan; as many as NCCL ever has.
const PLAIN_CHANNELS: usize = 64;

/// GPUs of which a multicast is tried: those that NVSwitches of one machine join.
const MOST_MEMBERS: u32 = 8;

/// GPUs and the ranks on them.
pub struct OpenedRanks<M: DeviceDriver = Cuda> {
    /// The state that the ranks share.
    pub process_ranks: Arc<ProcessRanks<M>>,
    /// One for each rank.
    pub communicators: Vec<Gpu<M>>,
}

/// Opens GPUs for ranks that are threads; with more ranks than GPUs, several share one.
pub(super) fn open(spec: &Spec) -> Result<OpenedRanks> {
    let longest = spec.longest_wait();
    let devices = Cuda::count(longest)?.min(spec.ranks).max(1);
    if devices > 1 && spec.devices.blocking_launches {
        bail!(
            "CUDA_LAUNCH_BLOCKING is set: the driver would wait for the kernel of the first GPU, which waits for those of the \
             others; unset it, or run ranks as processes"
        );
    }
    let cuda = open_devices((0..devices).collect(), &spec.devices.launches, longest)?;
    let places = (0..spec.ranks).map(|rank| rank % devices).collect();
    ranks_on(cuda, places, spec)
}

/// Opens all GPUs of this machine.
///
/// # Errors
/// There is none, or the driver refuses one.
pub fn open_all() -> Result<Cuda> {
    let count = Cuda::count(LONGEST_START)?;
    open_devices((0..count).collect(), &LaunchOptions::nccl(), LONGEST_START)
}

/// [`LaunchOptions::most_blocks`] of ranks that have a
/// GPU for themselves.
const ALL_BLOCKS: u32 = 0;

/// Opens the first GPU, with all ranks on it, which fill it.
///
/// # Errors
/// There is no GPU.
pub fn open_on_first(ranks: u32, settings: &Settings) -> Result<OpenedRanks> {
    open_at(vec![0; ranks as usize], vec![0], settings, ALL_BLOCKS)
}

/// Opens as many GPUs as ranks, one for each.
///
/// # Errors
/// There are fewer.
pub fn open_one_each(ranks: u32, settings: &Settings) -> Result<OpenedRanks> {
    let gpus = || (0..ranks).collect();
    let usual = LaunchOptions::nccl().most_blocks;
    open_at(gpus(), gpus(), settings, usual)
}

/// Opens these GPUs, with a rank at each of the places among them.
fn open_at(
    places: Vec<u32>,
    gpus: Vec<u32>,
    settings: &Settings,
    most_blocks: u32,
) -> Result<OpenedRanks> {
    let cuda = open_devices(gpus, &LaunchOptions::nccl(), LONGEST_START)?;
    let ranks = places.len() as u32;
    let options = LaunchOptions {
        most_blocks,
        ..LaunchOptions::nccl()
    };
    let process_ranks = ProcessRanks::new(cuda, options, places);
    let communicators = communicators(&process_ranks, ranks, settings.clone())?;
    Ok(OpenedRanks {
        process_ranks,
        communicators,
    })
}

/// GPUs of this machine that are members of one multicast, 2 to 8 of them, the first ones.
///
/// # Errors
/// There are no two, or they have no multicast (NVLS).
pub fn count_for_multicast() -> Result<u32> {
    let count = Cuda::count(LONGEST_START)?.min(MOST_MEMBERS);
    if count < 2 {
        bail!("it needs 2 GPUs, and this machine has {count}");
    }
    let cuda = open_devices((0..count).collect(), &LaunchOptions::nccl(), LONGEST_START)?;
    for place in 0..count {
        if let Err(why) = cuda.multicast_kinds(place) {
            bail!("{why}");
        }
    }
    Ok(count)
}

/// Opens the GPU of a process that has this place among those of its machine.
pub(super) fn open_place(place: u32, spec: &Spec) -> Result<Cuda> {
    let longest = spec.longest_wait();
    let count = Cuda::count(longest)?.max(1);
    open_devices(vec![place % count], &spec.devices.launches, longest)
}

fn open_devices(numbers: Vec<u32>, launches: &LaunchOptions, longest: Duration) -> Result<Cuda> {
    Ok(Cuda::open(&Options {
        longest_start: Some(longest),
        ..Options::of(numbers, launches)?
    })?)
}

/// Ranks that are threads on devices of a machine.
pub(super) fn ranks_on<M: DeviceDriver>(
    machine: M,
    places: Vec<u32>,
    spec: &Spec,
) -> Result<OpenedRanks<M>> {
    let process_ranks = ProcessRanks::new(machine, options(spec), places);
    let communicators = communicators(&process_ranks, spec.ranks, spec.settings()?)?;
    Ok(OpenedRanks {
        process_ranks,
        communicators,
    })
}

fn communicators<M: DeviceDriver>(
    process_ranks: &Arc<ProcessRanks<M>>,
    ranks: u32,
    settings: Settings,
) -> Result<Vec<Gpu<M>>> {
    let settings = with_channels(settings, ranks)?;
    Ok(Communicator::local(ranks, &settings, |rank| {
        Kernels::new(Arc::clone(process_ranks), rank)
    })?)
}

/// Settings of a communicator whose ranks are on devices.
pub(super) fn settings(spec: &Spec) -> Result<Settings> {
    with_channels(spec.settings()?, spec.ranks)
}

fn with_channels(mut settings: Settings, ranks: u32) -> Result<Settings> {
    if settings.channels.is_none() {
        settings.channels = Some(Channels::plain(ranks, PLAIN_CHANNELS)?);
    }
    // The communicator's own memory is the host's, which ranks on GPUs do not use.
    settings.buffer_bytes = Some(1 << 20);
    Ok(settings)
}

/// How kernels are launched.
pub(super) fn options(spec: &Spec) -> LaunchOptions {
    let devices = &spec.devices;
    LaunchOptions {
        trace: devices.trace.is_some() || devices.timeline,
        threads: match spec.backend {
            RunsOn::Cpu | RunsOn::Cuda => devices.launches.threads,
            // The emulator runs threads one after another.
            #[cfg(feature = "emulator")]
            RunsOn::Emulator => 96,
        },
        ..devices.launches.clone()
    }
}

/// An emulated GPU for tests.
#[cfg(feature = "emulator")]
pub(super) fn emulator() -> kernel_emulator::Emulator {
    kernel_emulator::Emulator::new(0, kernel_emulator::Bug::None)
}

/// The GPUs in words, one a line.
pub fn describe(cuda: &Cuda) -> String {
    let mut text = String::new();
    for device in cuda.devices() {
        let facts = &device.properties;
        text.push_str(&format!(
            "GPU {}: {}, compute capability {}.{}, {} multiprocessors, up to {} MHz, memory up to {} MHz, driver for \
             CUDA {}.{}{}; kernels {}, loaded in {:.1} ms\n",
            device.number(),
            facts.name,
            facts.major,
            facts.minor,
            facts.multiprocessors,
            facts.clock_mhz,
            facts.memory_clock_mhz,
            facts.driver / 1000,
            facts.driver % 1000 / 10,
            match device.mps() {
                Some(true) => ", MPS",
                Some(false) | None => "",
            },
            facts.kernels,
            facts.kernels_ms,
        ));
    }
    text
}
