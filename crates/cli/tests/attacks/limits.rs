//! The memory of a job.

use std::path::Path;
use std::time::Duration;

use super::program::{Running, clean};

/// The peak memory of a process, MiB.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

/// Each of many ranks has a FIFO from every other rank. Unused FIFOs take no memory.
pub(crate) fn many_ranks_take_memory_for_what_they_send() {
    let mut command = clean(Path::new(env!("CARGO_BIN_EXE_topo")));
    command
        .args(["run", "--ranks", "64", "all-reduce", "-b", "8", "-e", "8"])
        .args(["-n", "1", "-w", "0", "--no-in-place", "--algorithm", "mesh"])
        .args(["--transfer", "fifo", "--protocol", "ll128"]);
    let mut job = Running::start(&mut command);
    let mut most = 0;
    while !job.is_over() {
        most = most.max(peak(job.id()));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(job.end().status, Some(0));
    assert!((1..600).contains(&most), "{most} MiB");
}
