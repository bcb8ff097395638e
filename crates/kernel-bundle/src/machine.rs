//! What runs kernels.

use std::ops::Range;
use std::sync::Arc;

use executor::Memory;
use shared_memory::Mapping;
use shared_memory::fifo::in_place::Owner;

use crate::entry::Kernel;
use crate::layout::Part;

/// Something that runs kernels: the GPUs of a process, or the emulator. Addresses are those that its kernels use.
///
/// Errors are sentences that say what is wrong and what to do.
pub trait DeviceDriver: Send + Sync + 'static {
    /// Memory of the machine, given back when it is dropped.
    type Block: Send + Sync + 'static;
    /// A device's part in memory of several devices that one address stands for, given back when it is dropped.
    type Multicast: Send + Sync + 'static;
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

    /// As [`Self::allocate`], of a kind that other processes can open.
    ///
    /// # Errors
    /// There is not enough, or no such kind.
    fn allocate_for_peers(&self, device: u32, bytes: u64) -> Result<(Self::Block, u64), String>;

    /// How another process opens memory that has this address here, in one word.
    ///
    /// # Errors
    /// The memory is not of [`Self::allocate_for_peers`], or the machine has no such way.
    fn export(&self, device: u32, address: u64) -> Result<String, String>;

    /// The address of memory that another process exported, with so many bytes from there. It stays open as long as the
    /// machine.
    ///
    /// # Errors
    /// It cannot be opened, or has fewer bytes.
    fn import(&self, device: u32, word: &str, bytes: u64) -> Result<u64, String>;

    /// Whether a word may be opened by processes of other hosts, too.
    fn spans_hosts(&self, word: &str) -> bool;

    /// Lets kernels of a device access memory of the host, until what is given back here is dropped; and its address for
    /// them.
    ///
    /// # Errors
    /// The device cannot access it.
    fn register_host(
        &self,
        device: u32,
        memory: &Arc<Mapping>,
    ) -> Result<(Self::Block, u64), String>;

    /// Whether NICs can read and write memory of a device (GPUDirect RDMA).
    ///
    /// # Errors
    /// They cannot, and why.
    fn rdma(&self, device: u32) -> Result<(), String>;

    /// As [`Self::allocate`], of a kind that NICs read and write.
    ///
    /// # Errors
    /// There is not enough, or no such kind.
    fn allocate_for_nics(&self, device: u32, bytes: u64) -> Result<NicMemory<Self::Block>, String>;

    /// What tells a device from all others of this host, in one word.
    ///
    /// # Errors
    /// The device does not answer.
    fn identity(&self, device: u32) -> Result<String, String>;

    /// Whether kernels of a device access the memory of another one of this process.
    ///
    /// # Errors
    /// They do not, and why.
    fn reaches(&self, device: u32, other: u32) -> Result<(), String>;

    /// Whether another device sees an LL128 line in memory of the host as a whole or not at all.
    fn keeps_lines(&self) -> bool;

    /// The kinds of handles by which other processes join a multicast of this device, the best first; [`Self::spans_hosts`]
    /// knows them. None if only threads of this process can. Asked once memory for peers was made.
    ///
    /// # Errors
    /// The device, the driver or the links have no multicast (NVLS), and why.
    fn multicast_kinds(&self, device: u32) -> Result<Vec<String>, String>;

    /// Whether several members of a multicast may be on one device.
    fn multicasts_within_devices(&self) -> bool;

    /// Begins a multicast: memory on each of some devices, and an address that stands for all of it. What is stored there is
    /// stored on all devices, what is read there is reduced over all. This device is a member then. Answers its part, and
    /// a word for the others.
    ///
    /// # Errors
    /// There is no such multicast, or not enough memory.
    fn begin_multicast(
        &self,
        device: u32,
        team: &Team,
    ) -> Result<(Self::Multicast, String), String>;

    /// Becomes a member, by the word of who began it. Answers this device's part, and a word for the others.
    ///
    /// # Errors
    /// It cannot be opened, the device does not belong to it, or there is not enough memory.
    fn join_multicast(
        &self,
        device: u32,
        team: &Team,
        word: &str,
    ) -> Result<(Self::Multicast, String), String>;

    /// Binds memory of this device to it, when all are members. `words` are those of all, in the order of ranks. Kernels may
    /// use it when all have bound theirs.
    ///
    /// # Errors
    /// There is not enough memory.
    fn bind_multicast(
        &self,
        device: u32,
        part: &mut Self::Multicast,
        words: &[String],
    ) -> Result<Everywhere, String>;

    /// Makes the memory of a launch reachable for kernels, with the input in it; if an address is given, there, where are as
    /// many bytes as [`places`] says.
    ///
    /// # Errors
    /// There is not enough memory.
    fn lend(
        &self,
        device: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
    ) -> Result<LaunchMemory<Self::Block>, String>;

    /// Brings the output back to where the caller expects it.
    ///
    /// # Errors
    /// The device does not answer.
    fn give_back(
        &self,
        device: u32,
        lent: LaunchMemory<Self::Block>,
        memory: &Memory<'_>,
    ) -> Result<(), String>;

    /// Blocks that a device can run at the same time.
    ///
    /// # Errors
    /// The kernel cannot be had for this device.
    fn resident_blocks(&self, device: u32, kernel: Kernel, threads: u32) -> Result<u32, String>;

    /// Starts one kernel per device, all of whose parts run at the same time, some times in a row.
    ///
    /// # Errors
    /// A device cannot run so many blocks at once, or does not answer.
    fn start(&self, starts: &[Start<'_>], times: Times) -> Result<Self::Running, String>;
}

/// Memory of a device that NICs read and write.
#[derive(Debug)]
pub struct NicMemory<B> {
    /// It is given back when this is dropped.
    pub block: B,
    /// Its address.
    pub address: u64,
    /// How NICs find it.
    pub owner: Owner,
}

/// How often kernels run in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// So often.
    pub count: u32,
    /// So many of them are asked of a device together, as a graph that is run again and again, where the machine has such; 0
    /// is none.
    pub graph: u32,
}

/// Where input and output lie in memory that stands for a caller's two buffers: as they lie there, if they overlap, for a
/// program in place counts on it; else one behind the other. Bytes from its start, and how many there are: at most the
/// bytes of both and 512.
pub fn places(input: Range<u64>, output: Range<u64>) -> (u64, u64, u64) {
    let overlap = input.start < output.end && output.start < input.end;
    // A multiple of what GPUs like, with the caller's place in it kept, so that elements stay aligned.
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

/// What a multicast is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Members.
    pub ranks: u32,
    /// Bytes of memory of each.
    pub bytes: u64,
    /// Kind of the handle for members in other processes, one of [`DeviceDriver::multicast_kinds`];
    /// `None` if all members are threads of this process.
    pub kind: Option<String>,
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
    /// Whether they wait for kernels of other processes, or for a network.
    pub remote: bool,
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

    /// Why there was no graph though one was asked for; `None` if there was one, or none was asked for.
    fn without_graph(&mut self) -> Option<String>;

    /// How long they ran by the devices' clocks, µs, once they have ended; `None` if that was not measured.
    fn time_us(&mut self) -> Option<f64>;
}

/// Memory of a launch as kernels reach it.
#[derive(Debug)]
pub struct LaunchMemory<B> {
    /// Address of the input.
    pub input: u64,
    /// Address of the output.
    pub output: u64,
    /// Whether `output` is a staging buffer that is copied back to the caller's.
    pub staged: bool,
    /// Memory of the machine that was taken for that.
    pub staging: Option<B>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_overlap_stay_so() {
        // The second of four blocks of 100 bytes, and all of them.
        assert_eq!(places(4196..4296, 4096..4496), (100, 0, 400));
        // One behind the other, each on a line.
        assert_eq!(places(4000..4100, 9000..9050), (0, 256, 306));
        assert_eq!(places(5000..5000, 5000..5100), (0, 0, 100));
    }
}
