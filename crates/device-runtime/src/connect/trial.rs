//! Tries a peer's memory before it is believed: a kernel loads from it, and stores to it.
//!
//! A driver grants access that the machine does not give: where an IOMMU or PCIe's access control
//! redirects transfers between devices, loads bring other data and stores vanish. Each device has
//! trial memory, that its peers open as they open connections: the device's value, what its kernel
//! has loaded, and a place for what each peer stores.

use std::time::{Duration, Instant};

use program::Protocol;

use crate::driver::{DeviceDriver, Repeats, Running, Start};
use crate::entry::Kernel;
use crate::layout::{FlatLane, FlatOperand, FlatStep, LaunchPart, MOST_OPERANDS, OperandKind};
use crate::process_ranks::{Disproved, ProcessRanks};

/// Bytes of a value: a vector, so that a kernel moves it as it moves data.
const VALUE_BYTES: u64 = 16;

/// Where the own value and the one that was loaded are; then those that peers store.
const OWN: u64 = 0;
const LOADED: u64 = VALUE_BYTES;
const STORED: u64 = 2 * VALUE_BYTES;

/// What a user can look at.
const LOOK_AT: &str = "see whether an IOMMU or PCIe's access control (ACS) is on";

/// Sleep between two polls of a kernel that moves two values.
const NAP: Duration = Duration::from_micros(20);

/// Trial memory of a device, and the kernel's steps. They are kept until the last rank of the
/// process is gone: to free memory may wait for kernels of other communicators, and peers may have
/// it open.
pub(super) struct Trial {
    device: u32,
    /// A rank on it.
    rank: u32,
    /// Address of the memory.
    pub address: u64,
    part: LaunchPart,
}

/// The value of the device of a rank.
fn value(rank: u32) -> [u8; VALUE_BYTES as usize] {
    let half = 0x746f_706f_5a96_3c01_u64 ^ u64::from(rank) << 24;
    let mut value = [0; VALUE_BYTES as usize];
    value[..8].copy_from_slice(&half.to_le_bytes());
    value[8..].copy_from_slice(&(!half).to_le_bytes());
    value
}

/// A step that moves a value from a buffer, 0 the own memory and 1 the peer's, to another.
fn step((from, from_at): (u16, u64), (to, to_at): (u16, u64)) -> FlatStep {
    let operand = |buffer, offset| FlatOperand {
        kind: OperandKind::Local as u32,
        buffer,
        offset,
        ..FlatOperand::default()
    };
    let mut step = FlatStep {
        bytes: VALUE_BYTES,
        source_count: 1,
        destination_count: 1,
        ..FlatStep::default()
    };
    step.operands[0] = operand(from, from_at);
    step.operands[MOST_OPERANDS] = operand(to, to_at);
    step
}

/// Bytes of trial memory in a job of `ranks` ranks.
pub(super) fn trial_bytes(ranks: u32) -> u64 {
    STORED + u64::from(ranks) * VALUE_BYTES
}

impl Trial {
    /// Makes the trial memory of a device with this rank, one of `ranks`. `alone`: all are in this
    /// process.
    pub fn new<M: DeviceDriver>(
        shared: &ProcessRanks<M>,
        device: u32,
        (rank, ranks): (u32, u32),
        alone: bool,
    ) -> Result<Self, String> {
        let (driver, bytes) = (&shared.driver, trial_bytes(ranks));
        let (memory, address) = match alone {
            true => driver.allocate(device, bytes)?,
            false => driver.allocate_for_peers(device, bytes)?,
        };
        shared.keep(memory, None);
        // Otherwise values that an earlier trial left there would count as stored.
        driver.write(device, address, &vec![0; bytes as usize])?;
        driver.write(device, address + OWN, &value(rank))?;
        let stored = STORED + u64::from(rank) * VALUE_BYTES;
        let steps = [step((1, OWN), (0, LOADED)), step((0, OWN), (1, stored))];
        let lane = FlatLane {
            prologue: steps.len() as u32,
            ..FlatLane::default()
        };
        let steps_at = (size_of::<FlatLane>() as u64).next_multiple_of(256);
        let (program, lanes) = driver.allocate(device, steps_at + size_of_val(&steps) as u64)?;
        shared.keep(program, None);
        driver.write(device, lanes, bytemuck::bytes_of(&lane))?;
        driver.write(device, lanes + steps_at, bytemuck::cast_slice(&steps))?;
        let part = LaunchPart {
            lanes,
            steps: lanes + steps_at,
            buffers: [address, 0, 0],
            lane_count: 1,
            protocol: Protocol::Simple as u32,
            divisor: 1,
            shares: 1,
            ..LaunchPart::default()
        };
        Ok(Self {
            device,
            rank,
            address,
            part,
        })
    }

    /// Lets a kernel load the value of a peer, whose memory is at an address here, and store the
    /// own one there.
    ///
    /// # Errors
    /// The kernel loads another value, fails or does not end.
    pub fn reach<M: DeviceDriver>(
        &self,
        shared: &ProcessRanks<M>,
        (peer, address): (u32, u64),
        until: Instant,
    ) -> Result<(), String> {
        let rank = self.rank;
        let ran = self.run(shared, address, until);
        match ran.map_err(|why| {
            format!("a kernel of rank {rank} that tried memory of rank {peer}: {why}")
        })? {
            loaded if loaded == value(peer) => Ok(()),
            _ => Err(format!(
                "the driver grants access, but a kernel of rank {rank} loads other data from memory of rank {peer} than it \
                 holds; {LOOK_AT}"
            )),
        }
    }

    /// Fails with the reason of a try if the device is lost with it.
    pub fn expect_usable(&self, driver: &impl DeviceDriver, why: &str) -> Result<(), String> {
        let usable = driver.synchronize(self.device);
        usable.map_err(|lost| format!("{why} ({lost}); NCCL_P2P_DISABLE=1 tries none"))
    }

    /// Runs the kernel. Returns what it has loaded.
    fn run<M: DeviceDriver>(
        &self,
        shared: &ProcessRanks<M>,
        address: u64,
        until: Instant,
    ) -> Result<[u8; VALUE_BYTES as usize], String> {
        let part = LaunchPart {
            buffers: [self.address, address, 0],
            ..self.part
        };
        let start = Start {
            device: self.device,
            kernel: Kernel::Move,
            parts: &[part],
            threads: shared.options.threads,
            remote: false,
            streams: &[],
            before: &[],
            after: &[],
        };
        let once = Repeats { count: 1, graph: 0 };
        let mut running = shared.driver.start(&[start], once)?;
        while !running.poll()? {
            if Instant::now() > until {
                return Err("it does not end".to_owned());
            }
            std::thread::sleep(NAP);
        }
        let mut loaded = [0; VALUE_BYTES as usize];
        let place = self.address + LOADED;
        shared.driver.read(self.device, place, &mut loaded)?;
        Ok(loaded)
    }

    /// Whether what a peer's kernel has stored is here, behind its [`Self::reach`].
    ///
    /// # Errors
    /// It is not.
    pub fn holds(&self, driver: &impl DeviceDriver, peer: u32) -> Result<(), String> {
        let mut stored = [0; VALUE_BYTES as usize];
        let at = self.address + STORED + u64::from(peer) * VALUE_BYTES;
        driver.read(self.device, at, &mut stored)?;
        match stored == value(peer) {
            true => Ok(()),
            false => Err(format!(
                "the driver grants access, but a kernel of rank {peer} stores to memory of rank {}, and nothing arrives; \
                 {LOOK_AT}",
                self.rank
            )),
        }
    }
}

/// Tries the memory of all pairs of devices of this process to which the driver grants access.
/// `devices`: each with a rank on it, one of `ranks`. All kernels together run for `longest`.
///
/// # Errors
/// There is no memory, or a GPU is lost.
pub(super) fn try_all<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    (devices, ranks): (&[(u32, u32)], u32),
    longest: Duration,
) -> Result<Vec<Disproved>, String> {
    let (driver, until) = (&shared.driver, Instant::now() + longest);
    let make = |(device, rank): &(u32, u32)| Trial::new(shared, *device, (*rank, ranks), true);
    let trials: Result<Vec<Trial>, String> = devices.iter().map(make).collect();
    let trials = trials?;
    let mut disproved = Vec::new();
    for own in &trials {
        let granted =
            |it: &&Trial| it.device != own.device && driver.reaches(own.device, it.device).is_ok();
        for peer in trials.iter().filter(granted) {
            let tried = own.reach(shared, (peer.rank, peer.address), until);
            let tried = tried.and_then(|()| peer.holds(driver, own.rank));
            let Err(why) = tried else { continue };
            own.expect_usable(driver, &why)?;
            disproved.push((own.device, peer.device, why));
        }
    }
    Ok(disproved)
}
