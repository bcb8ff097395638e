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
    /// `NCCL_PXN_DISABLE`: where all connects at the start, a GPU also makes the buffers that it
    /// shares on the rails of others.
    pub shares_on_rails: bool,
    /// `NCCL_P2P_USE_CUDA_MEMCPY`: the driver copies between GPUs, from a buffer of the sender.
    pub copies_by_driver: bool,
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
            shares_on_rails: true,
            copies_by_driver: false,
            has_network_ll: false,
            connects_relays: true,
            work_fifo_bytes: WORK_FIFO_BYTES,
        }
    }
}

impl MemorySettings {
    /// Reads the variables that are in force.
    pub fn of(settings: &Settings) -> Self {
        let mut read = Self {
            copies_by_driver: settings.p2p_use_cuda_memcpy,
            ..Self::default()
        };
        for (name, value) in &settings.in_force {
            let Some(number) = number(settings.rules.version(), value) else {
                continue;
            };
            match name.as_str() {
                "NCCL_CUMEM_ENABLE" => read.virtual_memory = number != 0,
                "NCCL_RUNTIME_CONNECT" => read.connects_late = number != 0,
                "NCCL_SHM_LOCALITY" => read.sender_holds_shared_memory = number == 1,
                "NCCL_NET_SHARED_BUFFERS" => read.shares_network_buffers = number != 0,
                "NCCL_ALLOC_P2P_NET_LL_BUFFERS" => read.has_network_ll = number == 1,
                "NCCL_NVB_PRECONNECT" => read.connects_relays = number != 0,
                // Paths ask whether it is 1, shared buffers whether it is 0 (source).
                "NCCL_PXN_DISABLE" => read.shares_on_rails = number == 0,
                "NCCL_WORK_FIFO_BYTES" => {
                    let bytes = u64::try_from(number).unwrap_or(0);
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
