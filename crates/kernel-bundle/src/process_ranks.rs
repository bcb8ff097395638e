//! What the ranks of this process share: the machine, its memory, and the gang in which they are launched.

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use executor::Transport;
use executor::connections::SlotBytes;
use program::BoundProgram;
use shared_memory::Mapping;

use crate::gang::Gang;
use crate::layout::MOST_SHARES;
use crate::machine::{DeviceDriver, Times};

/// How kernels are launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Threads of a block: 64, and warps that move data.
    pub threads: u32,
    /// Data bytes of a slot, by protocol.
    pub slot_bytes: SlotBytes,
    /// Steps that connections have behind them when they are made, as if they had been used that often.
    pub first_step: u64,
    /// A flag that all lines of LL slots hold at first, as if they had been written that long ago; 0 is none.
    pub stale_flag: u32,
    /// Most blocks that carry out a lane together, 1 to 4. More blocks have more bytes under way, which a GPU with few ranks
    /// on it needs to fill its memory; lanes that use FIFOs have one block.
    pub most_shares: u32,
    /// Whether it is noted when each lane of each launch begins and ends ([`ProcessRanks::take_spans`]).
    pub trace: bool,
    /// Whether devices may access each other's memory (NCCL's `NCCL_P2P_DISABLE` says no).
    pub p2p: bool,
    /// Whether connections may lie in memory of the host where they may not (`NCCL_SHM_DISABLE` says no).
    pub shm: bool,
    /// Whether NICs may read and write memory of devices (GPUDirect RDMA).
    pub rdma: bool,
    /// Whether they may read it where that is so, to send (`NCCL_NET_GDR_READ=0` says no).
    pub rdma_read: bool,
    /// Whether what they write is flushed whatever the device is (`NCCL_NET_FORCE_FLUSH`).
    pub force_flush: bool,
}

/// When a lane of a launch began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The rank.
    pub rank: u32,
    /// The number of its launch.
    pub launch: u64,
    /// The channel that the lane works for.
    pub channel: u16,
    /// The lane, from 0.
    pub lane: u32,
    /// When it began by the device's clock, ns.
    pub begin_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
}

/// How a rank reaches another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The rank.
    pub rank: u32,
    /// The other one.
    pub peer: u32,
    /// How.
    pub transport: Transport,
    /// Why not by P2P, if both are on one host.
    pub fallen_back: Option<String>,
    /// Whether NICs reach the memory of both their devices, and if they do so only on other ranks, why not here. Of ranks that are
    /// reached by NET.
    pub rdma: Result<(), Option<String>>,
}

/// Most spans that are kept.
const MOST_SPANS: usize = 1 << 20;

impl Options {
    /// NCCL's slots (buffers of 512 KiB, 4800 KiB and 4 MiB in eight slots), and 12 warps that move data.
    pub const fn nccl() -> Self {
        Self {
            threads: 448,
            slot_bytes: SlotBytes {
                ll: 32_768,
                ll128: 576_000,
                simple: 524_288,
            },
            first_step: 0,
            stale_flag: 0,
            most_shares: MOST_SHARES,
            trace: false,
            p2p: true,
            shm: true,
            rdma: true,
            rdma_read: true,
            force_flush: false,
        }
    }
}

/// Memory, and the memory of the host that it stands for, if it does; in the order in which they are dropped.
type Kept = (Box<dyn Any + Send + Sync>, Option<Arc<Mapping>>);

/// What the ranks of this process share.
pub struct ProcessRanks<M: DeviceDriver> {
    /// What runs the kernels.
    pub machine: M,
    /// How they are launched.
    pub options: Options,
    pub(crate) gang: Gang,
    devices: Vec<u32>,
    /// Memory of connections: peers may use it as long as any rank is there. Where a device was told of memory of the host,
    /// it forgets that before the memory goes.
    blocks: Mutex<Vec<Kept>>,
    repeat: AtomicU32,
    graph: AtomicU32,
    without_graph: Mutex<Option<String>>,
    reached: Mutex<Vec<Reached>>,
    time_ns: AtomicU64,
    spans: Mutex<Vec<Span>>,
}

impl<M: DeviceDriver> ProcessRanks<M> {
    /// A process_ranks whose rank i runs on device `devices[i]`.
    pub fn new(machine: M, options: Options, devices: Vec<u32>) -> Arc<Self> {
        let ranks = devices.len();
        Arc::new(Self {
            machine,
            options,
            gang: Gang::new(ranks),
            devices,
            blocks: Mutex::default(),
            repeat: AtomicU32::new(1),
            graph: AtomicU32::new(0),
            without_graph: Mutex::default(),
            reached: Mutex::default(),
            time_ns: AtomicU64::new(0),
            spans: Mutex::default(),
        })
    }

    /// The device of a rank.
    pub fn device(&self, rank: u32) -> u32 {
        let devices = &self.devices;
        devices.get(rank as usize).copied().unwrap_or_default()
    }

    /// Ranks that share the device of this one.
    pub fn ranks_beside(&self, rank: u32) -> u32 {
        let own = self.device(rank);
        let beside = self.devices.iter().filter(|device| **device == own);
        u32::try_from(beside.count()).unwrap_or(u32::MAX)
    }

    /// Blocks that carry out each lane of a program together: as many as there is room for, if each rank may have so many
    /// blocks. Slots and their counts are one block's, so FIFOs have one.
    pub fn shares(&self, blocks: u32, bound: &BoundProgram) -> u32 {
        // Multicast mixes what all blocks of a rank stored, which no signal orders.
        if !bound.receives.is_empty() || !bound.sends.is_empty() || bound.multicasts {
            return 1;
        }
        let lanes = u32::try_from(bound.lanes.len()).unwrap_or(u32::MAX);
        let room = blocks / lanes.max(1);
        room.min(self.options.most_shares).clamp(1, MOST_SHARES)
    }

    /// Lets every launch be run so often in a row, to be timed. What reduces in place gives another result then.
    pub fn set_repeat(&self, times: u32) {
        self.repeat.store(times.max(1), Ordering::Relaxed);
    }

    /// Lets so many of the launches in a row be asked of the devices together, as a graph; 0 is none.
    ///
    /// A launch that a graph repeats keeps its first number, and peers' buffer tables are compared with
    /// that. This is correct: in a direct transfer all ranks signal before and after they access each
    /// other's memory, which separates the runs, and the buffer tables are the same in all of them.
    pub fn set_graph(&self, launches: u32) {
        self.graph.store(launches, Ordering::Relaxed);
    }

    /// Why there was no graph in some launch since the last call, though one was asked for.
    pub fn take_without_graph(&self) -> Option<String> {
        let mut why = self
            .without_graph
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        why.take()
    }

    pub(crate) fn set_without_graph(&self, why: Option<String>) {
        let mut known = self
            .without_graph
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *known = known.take().or(why);
    }

    pub(crate) fn times(&self) -> Times {
        Times {
            count: self.repeat.load(Ordering::Relaxed),
            graph: self.graph.load(Ordering::Relaxed),
        }
    }

    /// How ranks of this process reach others, once they have met: in the order of ranks, then of peers.
    pub fn reached(&self) -> Vec<Reached> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.clone()
    }

    pub(crate) fn note_reached(&self, all: impl Iterator<Item = Reached>) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.extend(all);
        reached.sort_by_key(|it| (it.rank, it.peer));
    }

    /// How long the last launch took by the devices' clocks, µs, all its repetitions together; 0 if that was not measured.
    pub fn last_time_us(&self) -> f64 {
        self.time_ns.load(Ordering::Relaxed) as f64 / 1e3
    }

    pub(crate) fn set_time(&self, time_us: Option<f64>) {
        let time_ns = time_us.map_or(0, |time_us| (time_us * 1e3) as u64);
        self.time_ns.store(time_ns, Ordering::Relaxed);
    }

    /// What was noted of launches since the last call, if the options ask for it; of launches in a row the last one.
    pub fn take_spans(&self) -> Vec<Span> {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut spans)
    }

    pub(crate) fn note(&self, spans: impl Iterator<Item = Span>) {
        let mut all = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_SPANS.saturating_sub(all.len());
        all.extend(spans.take(room));
    }

    /// Keeps memory until the last rank is gone, after that the memory of the host that it stands for.
    pub(crate) fn keep(&self, block: impl Any + Send + Sync, of: Option<Arc<Mapping>>) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.push((Box::new(block), of));
    }
}
