//! The state that the ranks of this process share: the driver, its memory, and the gang that
//! launches them.

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use executor::Transport;
use program::BoundProgram;
use shared_memory::Mapping;

use crate::driver::{DeviceDriver, Repeats};
use crate::gang::Gang;
use crate::layout::MOST_SHARES;
use crate::options::LaunchOptions;

/// The time that a lane of a launch took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The rank.
    pub rank: u32,
    /// The launch's number.
    pub launch: u64,
    /// The lane's channel.
    pub channel: u16,
    /// The lane's index, from 0.
    pub lane: u32,
    /// Begin, ns of the device's clock.
    pub begin_ns: u64,
    /// End, ns of the device's clock.
    pub end_ns: u64,
}

/// The transport from a rank of this process to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTransport {
    /// The rank.
    pub rank: u32,
    /// The peer.
    pub peer: u32,
    /// The transport.
    pub transport: Transport,
    /// Why ranks of one host do not use P2P.
    pub fallen_back: Option<String>,
    /// For NET: whether NICs can access the memory of both devices. The error has the reason if
    /// only this rank's device is out of their reach.
    pub rdma: Result<(), Option<String>>,
    /// Whether the peer is in another process and on the same device.
    pub shares_device: bool,
}

/// Two devices of this process of which the first cannot be believed to access the memory of the
/// second, and why.
pub(crate) type Disproved = (u32, u32, String);

/// Most spans that are stored.
const MOST_SPANS: usize = 1 << 20;

/// Device memory and, if it maps host memory, that mapping. Dropped in this order.
type KeptMemory = (Box<dyn Any + Send + Sync>, Option<Arc<Mapping>>);

/// The state that the ranks of this process share.
pub struct ProcessRanks<M: DeviceDriver> {
    /// Runs the kernels.
    pub driver: M,
    /// Launch options.
    pub options: LaunchOptions,
    pub(crate) gang: Gang,
    devices: Vec<u32>,
    /// Memory of connections, kept until the last rank is gone because peers use it. Host memory is
    /// unregistered from its device before it is unmapped.
    blocks: Mutex<Vec<KeptMemory>>,
    repeat: AtomicU32,
    graph: AtomicU32,
    without_graph: Mutex<Option<String>>,
    without_multicast: Mutex<Option<String>>,
    reached: Mutex<Vec<PeerTransport>>,
    disproved: OnceLock<Result<Vec<Disproved>, String>>,
    time_ns: AtomicU64,
    copies_ns: AtomicU64,
    spans: Mutex<Vec<Span>>,
}

/// The values are valid after a panic, too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: DeviceDriver> ProcessRanks<M> {
    /// Creates the shared state; rank i runs on device `devices[i]`.
    pub fn new(driver: M, options: LaunchOptions, devices: Vec<u32>) -> Arc<Self> {
        let ranks = devices.len();
        Arc::new(Self {
            driver,
            options,
            gang: Gang::new(ranks),
            devices,
            blocks: Mutex::default(),
            repeat: AtomicU32::new(1),
            graph: AtomicU32::new(0),
            without_graph: Mutex::default(),
            without_multicast: Mutex::default(),
            reached: Mutex::default(),
            disproved: OnceLock::new(),
            time_ns: AtomicU64::new(0),
            copies_ns: AtomicU64::new(0),
            spans: Mutex::default(),
        })
    }

    /// The device of a rank.
    pub fn device(&self, rank: u32) -> u32 {
        let devices = &self.devices;
        devices.get(rank as usize).copied().unwrap_or_default()
    }

    /// Waits for all devices, so that errors of kernels show that no call has reported yet.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn synchronize(&self) -> Result<(), String> {
        let mut devices = self.with_first_ranks().into_iter();
        devices.try_for_each(|(device, _)| self.driver.synchronize(device))
    }

    /// Each device, with the first rank on it.
    fn with_first_ranks(&self) -> Vec<(u32, u32)> {
        let mut devices: Vec<(u32, u32)> = self.devices.iter().copied().zip(0..).collect();
        devices.sort_unstable();
        devices.dedup_by_key(|(device, _)| *device);
        devices
    }

    /// Access between the devices of this process that the driver grants and that is wrong. The
    /// first rank tries it; the others wait for it.
    pub(crate) fn disproved(
        &self,
        try_all: impl FnOnce(&[(u32, u32)]) -> Result<Vec<Disproved>, String>,
    ) -> Result<&[Disproved], String> {
        let tried = self.disproved.get_or_init(|| {
            let devices = self.with_first_ranks();
            match devices.len() {
                0..=1 => Ok(Vec::new()),
                _ => try_all(&devices),
            }
        });
        tried.as_deref().map_err(String::clone)
    }

    /// The number of ranks on this rank's device, itself included.
    pub fn ranks_beside(&self, rank: u32) -> u32 {
        let own = self.device(rank);
        let beside = self.devices.iter().filter(|device| **device == own);
        u32::try_from(beside.count()).unwrap_or(u32::MAX)
    }

    /// Blocks of a rank of which `resident` are resident at once, where nobody asks for more: at
    /// most [`LaunchOptions::most_blocks`], and a quarter, so that kernels of several communicators
    /// never wait for each other's room.
    pub(crate) fn usual_blocks(&self, resident: u32) -> u32 {
        match self.options.most_blocks {
            0 => resident,
            most => most.min(resident / 4).max(1),
        }
    }

    /// Blocks per lane, if each rank can have `blocks` resident blocks. FIFO slots and their counts
    /// belong to one block, so lanes with FIFOs have one.
    pub fn shares(&self, blocks: u32, bound: &BoundProgram) -> u32 {
        // Multicast reads what every block of a rank stored, and no signal orders those stores.
        if !bound.receives.is_empty() || !bound.sends.is_empty() || bound.multicasts {
            return 1;
        }
        let lanes = u32::try_from(bound.lanes.len()).unwrap_or(u32::MAX);
        let room = self.usual_blocks(blocks) / lanes.max(1);
        room.min(self.options.most_shares).clamp(1, MOST_SHARES)
    }

    /// Runs every launch `times` times in a row, for timing. This changes in-place reductions.
    pub fn set_repeat(&self, times: u32) {
        self.repeat.store(times.max(1), Ordering::Relaxed);
        self.copies_ns.store(0, Ordering::Relaxed);
    }

    /// Groups this many launches into a CUDA graph; 0: no graph.
    ///
    /// A launch that a graph repeats keeps its first number, and peers' buffer tables are compared
    /// with that. This is correct: in a direct transfer all ranks signal before and after they
    /// access each other's memory, which separates the runs, and the buffer tables are the same in
    /// all of them.
    pub fn set_graph(&self, launches: u32) {
        self.graph.store(launches, Ordering::Relaxed);
    }

    /// Takes the reason why a launch since the last call used no graph although one was requested.
    pub fn take_without_graph(&self) -> Option<String> {
        lock(&self.without_graph).take()
    }

    pub(crate) fn note_without_graph(&self, why: Option<String>) {
        let mut known = lock(&self.without_graph);
        *known = known.take().or(why);
    }

    /// Takes the reason why switches reduce nothing (NVLS) although they were to. It is told once.
    pub fn take_without_multicast(&self) -> Option<String> {
        lock(&self.without_multicast).take()
    }

    pub(crate) fn note_without_multicast(&self, why: Option<String>) {
        let mut known = lock(&self.without_multicast);
        *known = known.take().or(why);
    }

    pub(crate) fn repeats(&self) -> Repeats {
        Repeats {
            count: self.repeat.load(Ordering::Relaxed),
            graph: self.graph.load(Ordering::Relaxed),
        }
    }

    /// Transports from ranks of this process, by rank and peer. Empty before the ranks have met.
    pub fn reached(&self) -> Vec<PeerTransport> {
        lock(&self.reached).clone()
    }

    pub(crate) fn note_reached(&self, all: impl Iterator<Item = PeerTransport>) {
        let mut reached = lock(&self.reached);
        reached.extend(all);
        reached.sort_by_key(|it| (it.rank, it.peer));
    }

    /// Time of the last launch with all repetitions by the devices' clocks, µs; 0 if not measured.
    pub fn last_time_us(&self) -> f64 {
        self.time_ns.load(Ordering::Relaxed) as f64 / 1e3
    }

    pub(crate) fn set_time(&self, time_us: Option<f64>) {
        let time_ns = time_us.map_or(0, |time_us| (time_us * 1e3) as u64);
        self.time_ns.store(time_ns, Ordering::Relaxed);
    }

    /// Time of the copies into and out of a window that one launch needs, µs, of the rank with the
    /// longest; 0 if there is no window or nothing is repeated for timing. [`Self::last_time_us`]
    /// does not contain it.
    pub fn copies_us(&self) -> f64 {
        self.copies_ns.load(Ordering::Relaxed) as f64 / 1e3
    }

    pub(crate) fn note_copies(&self, time_us: f64) {
        self.copies_ns
            .fetch_max((time_us * 1e3) as u64, Ordering::Relaxed);
    }

    /// Takes the spans recorded since the last call; of repeated launches, only those of the last.
    pub fn take_spans(&self) -> Vec<Span> {
        std::mem::take(&mut lock(&self.spans))
    }

    pub(crate) fn note(&self, spans: impl Iterator<Item = Span>) {
        let mut all = lock(&self.spans);
        let room = MOST_SPANS.saturating_sub(all.len());
        all.extend(spans.take(room));
    }

    /// Keeps a block until the last rank is gone, then the host memory that it maps.
    pub(crate) fn keep(&self, block: impl Any + Send + Sync, of: Option<Arc<Mapping>>) {
        lock(&self.blocks).push((Box::new(block), of));
    }
}
