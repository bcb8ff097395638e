//! Binds ranks to cores, so that two waiting ranks never share a core while another is free.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores on which this process may run.
pub(crate) fn cores() -> Vec<usize> {
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

/// Binds the calling thread to a rank's core. With more ranks than cores, neighbors share one: they
/// talk most, and a waiting rank yields to the one it waits for.
pub(crate) fn to_own_core(cores: &[usize], rank: u32, ranks: u32) {
    let place = if cores.len() < ranks as usize {
        rank as usize * cores.len() / ranks as usize
    } else {
        rank as usize
    };
    to(cores.get(place..=place).unwrap_or_default());
}

/// Binds the calling thread, and threads that it starts later, to a rank's equal share of the
/// cores, or to the core of [`to_own_core`] if there are more ranks than cores.
pub(crate) fn to_share(cores: &[usize], rank: u32, ranks: u32) {
    let (rank, ranks) = (rank as usize, ranks.max(1) as usize);
    let edge = |rank: usize| rank * cores.len() / ranks;
    let share = edge(rank)..edge(rank + 1).max(edge(rank) + 1);
    to(cores.get(share).unwrap_or_default());
}

fn to(cores: &[usize]) {
    if cores.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    // A container may forbid it; then the kernel places the rank.
    let _ = sched_setaffinity(None, &set);
}
