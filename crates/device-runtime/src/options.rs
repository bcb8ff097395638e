//! Options of launches. Every program that runs collectives (`topo run`, C, Python, PyTorch, Rust)
//! makes them here, so none has one that the others lack.

use executor::connections::SlotBytes;
use program::Collective;
use serde::{Deserialize, Serialize};

use crate::layout::MOST_SHARES;

/// How kernels are launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOptions {
    /// Threads of a block: 64 that synchronize, plus the warps that move data.
    pub threads: u32,
    /// Data bytes per slot, by protocol.
    pub slot_bytes: SlotBytes,
    /// Initial step count of every connection. Tests set it to begin close to a wrap.
    pub first_step: u64,
    /// Flag that all lines of LL slots hold initially, as if left from an earlier use; 0: none.
    pub stale_flag: u32,
    /// Most blocks per lane, 1 to 4. More blocks keep more bytes in flight, which a GPU with few
    /// ranks needs to saturate its memory. Lanes that use FIFOs have one block.
    pub most_shares: u32,
    /// Most blocks of a rank, unless a request names more channels; 0: all that are resident at
    /// once, only if no other communicator of this process runs at the same time. The rest of a GPU
    /// is for other kernels and communicators.
    pub most_blocks: u32,
    /// By collective: bytes of a message from which switches reduce and multicast (NVLS) where they
    /// can, as the plan says. Others only if a request chooses that.
    pub nvls_from: Vec<(Collective, u64)>,
    /// Whether to record when each lane of a launch begins and ends (`ProcessRanks::take_spans`).
    pub trace: bool,
    /// Whether devices may access each other's memory (`NCCL_P2P_DISABLE=1` clears it).
    pub p2p: bool,
    /// Whether connections may use host memory instead (`NCCL_SHM_DISABLE=1` clears it).
    pub shm: bool,
    /// The only kind of memory that is shared with other processes, by its name
    /// (`NCCL_CUMEM_ENABLE`); `None`: the best one.
    pub memory: Option<String>,
    /// Whether NICs may access device memory (GPUDirect RDMA; `NCCL_NET_GDR_LEVEL=LOC` clears it).
    pub rdma: bool,
    /// Whether NICs may also read device memory to send (`NCCL_NET_GDR_READ=0` clears it).
    pub rdma_read: bool,
    /// Whether RDMA writes are always flushed (`NCCL_NET_FORCE_FLUSH`).
    pub force_flush: bool,
    /// Whether other processes access buffers of callers where they are (`regions.rs`).
    pub opens_regions: bool,
    /// Whether buffers of launches at once are staged in a window, so that NVLS does not copy them.
    pub stages_in_window: bool,
}

impl LaunchOptions {
    /// NCCL's slots (buffers of 512 KiB, 4800 KiB and 4 MiB in eight slots) and 12 data warps.
    pub fn nccl() -> Self {
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
            most_blocks: 32,
            nvls_from: Vec::new(),
            trace: false,
            p2p: true,
            shm: true,
            memory: None,
            rdma: true,
            rdma_read: true,
            force_flush: false,
            opens_regions: true,
            stages_in_window: false,
        }
    }

    /// Those of a communicator. `environment` has the values of NCCL's variables; the plan's
    /// settings, `planned`, count where it has none. `nvls_from` is the plan's.
    pub fn of(
        environment: &dyn Fn(&str) -> Option<String>,
        planned: &dyn Fn(&str) -> Option<String>,
        nvls_from: Vec<(Collective, u64)>,
    ) -> Self {
        // As for NCCL, an empty one is not set.
        let set = |value: &String| !value.trim().is_empty();
        let variable = |name| {
            let given = environment(name).filter(set);
            given.or_else(|| planned(name).filter(set))
        };
        let is = |name, wanted: fn(&str) -> bool| {
            variable(name).is_some_and(|value| wanted(value.trim()))
        };
        let is_one = |name| is(name, |value| value.parse() == Ok(1));
        // NCCL's names: its own virtual memory, or not.
        let memory = variable("NCCL_CUMEM_ENABLE").and_then(|value| match value.trim() {
            "0" => Some("ipc".to_owned()),
            "1" => Some("descriptor".to_owned()),
            _ => None,
        });
        Self {
            p2p: !is_one("NCCL_P2P_DISABLE"),
            shm: !is_one("NCCL_SHM_DISABLE"),
            memory,
            rdma: !is("NCCL_NET_GDR_LEVEL", |value| ["LOC", "0"].contains(&value)),
            rdma_read: !is("NCCL_NET_GDR_READ", |value| value == "0"),
            force_flush: is("NCCL_NET_FORCE_FLUSH", |value| value != "0"),
            nvls_from,
            ..Self::nccl()
        }
    }

    /// Bytes from which switches reduce and multicast messages of a collective.
    pub(crate) fn nvls_from(&self, collective: Collective) -> Option<u64> {
        let mut all = self.nvls_from.iter();
        let found = all.find(|(it, _)| *it == collective);
        found.map(|(_, bytes)| *bytes)
    }
}
