//! Runs the kernels (`/kernels`) on the processor, so that they are tested without a GPU.
//!
//! The host's C++ compiler compiles the GPU's sources. Each GPU thread is a fiber, and one thread
//! of this process runs all blocks of a launch in an order that a seed decides. With a seed other
//! than 0, threads are starved for a while, and others run after a store that they wait for. If no
//! thread can make progress, the launch fails and reports where the threads of each block are.
//! Memory is the processor's, or memory that keeps no more order than a GPU promises
//! ([`Emulator::with_weak_memory`]).
//!
//! Several processes with an emulator each act as several devices of one host. Memory for peers is
//! a file that the others map; a multicast is an address range in each process with a table of the
//! files of all. A launch that waits for other processes runs on a thread of the emulator until it
//! ends or is aborted.
//!
//! [`checked`] runs a kernel for another program that says which memory it may access.
//!
//! [`Emulator`] is the [`DeviceDriver`]; [`communicators`] creates ranks on it. A [`Bug`] can be
//! planted in the kernels, to see whether tests find it.

mod block;
pub mod checked;
pub mod counts;
#[cfg(test)]
mod elements;
mod native;
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use device_runtime::driver::{Start, places};
use device_runtime::{
    Allocation, Bindable, DeviceDriver, Kernel, Kernels, LaunchMemory, LaunchOptions,
    MulticastAddresses, NicMemory, Piece, ProcessRanks, Repeats, Team,
};
use executor::{Communicator, Error, Memory, Settings};
use shared_memory::Mapping;

use block::{Block, Multicast, SharedMemory};
use counts::{AccessCounter, LaunchCounts};
pub use running::EmulatedLaunch;
use running::{Work, Worker};

/// A bug in the kernels. `mutations.rs` has its edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// None.
    None,
    /// Workers report a step as done before they move its data: a missing barrier.
    EarlyDone,
    /// A sender does not wait for a free slot.
    NoCredit,
    /// A receiver frees a slot before it is read.
    EarlyCredit,
    /// LL lines have the flag of the step before.
    WrongFlag,
    /// The waiting warp does not wait until its place in shared memory is free.
    NoFree,
    /// A sender does not announce what it posted.
    NoTail,
    /// Signals of peers are not awaited.
    NoSignal,
    /// The threads of a warp do not wait for the flag of their LL128 line.
    NoVote,
    /// Old LL flags are not cleared before step numbers wrap around.
    NoCleaning,
    /// Loads do not acquire and stores do not release. On a processor that keeps the order of
    /// stores only weak memory or ThreadSanitizer shows it. The same holds for the next four.
    WeakFence,
    /// Loads do not acquire.
    NoAcquire,
    /// Stores do not release.
    NoRelease,
    /// The flag of one half of an LL line is not checked.
    OneFlag,
    /// The threads that store an LL128 line do not store it together.
    SplitLine,
    /// Of several blocks of a lane, only the first one's signals are awaited.
    OneShare,
    /// The places of ranks' registered buffers are not compared.
    NoComparison,
}

/// The processor as a device for kernels.
#[derive(Debug)]
pub struct Emulator {
    seed: AtomicU64,
    bug: Bug,
    weak: bool,
    fabric: bool,
    multicast_bytes: u64,
    number: u64,
    shared: SharedMemory,
    worker: Worker,
    counting: Option<AccessCounter>,
}

/// Number of emulators of this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The handle type of multicasts: files that other processes map.
const FILE: &str = "file";

impl Emulator {
    /// Creates an emulator. Launches run in orders that follow from the seed; 0: the simplest
    /// order.
    pub fn new(seed: u64, bug: Bug) -> Self {
        Self {
            seed: AtomicU64::new(seed),
            bug,
            weak: false,
            fabric: false,
            multicast_bytes: u64::MAX,
            number: MADE.fetch_add(1, Ordering::Relaxed),
            shared: SharedMemory::default(),
            worker: Worker::default(),
            counting: None,
        }
    }

    /// Uses memory that keeps no more order than a GPU promises: a block's stores become visible to
    /// others late and in any order, and a block may see an old value again until it acquires. Only
    /// the kernels that move, or reduce `i32` or `u8`, are compiled for it.
    #[must_use]
    pub fn with_weak_memory(self) -> Self {
        Self { weak: true, ..self }
    }

    /// Lets processes that act as other hosts open its memory, as if a fabric connected GPUs.
    #[must_use]
    pub fn with_fabric(self) -> Self {
        Self {
            fabric: true,
            ..self
        }
    }

    /// Limits the memory for a multicast, bytes; 0: no multicast.
    #[must_use]
    pub fn with_multicast_bytes(self, multicast_bytes: u64) -> Self {
        Self {
            multicast_bytes,
            ..self
        }
    }

    /// Counts the accesses of launches that wait for no other process, with a cache of this many
    /// bytes at the memory of each device. Only the kernels that move, or reduce `u8` or `f32`, are
    /// compiled for it.
    #[must_use]
    pub fn with_counts(self, cache_bytes: u64) -> Self {
        Self {
            counting: Some(AccessCounter::new(cache_bytes)),
            ..self
        }
    }

    /// Takes the counts since the last call.
    pub fn take_counts(&self) -> LaunchCounts {
        let counting = self.counting.as_ref();
        counting.map(AccessCounter::take).unwrap_or_default()
    }

    /// Notes whose memory this is.
    fn note(&self, device: u32, address: u64, bytes: u64) {
        if let Some(counting) = &self.counting {
            counting.note(device, address, bytes);
        }
    }

    /// A part of a multicast, and the handle of its memory.
    fn part(&self, device: u32, team: &Team) -> Result<(Multicast, String), String> {
        let Team { bytes, kind, .. } = team;
        if *bytes > self.multicast_bytes {
            let most = self.multicast_bytes;
            return Err(format!(
                "the emulated device has memory for {most} bytes, not for {bytes}"
            ));
        }
        if let Some(callers) = &team.memory {
            let own = (None, callers.base);
            return Ok((Multicast::of(own, *bytes), callers.base.to_string()));
        }
        let (block, address) = match kind {
            Some(_) => self.shared.allocate(*bytes)?,
            None => Block::new(*bytes)?,
        };
        let word = match kind {
            Some(_) => self.shared.export(address)?,
            None => address.to_string(),
        };
        self.note(device, address, *bytes);
        Ok((Multicast::of((Some(block), address), *bytes), word))
    }

    /// The address of a member's memory, by its handle.
    fn place(&self, part: &Multicast, word: &str) -> Result<u64, String> {
        if let Ok(address) = word.parse() {
            return Ok(address);
        }
        match self.shared.export(part.own())? == word {
            // Weak memory must know it by one address.
            true => Ok(part.own()),
            false => self.shared.import(word, part.bytes()),
        }
    }

    fn next_seed(&self) -> u64 {
        let seed = self.seed.load(Ordering::Relaxed);
        if seed != 0 {
            // Another order for every launch, equal in every run of the test.
            self.seed
                .store(seed.wrapping_add(1).max(1), Ordering::Relaxed);
        }
        seed
    }
}

/// Creates ranks on the emulator, one communicator each.
///
/// # Errors
/// There is not enough memory.
pub fn communicators(
    ranks: u32,
    settings: &Settings,
    emulator: Emulator,
    options: LaunchOptions,
) -> Result<Vec<Communicator<Kernels<Emulator>>>, Error> {
    let process_ranks = ProcessRanks::new(emulator, options, vec![0; ranks as usize]);
    Communicator::local(ranks, settings, |rank| {
        Kernels::new(Arc::clone(&process_ranks), rank)
    })
}

impl DeviceDriver for Emulator {
    type Block = Block;
    type Multicast = Multicast;
    type Running = EmulatedLaunch;

    fn name(&self) -> &'static str {
        "emulator"
    }

    fn allocate(&self, device: u32, bytes: u64) -> Result<(Block, u64), String> {
        let (block, address) = Block::new(bytes)?;
        self.note(device, address, bytes);
        Ok((block, address))
    }

    fn write(&self, _device: u32, address: u64, bytes: &[u8]) -> Result<(), String> {
        native::write(address, bytes);
        Ok(())
    }

    fn read(&self, _device: u32, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        native::read(address, bytes);
        Ok(())
    }

    fn allocate_for_peers(&self, _device: u32, bytes: u64) -> Result<(Block, u64), String> {
        self.shared.allocate(bytes)
    }

    fn export(&self, _device: u32, address: u64) -> Result<String, String> {
        self.shared.export(address)
    }

    fn import(&self, _device: u32, word: &str, bytes: u64) -> Result<u64, String> {
        self.shared.import(word, bytes)
    }

    fn spans_hosts(&self, _word: &str) -> bool {
        self.fabric
    }

    fn register_host(&self, _device: u32, memory: &Arc<Mapping>) -> Result<(Block, u64), String> {
        Ok((Block::Mapped(Arc::clone(memory)), block::address(memory)))
    }

    fn rdma(&self, _device: u32) -> Result<(), String> {
        Ok(())
    }

    fn allocate_for_nics(&self, _device: u32, bytes: u64) -> Result<NicMemory<Block>, String> {
        block::for_nics(bytes)
    }

    fn identity(&self, device: u32) -> Result<String, String> {
        let process = std::process::id();
        Ok(format!("emulator-{process}-{}-{device}", self.number))
    }

    fn reaches(&self, _device: u32, _other: u32) -> Result<(), String> {
        Ok(())
    }

    fn keeps_lines(&self) -> bool {
        // A line's flag is stored after the rest of it.
        true
    }

    fn keeps_lines_to(&self, _device: u32, _identity: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn multicast_kinds(&self, _device: u32) -> Result<Vec<String>, String> {
        match self.multicast_bytes {
            0 => Err("the emulated device has no multicast (NVLS)".to_owned()),
            _ => Ok(vec![FILE.to_owned()]),
        }
    }

    fn multicasts_within_devices(&self) -> bool {
        true
    }

    fn begin_multicast(&self, device: u32, team: &Team) -> Result<(Multicast, String), String> {
        self.part(device, team)
    }

    fn join_multicast(
        &self,
        device: u32,
        team: &Team,
        _word: &str,
    ) -> Result<(Multicast, String), String> {
        // A multicast consists only of the members' memory.
        self.part(device, team)
    }

    fn bind_multicast(
        &self,
        _device: u32,
        part: &mut Multicast,
        words: &[String],
    ) -> Result<MulticastAddresses, String> {
        let places = words.iter().map(|word| self.place(part, word));
        let places: Result<Vec<u64>, String> = places.collect();
        Ok(MulticastAddresses {
            all: part.bind(&places?)?,
            own: part.own(),
            bytes: part.bytes(),
        })
    }

    fn bindable(&self, device: u32, address: u64, team: &Team) -> Result<Bindable, String> {
        if team.kind.is_some() {
            return Err(
                "the emulator registers memory of callers only among threads of one process"
                    .to_owned(),
            );
        }
        let allocation = self
            .allocation(device, address, team.bytes)
            .ok_or_else(|| format!("{address:#x} is no memory of the emulator"))?;
        Ok(Bindable {
            base: address,
            bytes: team.bytes,
            allocation,
        })
    }

    /// The emulator knows nothing of memory of callers: each address is an allocation.
    fn allocation(&self, _device: u32, address: u64, _bytes: u64) -> Option<Allocation> {
        (address != 0).then(|| Allocation {
            base: 0,
            pieces: vec![Piece {
                bytes: u64::MAX,
                id: 0,
            }],
            is_of_peers: true,
        })
    }

    fn stage(
        &self,
        device: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
        _seen: bool,
    ) -> Result<LaunchMemory<Block>, String> {
        let input = memory.input().expose_provenance() as u64;
        let output = memory.output().expose_provenance() as u64;
        self.note(device, input, memory.input_bytes() as u64);
        self.note(device, output, memory.output_bytes() as u64);
        let Some(at) = at else {
            return Ok(LaunchMemory::of_caller(memory));
        };
        let (input_bytes, output_bytes) = (memory.input_bytes(), memory.output_bytes());
        let (input_at, output_at, _) = places(
            input..input + input_bytes as u64,
            output..output + output_bytes as u64,
        );
        native::copy(input, at + input_at, input_bytes);
        Ok(LaunchMemory {
            input: at + input_at,
            output: at + output_at,
            staged: true,
            staging: None,
        })
    }

    fn copy_back(
        &self,
        _device: u32,
        own: LaunchMemory<Block>,
        memory: &Memory<'_>,
    ) -> Result<(), String> {
        if own.staged {
            let output = memory.output().expose_provenance() as u64;
            native::copy(own.output, output, memory.output_bytes());
        }
        Ok(())
    }

    fn resident_blocks(&self, _device: u32, _kernel: Kernel, _threads: u32) -> Result<u32, String> {
        // Enough for the tests, and quick to emulate.
        Ok(64)
    }

    fn start(&self, starts: &[Start<'_>], repeats: Repeats) -> Result<EmulatedLaunch, String> {
        let abort = Arc::new(AtomicU32::new(0));
        let seeds = || (0..repeats.count).map(|_| self.next_seed()).collect();
        let mut work: Vec<Work> = Vec::new();
        for start in starts {
            // Kernels of several devices wait for each other, so they run together.
            let own = Work::of(start, (self.bug, self.weak), seeds(), &abort);
            match work.last_mut() {
                Some(last) => {
                    let apart = last.join(own);
                    work.extend(apart.err());
                }
                None => work.push(own),
            }
        }
        if work.iter().any(|work| work.remote) {
            return self.worker.start(work, abort);
        }
        work.iter()
            .try_for_each(|work| work.run(self.counting.as_ref()))?;
        Ok(EmulatedLaunch::ended(abort))
    }
}
