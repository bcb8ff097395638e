//! The kernel's support for GPUDirect RDMA.

use crate::JsonSchema;
use serde::Serialize;

use crate::sysfs::Sysfs;

/// Files of a loaded peer-memory module.
const PEER_MEMORY: [&str; 3] = [
    "sys/module/nvidia_peermem/version",
    "sys/kernel/mm/memory_peers/nv_mem/version",
    "sys/kernel/mm/memory_peers/nv_mem_nc/version",
];

/// First kernel version that shares DMA buffers with RDMA devices.
const DMA_BUF_KERNEL: (u32, u32) = (5, 12);

/// Support for GPUDirect RDMA.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct DirectAccess {
    /// Whether `nvidia_peermem` (or the older `nv_peer_mem`) is loaded.
    pub peer_memory: bool,
    /// The kernel's version.
    pub kernel: Option<String>,
    /// Whether the driver uses the open kernel modules, which DMA-BUF needs.
    pub open_modules: Option<bool>,
}

impl DirectAccess {
    /// Whether kernel and driver support DMA-BUF.
    pub fn dma_buf(&self) -> bool {
        self.kernel_is_new_enough() && self.open_modules == Some(true)
    }

    /// Whether network adapters can access GPU memory.
    pub fn is_possible(&self) -> bool {
        self.peer_memory || self.dma_buf()
    }

    fn kernel_is_new_enough(&self) -> bool {
        let mut numbers = self
            .kernel
            .iter()
            .flat_map(|kernel| kernel.split(['.', '-']))
            .map_while(|number| number.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor) >= DMA_BUF_KERNEL,
            _ => false,
        }
    }

    /// Why network adapters cannot access GPU memory.
    pub fn reason(&self) -> String {
        let kernel = self.kernel.as_deref().unwrap_or("unknown");
        let buffers = if !self.kernel_is_new_enough() {
            format!("kernel {kernel} is older than 5.12 (DMA-BUF)")
        } else {
            "the driver's kernel modules are not the open ones (DMA-BUF)".to_owned()
        };
        format!("nvidia_peermem is not loaded, and {buffers}")
    }
}

/// Reads the kernel's support.
pub fn read(sysfs: &Sysfs) -> DirectAccess {
    let driver = sysfs.text("proc/driver/nvidia/version");
    DirectAccess {
        // Not `any`: a recording must have all of the files.
        peer_memory: PEER_MEMORY.map(|path| sysfs.exists(path)).contains(&true),
        kernel: sysfs.text("proc/sys/kernel/osrelease"),
        open_modules: driver.map(|text| text.contains("Open Kernel Module")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let direct = |kernel: &str, open| DirectAccess {
            peer_memory: false,
            kernel: Some(kernel.to_owned()),
            open_modules: open,
        };
        assert!(direct("6.8.0-45-generic", Some(true)).is_possible());
        assert!(!direct("5.4.0", Some(true)).is_possible());
        assert!(direct("5.4.0", Some(true)).reason().contains("5.4.0"));
        assert!(direct("5.15.0", Some(false)).reason().contains("open ones"));
        assert!(!direct("garbage", None).is_possible());
    }
}
