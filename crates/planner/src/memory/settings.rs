//! Settings that change what a communicator allocates, but no decision of the planner.

use crate::settings::{Settings, number};

/// The default of `NCCL_WORK_FIFO_BYTES`.
const WORK_FIFO_BYTES: u64 = 1 << 20;

/// Most bytes of the FIFO of work.
const MOST_WORK_FIFO_BYTES: u64 = 1 << 30;

/// How memory is allocated and when connections are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySettings {
    /// `NCCL_CUMEM_ENABLE`: CUDA's virtual memory, in pages of 2 MiB. NCCL asks the driver where it
    /// is not set; a driver for Hopper or newer has it.
    pub virtual_memory: bool,
    /// `NCCL_RUNTIME_CONNECT`: algorithms connect when they are first used. Otherwise, or without
    /// virtual memory, all of them connect at the start.
    pub connects_late: bool,
    /// `NCCL_SHM_LOCALITY`: the sender holds the buffers in the host's memory, not the receiver.
    pub sender_holds_shared_memory: bool,
    /// `NCCL_NET_SHARED_BUFFERS`: point-to-point connections of a GPU share their buffers.
    pub shares_network_buffers: bool,
    /// `NCCL_ALLOC_P2P_NET_LL_BUFFERS`: point-to-point connections over the network have buffers
    /// for LL.
    pub has_network_ll: bool,
    /// `NCCL_NVB_PRECONNECT`: GPUs that relay connect at the start, where all connect then.
    pub connects_relays: bool,
    /// `NCCL_WORK_FIFO_BYTES`: bytes of host memory for descriptors of work.
    pub work_fifo_bytes: u64,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            virtual_memory: true,
            connects_late: true,
            sender_holds_shared_memory: false,
            shares_network_buffers: true,
            has_network_ll: false,
            connects_relays: true,
            work_fifo_bytes: WORK_FIFO_BYTES,
        }
    }
}

impl MemorySettings {
    /// Reads the variables that are in force.
    pub fn of(settings: &Settings) -> Self {
        let mut read = Self::default();
        for (name, value) in &settings.in_force {
            let is = || number(value);
            match name.as_str() {
                "NCCL_CUMEM_ENABLE" => read.virtual_memory = is() != 0,
                "NCCL_RUNTIME_CONNECT" => read.connects_late = is() != 0,
                "NCCL_SHM_LOCALITY" => read.sender_holds_shared_memory = is() == 1,
                "NCCL_NET_SHARED_BUFFERS" => read.shares_network_buffers = is() != 0,
                "NCCL_ALLOC_P2P_NET_LL_BUFFERS" => read.has_network_ll = is() == 1,
                "NCCL_NVB_PRECONNECT" => read.connects_relays = is() != 0,
                "NCCL_WORK_FIFO_BYTES" => {
                    let bytes = u64::try_from(is()).unwrap_or(0);
                    read.work_fifo_bytes = match bytes.is_power_of_two() {
                        true => bytes.min(MOST_WORK_FIFO_BYTES),
                        false => WORK_FIFO_BYTES,
                    };
                }
                _ => {}
            }
        }
        read.connects_late &= read.virtual_memory;
        read
    }
}
