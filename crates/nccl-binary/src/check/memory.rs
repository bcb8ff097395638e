//! The memory that NCCL's processes need of this machine.

use std::path::Path;

use anyhow::{Result, bail};

use pages::numbers::count;

/// Memory of a host's process before it has GPUs, bytes: NCCL's code and tables.
const PER_HOST: u64 = 200 << 20;

/// Memory of each GPU of a host, bytes: buffers and threads. Two hosts of 8 GPUs took 1.2 GB.
const PER_GPU: u64 = 50 << 20;

/// Most bytes of the kernel's table of memory.
const TABLE_BYTES: u64 = 1 << 16;

/// Refuses a job that would not fit, before the kernel ends processes to make room.
pub(super) fn check(gpus_of_hosts: impl Iterator<Item = u64>) -> Result<()> {
    let gpus: Vec<u64> = gpus_of_hosts.collect();
    let needed: u64 = gpus.iter().map(|gpus| PER_HOST + gpus * PER_GPU).sum();
    let available = available().min(shared_memory::machine_bytes());
    if needed > available {
        bail!(
            "NCCL needs about {} MB on this machine for {} of {}, and {} MB are left; use fewer --hosts, or a machine \
             with more memory",
            needed >> 20,
            count(gpus.len(), "host"),
            count(gpus.iter().sum::<u64>() as usize, "GPU"),
            available >> 20
        );
    }
    Ok(())
}

/// Memory that processes can still get, bytes; `u64::MAX` if the kernel does not say.
fn available() -> u64 {
    let table = files::read_text(Path::new("/proc/meminfo"), TABLE_BYTES).unwrap_or_default();
    let mut lines = table.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.map_or(u64::MAX, |kib| kib << 10)
}
