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

/// Binds the calling thread to a rank's core. Where ranks are more than cores, neighbours share one: they talk most, and
/// a rank that waits yields to the one it waits for.
pub fn to_own_core(cores: &[usize], rank: u32, ranks: u32) {
    let place = if cores.len() < ranks as usize {
        rank as usize * cores.len() / ranks as usize
    } else {
        rank as usize
    };
    to(cores.get(place..=place).unwrap_or_default());
}

/// Binds the calling thread, and those that it starts from now on, to a rank's share of the cores: one of as many equal
/// parts as there are ranks, or the core of [`to_own_core`] where ranks are more.
pub fn to_share(cores: &[usize], rank: u32, ranks: u32) {
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
