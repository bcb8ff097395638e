//! The interface to the devices that run kernels.

use std::ops::Range;
use std::sync::Arc;

use executor::Memory;
use shared_memory::Mapping;
use shared_memory::fifo::in_place::Owner;

use crate::allocation::{Allocation, Bindable};
use crate::entry::Kernel;
use crate::layout::LaunchPart;

/// Runs kernels: the GPUs of a process, or the emulator. Addresses are device addresses.
///
/// Every error is a sentence that says what is wrong and what to do.
pub trait DeviceDriver: Send + Sync + 'static {
    /// Device memory, freed on drop.
    type Block: Send + Sync + 'static;
    /// One device's part of a multicast object, released on drop.
    type Multicast: Send + Sync + 'static;
    /// Kernels that were started.
    type Running: Running + Send;

    /// The driver's name, such as `cuda`.
    fn name(&self) -> &'static str;

    /// Allocates zeroed device memory, aligned to 256 bytes. Returns it with its address.
    ///
    /// # Errors
    /// There is not enough memory.
    fn allocate(&self, device: u32, bytes: u64) -> Result<(Self::Block, u64), String>;

    /// Writes device memory.
    ///
    /// # Errors
    /// The device reports an error.
    fn write(&self, device: u32, address: u64, bytes: &[u8]) -> Result<(), String>;

    /// Reads device memory.
    ///
    /// # Errors
    /// The device reports an error.
    fn read(&self, device: u32, address: u64, bytes: &mut [u8]) -> Result<(), String>;

    /// Like [`Self::allocate`], of memory that other processes can open.
    ///
    /// # Errors
    /// There is not enough memory, or the device cannot share any.
    fn allocate_for_peers(&self, device: u32, bytes: u64) -> Result<(Self::Block, u64), String>;

    /// Exports memory at this address as a handle without spaces for other processes.
    ///
    /// # Errors
    /// The memory is not from [`Self::allocate_for_peers`], or the device cannot export it.
    fn export(&self, device: u32, address: u64) -> Result<String, String>;

    /// Opens memory that another process, or this one, exported and returns the address of its
    /// `bytes` bytes. It stays open as long as the driver.
    ///
    /// # Errors
    /// It cannot be opened, or is shorter.
    fn import(&self, device: u32, word: &str, bytes: u64) -> Result<u64, String>;

    /// Whether processes of other hosts can open a handle, too.
    fn spans_hosts(&self, word: &str) -> bool;

    /// Maps host memory for kernels of a device until the returned block is dropped. Returns the
    /// block with its device address.
    ///
    /// # Errors
    /// The device cannot access the memory.
    fn register_host(
        &self,
        device: u32,
        memory: &Arc<Mapping>,
    ) -> Result<(Self::Block, u64), String>;

    /// Whether NICs can access memory of a device (GPUDirect RDMA).
    ///
    /// # Errors
    /// Why they cannot.
    fn rdma(&self, device: u32) -> Result<(), String>;

    /// Like [`Self::allocate`], of memory that NICs can access.
    ///
    /// # Errors
    /// There is not enough memory, or NICs cannot access it.
    fn allocate_for_nics(&self, device: u32, bytes: u64) -> Result<NicMemory<Self::Block>, String>;

    /// An identifier of the device, unique on its host, without spaces.
    ///
    /// # Errors
    /// The device reports an error.
    fn identity(&self, device: u32) -> Result<String, String>;

    /// Whether kernels of a device can access the memory of another device of this process.
    ///
    /// # Errors
    /// Why they cannot.
    fn reaches(&self, device: u32, other: u32) -> Result<(), String>;

    /// Whether other devices see each LL128 line in host memory whole or not at all.
    fn keeps_lines(&self) -> bool;

    /// Whether a kernel of a device stores each LL128 line as a whole to memory of another device
    /// of this host, given by its [`Self::identity`]. NVLink keeps lines, PCIe may split them.
    ///
    /// # Errors
    /// The driver does not say.
    fn keeps_lines_to(&self, device: u32, identity: &str) -> Result<bool, String>;

    /// Handle types that let other processes join a multicast of this device, best first; empty if
    /// only threads of this process can. Call it after [`Self::allocate_for_peers`].
    ///
    /// # Errors
    /// Why the device, the driver or the links do not support multicast (NVLS).
    fn multicast_kinds(&self, device: u32) -> Result<Vec<String>, String>;

    /// Whether one device can hold several members of a multicast.
    fn multicasts_within_devices(&self) -> bool;

    /// Creates a multicast object with this device as its first member. A store to its address goes
    /// to all members; a load reduces over all. Returns this device's part and a handle.
    ///
    /// # Errors
    /// Multicast is not supported, or there is not enough memory.
    fn begin_multicast(
        &self,
        device: u32,
        team: &Team,
    ) -> Result<(Self::Multicast, String), String>;

    /// Joins a multicast object by the creator's handle. Returns this device's part and a handle.
    ///
    /// # Errors
    /// The handle cannot be opened, the device is no member, or there is not enough memory.
    fn join_multicast(
        &self,
        device: u32,
        team: &Team,
        word: &str,
    ) -> Result<(Self::Multicast, String), String>;

    /// Binds this device's memory after all members have joined. `words` has the handles of all
    /// ranks in order. Kernels may use the object once all members have bound their memory.
    ///
    /// # Errors
    /// There is not enough memory, or the caller's cannot be bound.
    fn bind_multicast(
        &self,
        device: u32,
        part: &mut Self::Multicast,
        words: &[String],
    ) -> Result<MulticastAddresses, String>;

    /// The part of a caller's allocation that holds a range of as many bytes as the team has, and
    /// to which a multicast of the team can be bound.
    ///
    /// # Errors
    /// Why the memory cannot be bound, and what memory can.
    fn bindable(&self, _device: u32, _address: u64, _team: &Team) -> Result<Bindable, String> {
        Err(format!(
            "the {} backend binds no memory of callers",
            self.name()
        ))
    }

    /// Makes the buffers of a launch accessible to kernels and copies the input there. With an
    /// address `at`, the staging buffer is there and holds as many bytes as [`places`] returns.
    /// `seen` says whether kernels of other devices access the buffers.
    ///
    /// # Errors
    /// There is not enough memory.
    fn stage(
        &self,
        device: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
        seen: bool,
    ) -> Result<LaunchMemory<Self::Block>, String>;

    /// Copies a staged output back to the caller's buffer.
    ///
    /// # Errors
    /// The device reports an error.
    fn copy_back(
        &self,
        device: u32,
        staged: LaunchMemory<Self::Block>,
        memory: &Memory<'_>,
    ) -> Result<(), String>;

    /// Like [`Self::stage`], of memory of the device, without copies.
    ///
    /// # Errors
    /// There is not enough memory; or the device has no streams.
    fn locate(
        &self,
        _device: u32,
        _memory: &Memory<'_>,
        _at: Option<u64>,
        _seen: bool,
    ) -> Result<LaunchMemory<Self::Block>, String> {
        Err(format!("the {} backend has no streams", self.name()))
    }

    /// The memory of the device that holds a buffer of a caller and that other processes can open;
    /// `None`: there is none such.
    fn allocation(&self, _device: u32, _address: u64, _bytes: u64) -> Option<Allocation> {
        None
    }

    /// Offers an allocation to other processes. Returns a handle without spaces, and what is kept
    /// as long as they may open it.
    ///
    /// # Errors
    /// The driver exports no handle.
    fn offer(
        &self,
        _device: u32,
        _allocation: &Allocation,
    ) -> Result<(String, Option<Self::Block>), String> {
        Err(format!(
            "the {} backend shares no memory of callers",
            self.name()
        ))
    }

    /// Opens an allocation that another process offers, until the returned block is dropped.
    /// Returns the block with the address of its `bytes` bytes.
    ///
    /// # Errors
    /// It cannot be opened, or is shorter.
    fn open(&self, _device: u32, _word: &str, _bytes: u64) -> Result<(Self::Block, u64), String> {
        Err(format!(
            "the {} backend shares no memory of callers",
            self.name()
        ))
    }

    /// Takes the staging buffer of a launch that was submitted, for later ones of the device.
    fn take_back(&self, _device: u32, _staged: LaunchMemory<Self::Block>) {}

    /// Time of a copy of this many bytes within a device's memory by its clock, µs; 0: it has none.
    ///
    /// # Errors
    /// There is not enough memory, or the device reports an error.
    fn copy_time_us(&self, _device: u32, _bytes: u64) -> Result<f64, String> {
        Ok(0.0)
    }

    /// Whether processes that share a device take turns in time slices.
    fn takes_turns(&self) -> bool {
        true
    }

    /// Waits for a device, so that errors of its kernels show that no call has reported yet.
    ///
    /// # Errors
    /// A kernel failed.
    fn synchronize(&self, _device: u32) -> Result<(), String> {
        Ok(())
    }

    /// Blocks of a kernel that a device can have resident at once.
    ///
    /// # Errors
    /// The kernel is not available for this device.
    fn resident_blocks(&self, device: u32, kernel: Kernel, threads: u32) -> Result<u32, String>;

    /// Starts one kernel per device, with all parts resident at once.
    ///
    /// # Errors
    /// A device cannot hold so many blocks at once, or reports an error.
    fn start(&self, starts: &[Start<'_>], times: Repeats) -> Result<Self::Running, String>;
}

/// Device memory that NICs can access.
#[derive(Debug)]
pub struct NicMemory<B> {
    /// The memory, freed on drop.
    pub block: B,
    /// The memory's address.
    pub address: u64,
    /// How NICs address the memory.
    pub owner: Owner,
}

/// How often kernels run in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Number of runs.
    pub count: u32,
    /// Runs grouped into a graph, if the driver supports graphs; 0: no graph.
    pub graph: u32,
}

/// Offsets of input and output in a staging buffer, and the buffer's length: at most both
/// buffers and 512 bytes. Overlapping buffers keep their relative position, because in-place
/// programs rely on it; others are placed one after the other.
pub fn places(input: Range<u64>, output: Range<u64>) -> (u64, u64, u64) {
    let overlap = input.start < output.end && output.start < input.end;
    // The buffers keep their offset from a multiple of `line`, so that elements stay aligned.
    let line = 256;
    if overlap {
        let start = input.start.min(output.start);
        let base = start - start % line;
        let end = input.end.max(output.end);
        (input.start - base, output.start - base, end - base)
    } else {
        let bytes = |range: &Range<u64>| range.end - range.start;
        let second = bytes(&input).next_multiple_of(line);
        (0, second, second + bytes(&output))
    }
}

/// The multicast object to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Number of members.
    pub ranks: u32,
    /// Bytes of memory of each member.
    pub bytes: u64,
    /// Handle type for members in other processes, one of [`DeviceDriver::multicast_kinds`]; `None`
    /// if all members are threads of this process.
    pub kind: Option<String>,
    /// The caller's memory to bind; `None`: new memory.
    pub memory: Option<Bindable>,
}

/// Addresses of a multicast object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastAddresses {
    /// Multicast address: all members' memory.
    pub all: u64,
    /// Address of the own member's memory.
    pub own: u64,
    /// Bytes of each member's memory, at least those asked for; equal for all members.
    pub bytes: u64,
}

/// One kernel launch on a device.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The device.
    pub device: u32,
    /// The kernel.
    pub kernel: Kernel,
    /// The parts of the launch.
    pub parts: &'a [LaunchPart],
    /// Threads per block.
    pub threads: u32,
    /// Whether the kernels wait for other processes or a network.
    pub remote: bool,
    /// The streams in whose order the kernel runs: behind their work, and before what they get
    /// later. Empty: it runs at once.
    pub streams: &'a [u64],
    /// Copies in stream order before the kernel.
    pub before: &'a [DeviceCopy],
    /// Copies in stream order behind the kernel.
    pub after: &'a [DeviceCopy],
}

/// A copy within a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceCopy {
    /// From this address.
    pub from: u64,
    /// To this address.
    pub to: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Start<'_> {
    /// Number of blocks: one for each share of each lane.
    pub fn blocks(&self) -> u32 {
        let blocks = self.parts.iter().map(|part| part.lane_count * part.shares);
        blocks.sum()
    }
}

/// Kernels that were started.
pub trait Running {
    /// Returns `true` once the kernels have ended.
    ///
    /// # Errors
    /// The kernels failed.
    fn poll(&mut self) -> Result<bool, String>;

    /// A number that changes while kernels that run several times make progress.
    fn progress(&self) -> u64 {
        0
    }

    /// Whether the kernels have begun; those in the order of a stream wait for its earlier work.
    fn has_begun(&mut self) -> bool {
        true
    }

    /// Whether no kernel runs any more: all have ended or failed.
    fn is_over(&mut self) -> bool {
        !matches!(self.poll(), Ok(false))
    }

    /// Tells the kernels to end early.
    fn abort(&mut self);

    /// Why no graph was used although one was requested.
    fn without_graph(&mut self) -> Option<String>;

    /// Run time by the devices' clocks once the kernels have ended, µs; `None` if not measured.
    fn time_us(&mut self) -> Option<f64>;
}

/// The buffers of a launch as kernels see them.
#[derive(Debug)]
pub struct LaunchMemory<B> {
    /// Address of the input.
    pub input: u64,
    /// Address of the output.
    pub output: u64,
    /// Whether `output` is a staging buffer that is copied back to the caller's.
    pub staged: bool,
    /// The memory that was allocated as a staging buffer.
    pub staging: Option<B>,
}

impl<B> LaunchMemory<B> {
    /// The caller's buffers, where they are.
    pub fn of_caller(memory: &Memory<'_>) -> Self {
        Self {
            input: memory.input().expose_provenance() as u64,
            output: memory.output().expose_provenance() as u64,
            staged: false,
            staging: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_overlap_stay_so() {
        // The second of four blocks of 100 bytes, and all four.
        assert_eq!(places(4196..4296, 4096..4496), (100, 0, 400));
        // One after the other, each on a line.
        assert_eq!(places(4000..4100, 9000..9050), (0, 256, 306));
        assert_eq!(places(5000..5000, 5000..5100), (0, 0, 100));
    }
}
