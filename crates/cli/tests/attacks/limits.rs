//! Jobs where a process may have little memory, or few bytes of a file.

use std::path::Path;
use std::time::Duration;

use super::program::{LONG, Running, Said, clean, shell};

/// What `topo run` said under limits of the shell.
fn limited(limits: &str, arguments: &[&str]) -> Said {
    let script = format!("{limits}; exec \"$0\" run \"$@\"");
    Running::start(shell(&script).args(arguments)).within(LONG)
}

/// The error names the limit, and says nothing twice.
fn refused(said: &Said, limit: &str) {
    assert_eq!(said.status, Some(2), "{}{}", said.out, said.err);
    let lines: Vec<&str> = said.err.lines().collect();
    let naming = lines.iter().filter(|line| line.contains(limit));
    assert!(naming.clone().count() > 0, "{}", said.err);
    for line in naming {
        for once in [limit, "bytes asked for", "rank 0: ", "cannot map"] {
            assert!(line.matches(once).count() <= 1, "{once:?} twice: {line}");
        }
    }
}

const SHORT: [&str; 7] = ["all-reduce", "-b", "64K", "-e", "64K", "-n", "2"];

#[test]
fn short_messages_need_little_address_space() {
    for ranks in [&["--ranks", "4"][..], &["--ranks", "4", "--processes"]] {
        for way in [
            &["--algorithm", "ring"][..],
            &["--algorithm", "two-phase-mesh", "--transfer", "direct"],
        ] {
            let said = limited("ulimit -v 1000000", &[&SHORT, ranks, way].concat());
            assert_eq!(said.status, Some(0), "{ranks:?} {way:?}: {}", said.err);
            assert!(said.out.contains("every element is right"), "{}", said.out);
        }
    }
}

#[test]
fn a_limit_of_address_space_is_named() {
    let long = ["all-reduce", "-b", "1G", "-e", "1G", "-n", "1"];
    for ranks in [&["--ranks", "2"][..], &["--ranks", "2", "--processes"]] {
        let said = limited("ulimit -v 1000000", &[&long[..], ranks].concat());
        refused(&said, "RLIMIT_AS");
    }
}

#[test]
fn a_limit_of_files_is_named() {
    let ranks = ["--ranks", "2", "--processes"];
    refused(
        &limited("ulimit -f 100", &[&SHORT[..], &ranks].concat()),
        "RLIMIT_FSIZE",
    );
}

/// The most memory that a process had so far, MiB.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

/// Each of many ranks has a FIFO from each other one. What is not used takes no memory.
#[test]
fn many_ranks_take_memory_for_what_they_send() {
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
