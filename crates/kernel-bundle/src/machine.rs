//! What runs kernels.

use executor::Memory;

use crate::entry::Kernel;
use crate::layout::Part;

/// Something that runs kernels: the GPUs of a process, or the emulator. Addresses are those that its kernels use.
///
/// Errors are sentences that say what is wrong and what to do.
pub trait Machine: Send + Sync + 'static {
    /// Memory of the machine, given back when it is dropped.
    type Block: Send + Sync;
    /// Memory of several devices that one address stands for, given back when it is dropped.
    type Multicast: Send + Sync;
    /// Kernels that were started.
    type Running: Running;

    /// Its name, such as `cuda`.
    fn name(&self) -> &'static str;

    /// Memory on a device, filled with zeros, aligned to 256 bytes; and its address.
    ///
    /// # Errors
    /// There is not enough.
    fn allocate(&self, device: u32, bytes: u64) -> Result<(Self::Block, u64), String>;

    /// Writes into memory of a device.
    ///
    /// # Errors
    /// The device does not answer.
    fn write(&self, device: u32, address: u64, bytes: &[u8]) -> Result<(), String>;

    /// Reads memory of a device.
    ///
    /// # Errors
    /// The device does not answer.
    fn read(&self, device: u32, address: u64, bytes: &mut [u8]) -> Result<(), String>;

    /// How another process opens memory that has this address here, in one word.
    ///
    /// # Errors
    /// The machine has no such way.
    fn export(&self, device: u32, address: u64) -> Result<String, String>;

    /// The address of memory that another process exported.
    ///
    /// # Errors
    /// It cannot be opened.
    fn import(&self, device: u32, word: &str) -> Result<u64, String>;

    /// Memory of so many bytes on each of some devices, bound to one address each that stands for all of it: what is
    /// stored there is stored on all devices, what is read there is reduced over all.
    ///
    /// # Errors
    /// A device or the links between them have no multicast (NVLS), or there is not enough memory.
    fn multicast(
        &self,
        devices: &[u32],
        bytes: u64,
    ) -> Result<(Self::Multicast, Vec<Everywhere>), String>;

    /// Makes the memory of a launch reachable for kernels, with the input in it.
    ///
    /// # Errors
    /// There is not enough memory.
    fn lend(&self, device: u32, memory: &Memory<'_>) -> Result<Lent<Self::Block>, String>;

    /// Brings the output back to where the caller expects it.
    ///
    /// # Errors
    /// The device does not answer.
    fn give_back(
        &self,
        device: u32,
        lent: Lent<Self::Block>,
        memory: &Memory<'_>,
    ) -> Result<(), String>;

    /// Blocks that a device can run at the same time.
    ///
    /// # Errors
    /// The kernel cannot be had for this device.
    fn resident_blocks(&self, device: u32, kernel: Kernel, threads: u32) -> Result<u32, String>;

    /// Starts one kernel per device, all of whose parts run at the same time, `repeat` times in a row.
    ///
    /// # Errors
    /// A device cannot run so many blocks at once, or does not answer.
    fn start(&self, starts: &[Start<'_>], repeat: u32) -> Result<Self::Running, String>;
}

/// Where a device finds its part of a multicast, and all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Everywhere {
    /// The address that stands for all devices' memory.
    pub all: u64,
    /// The address of its own.
    pub own: u64,
}

/// What is started on a device.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The device.
    pub device: u32,
    /// The kernel.
    pub kernel: Kernel,
    /// Its parts.
    pub parts: &'a [Part],
    /// Threads of a block.
    pub threads: u32,
}

impl Start<'_> {
    /// Blocks: one for each share of each lane.
    pub fn blocks(&self) -> u32 {
        let blocks = self.parts.iter().map(|part| part.lane_count * part.shares);
        blocks.sum()
    }
}

/// Kernels that were started.
pub trait Running {
    /// Whether they have ended.
    ///
    /// # Errors
    /// They failed.
    fn poll(&mut self) -> Result<bool, String>;

    /// Tells them to give up; they end soon.
    fn give_up(&mut self);

    /// How long they ran by the devices' clocks, µs, once they have ended; `None` if that was not measured.
    fn time_us(&mut self) -> Option<f64>;
}

/// Memory of a launch as kernels reach it.
#[derive(Debug)]
pub struct Lent<B> {
    /// Address of the input.
    pub input: u64,
    /// Address of the output.
    pub output: u64,
    /// Memory of the machine that stands for the caller's, where that is needed.
    pub staging: Option<B>,
}
