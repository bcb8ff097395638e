//! The properties of a NIC.

use crate::abi::{POINTER_CUDA, POINTER_DMABUF, POINTER_HOST};

/// A NIC, or several that the plug-in uses as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its number; plans use it.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its path in `/sys`, if it is a PCI device.
    pub pci_path: Option<String>,
    /// Equal for the ports and functions of one card.
    pub guid: u64,
    /// Speed of its port, Mbit/s; 0 if unknown.
    pub speed_mbps: u32,
    /// Its port.
    pub port: i32,
    /// Latency of the network, µs; 0 if unknown.
    pub latency_us: f32,
    /// The memory that it accesses, a sum of 1 (host), 2 (GPUs) and 4 (DMA-BUF).
    pub pointers: u32,
    /// Most communicators.
    pub most_communicators: u32,
    /// Most receives of a group.
    pub most_receives: u32,
    /// Longest message, bytes.
    pub most_bytes: usize,
    /// Whether data received into GPU memory must be flushed.
    pub force_flush: bool,
    /// Its rail, if the plug-in says so (ABI v12).
    pub rail: Option<i16>,
    /// Its plane, if the plug-in says so (ABI v12).
    pub plane: Option<i16>,
}

impl Device {
    /// Whether it reads and writes memory of the host.
    pub const fn takes_host_memory(&self) -> bool {
        self.pointers & POINTER_HOST as u32 != 0
    }

    /// Whether it reads and writes memory of GPUs (GPUDirect RDMA).
    pub const fn takes_device_memory(&self) -> bool {
        self.pointers & (POINTER_CUDA | POINTER_DMABUF) as u32 != 0
    }

    /// Whether it takes memory of GPUs as DMA-BUF.
    pub(crate) const fn takes_dma_buf(&self) -> bool {
        self.pointers & POINTER_DMABUF as u32 != 0
    }

    /// The kinds of memory that it takes, in words.
    pub fn memory(&self) -> String {
        let kinds = [
            (POINTER_HOST, "host"),
            (POINTER_CUDA, "CUDA"),
            (POINTER_DMABUF, "DMA-BUF"),
        ];
        let names: Vec<&str> = kinds
            .into_iter()
            .filter(|(bit, _)| self.pointers & *bit as u32 != 0)
            .map(|(_, name)| name)
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }
}
