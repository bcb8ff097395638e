//! Binding ranks to cores, so that two that wait for each other never share one while another is free.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores on which this process may run.
pub fn cores() -> Vec<usize> {
    // Where the kernel does not say, nothing is bound.
    sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect()
        },
    )
}

/// Binds the calling thread to a rank's own core, if there is one for every rank.
pub fn to_own_core(cores: &[usize], rank: u32, ranks: u32) {
    if cores.len() < ranks as usize {
        return;
    }
    if let Some(core) = cores.get(rank as usize) {
        let mut set = CpuSet::new();
        set.set(*core);
        // A container may forbid it; then the kernel places the rank.
        let _ = sched_setaffinity(None, &set);
    }
}
