//! The memory of a job.

use std::path::Path;
use std::time::Duration;

use super::program::{Running, Said, clean, topo};

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
    let (said, most) = watched(Running::start(&mut command));
    assert_eq!(said.status, Some(0));
    assert!((1..600).contains(&most), "{most} MiB");
}

/// What a process says, and its peak memory, MiB.
fn watched(mut job: Running) -> (Said, u64) {
    let mut most = 0;
    while !job.is_over() {
        most = most.max(peak(job.id()));
        std::thread::sleep(Duration::from_millis(2));
    }
    (job.end(), most)
}

/// The output of `all_reduce_perf` on eight GPUs, up to its only row.
fn cut_run() -> String {
    let gpus = (0..8).map(|gpu| {
        format!("#  Rank  {gpu} Group  0 Pid    100 on      node1 device  {gpu} [0000:0{gpu}:00] NVIDIA H100\n")
    });
    let header =
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor)\n#\n# Using devices\n";
    let table = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n  \
                 1073741824     268435456     float     sum      -1     4100  261.89  458.30      0\n";
    header.to_owned() + &gpus.collect::<String>() + table
}

/// Memory is that of the tables: a run that was cut leaves no GPUs to those behind it, and a page
/// shows so many rows.
pub(crate) fn many_runs_in_one_file_take_memory_for_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.log");
    let row = "  1073741824  268435456  float  sum  -1  4100  261.89  458.30  0\n";
    let runs = cut_run().repeat(10_000_000 / cut_run().len());
    let rows = cut_run() + &row.repeat(10_000_000 / row.len());
    let read = |text: String| {
        std::fs::write(&file, text).unwrap();
        let mut command = topo();
        command.args(["expect", "--results"]).arg(&file);
        command.args(["--topology", "dgx-h100", "--expect"]);
        let (said, mib) = watched(Running::start(&mut command));
        // They have no end.
        assert_eq!(said.status, Some(3), "{}", said.err);
        mib
    };
    // 100 MiB in all, of which 13 are the program's where it is optimized, and more elsewhere.
    let own = read(cut_run());
    for text in [runs, rows] {
        let mib = read(text);
        let tables = mib.saturating_sub(own);
        assert!(own > 0 && tables <= 87, "{mib} MiB, {own} of the program");
    }
}
