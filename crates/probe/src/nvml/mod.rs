//! The NVIDIA driver's answers about its GPUs, through its management library (NVML).
//!
//! [`Nvml`] is the interface to the driver. [`ask`] makes all calls and stores the [`Answers`].
//! Other systems than Linux have no driver that is asked.

mod answers;
#[cfg(target_os = "linux")]
mod library;
#[cfg(target_os = "linux")]
mod raw;

pub use answers::{
    Answer, Answers, C2cLink, DeviceAnswers, FabricInfo, FailedAnswer, MigMode, NvlinkAnswers,
    PciInfo, PeerStatus,
};
#[cfg(target_os = "linux")]
pub use library::Library;

use crate::privacy::Privacy;

/// Most GPUs to ask. Machines have at most a few dozen.
const MOST_GPUS: u32 = 256;

/// Most C2C links of a GPU to ask.
const MOST_C2C_LINKS: u32 = 64;

/// Compute capability × 10 from which GPUs have C2C links and report NVLink states as a field.
const HOPPER: i32 = 90;

/// Calls of the driver. GPUs are NVML indexes, links are numbers on a GPU.
pub trait Nvml {
    /// The driver's version.
    fn driver(&self) -> Answer<String>;
    /// Number of GPUs.
    fn count(&self) -> Answer<u32>;
    /// Product name.
    fn name(&self, gpu: u32) -> Answer<String>;
    /// Brand: `GeForce`, `Tesla` …
    fn brand(&self, gpu: u32) -> Answer<String>;
    /// The UUID.
    fn uuid(&self, gpu: u32) -> Answer<String>;
    /// PCI bus id and ids.
    fn pci(&self, gpu: u32) -> Answer<PciInfo>;
    /// Compute capability × 10.
    fn compute_capability(&self, gpu: u32) -> Answer<i32>;
    /// Current PCI Express generation.
    fn link_generation(&self, gpu: u32) -> Answer<u32>;
    /// Highest PCI Express generation of GPU and slot.
    fn max_link_generation(&self, gpu: u32) -> Answer<u32>;
    /// Current PCI Express lanes.
    fn link_width(&self, gpu: u32) -> Answer<u32>;
    /// Most PCI Express lanes of GPU and slot.
    fn max_link_width(&self, gpu: u32) -> Answer<u32>;
    /// Performance state: 0 is full speed, 8 and above are idle.
    fn performance_state(&self, gpu: u32) -> Answer<u32>;
    /// MIG mode and UUIDs of the parts.
    fn mig(&self, gpu: u32) -> Answer<MigMode>;
    /// Whether an NVLink can carry traffic between GPUs.
    fn nvlink_p2p(&self, gpu: u32, link: u32) -> Answer<bool>;
    /// Whether an NVLink is up, by its state (before Hopper) or by a field.
    fn nvlink_up(&self, gpu: u32, link: u32, by_field: bool) -> Answer<bool>;
    /// The bus id at the other end of an NVLink, as NVML writes it.
    fn nvlink_remote(&self, gpu: u32, link: u32) -> Answer<String>;
    /// Number of C2C links.
    fn c2c_count(&self, gpu: u32) -> Answer<u32>;
    /// A C2C link.
    fn c2c(&self, gpu: u32, link: u32) -> C2cLink;
    /// Peer access from one GPU to another: `Ok`, or why not.
    fn peer(&self, gpu: u32, other: u32) -> PeerStatus;
    /// NVLink fabric membership.
    fn fabric(&self, gpu: u32) -> Answer<FabricInfo>;
}

/// Most NVLinks of a GPU of this compute capability × 10.
pub const fn most_nvlinks(sm: i32) -> u32 {
    match sm {
        ..60 => 0,
        60..70 => 4,
        70..80 => 6,
        80..90 => 12,
        _ => 18,
    }
}

/// The library's name. The name without a version is only in development packages.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// How the reason begins where a driver is there and does not answer.
pub const NO_ANSWER: &str = "no answer";

/// Asks the driver of this machine, in this process: its library may hang, or end the process.
#[cfg(target_os = "linux")]
pub fn ask_this_machine() -> Answers {
    Library::load().map_or_else(Answers::none, |library| ask(&library))
}

/// Makes all calls.
pub fn ask(nvml: &dyn Nvml) -> Answers {
    let count = nvml.count();
    let gpus = count.value().copied().unwrap_or(0).min(MOST_GPUS);
    let devices = (0..gpus).map(|gpu| device(nvml, gpu, gpus)).collect();
    Answers {
        driver: nvml.driver(),
        count,
        devices,
    }
}

fn device(nvml: &dyn Nvml, gpu: u32, gpus: u32) -> DeviceAnswers {
    let compute_capability = nvml.compute_capability(gpu);
    let sm = compute_capability.value().copied().unwrap_or(0);
    let hopper = sm >= HOPPER;
    let nvlink = |link| NvlinkAnswers {
        p2p: nvml.nvlink_p2p(gpu, link),
        up: nvml.nvlink_up(gpu, link, hopper),
        remote: nvml.nvlink_remote(gpu, link),
    };
    let c2c_count = if hopper {
        nvml.c2c_count(gpu)
    } else {
        Answer::Value(0)
    };
    let c2c_links = c2c_count.value().copied().unwrap_or(0).min(MOST_C2C_LINKS);
    DeviceAnswers {
        name: nvml.name(gpu),
        brand: nvml.brand(gpu),
        uuid: nvml.uuid(gpu),
        pci: nvml.pci(gpu),
        link_generation: nvml.link_generation(gpu),
        max_link_generation: nvml.max_link_generation(gpu),
        link_width: nvml.link_width(gpu),
        max_link_width: nvml.max_link_width(gpu),
        performance_state: nvml.performance_state(gpu),
        mig: nvml.mig(gpu),
        nvlinks: (0..most_nvlinks(sm)).map(nvlink).collect(),
        c2c: (0..c2c_links).map(|link| nvml.c2c(gpu, link)).collect(),
        c2c_count,
        peers: (0..gpus)
            .map(|other| {
                if other == gpu {
                    PeerStatus::same()
                } else {
                    nvml.peer(gpu, other)
                }
            })
            .collect(),
        fabric: nvml.fabric(gpu),
        compute_capability,
    }
}

/// Replaces identifiers of the machine.
pub(crate) fn hide(answers: &mut Answers, privacy: &mut Privacy) {
    for device in &mut answers.devices {
        if let Answer::Value(uuid) = &mut device.uuid {
            *uuid = privacy.uuid(uuid);
        }
        if let Answer::Value(mig) = &mut device.mig {
            for part in &mut mig.parts {
                *part = privacy.uuid(part);
            }
        }
        if let Answer::Value(fabric) = &mut device.fabric {
            fabric.cluster = privacy.uuid(&fabric.cluster);
        }
    }
}
