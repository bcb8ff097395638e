//! A bit of the data between hosts is flipped, and TCP's checksum is corrected.
//!
//! `TOPO_FLIPS=200` runs 200 jobs, each with one flipped bit.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Completion, Failed};

use super::{MISSING, Ranks, Said, check, clean, not_run};

/// Runs a job of two hosts in which a bit of byte `at` of the data is flipped. Its standard error
/// says how each rank ended.
fn job(at: usize, arguments: &[&str]) -> Result<Said, Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("xtask/scripts/rehearse-hosts"));
    clean(&mut command);
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Names of devices have at most 15 bytes, and several tests run at a time.
    let name = format!(
        "f{}x{}",
        std::process::id() % 100_000,
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    command
        .env("NCCL_SOCKET_IFNAME", "eth")
        .args(["--hosts", "2", "--flip", &at.to_string(), "--name", &name])
        .args(["--", "bash", "-c"])
        .arg(r#""$0" "$@" || { ended=$?; echo "rank $RANK ended with $ended" >&2; exit $ended; }"#)
        .args([env!("CARGO_BIN_EXE_topo"), "run"])
        .args(arguments);
    let mut said = Ranks(vec![command.spawn()?]).finish()?;
    Ok(said.remove(0))
}

/// A job without a flipped byte.
enum Counted {
    /// Bytes of data that it sends.
    Bytes(usize),
    /// Why it cannot run here.
    NotRun(String),
}

/// Counts the bytes of data that a job sends.
fn bytes(arguments: &[&str]) -> Result<Counted, Failed> {
    let Said { out, err, status } = job(usize::MAX >> 1, arguments)?;
    if status == Some(MISSING) {
        let why = err.trim().trim_start_matches("not run: ");
        return Ok(Counted::NotRun(why.to_owned()));
    }
    let bytes = err
        .split_once("nothing is flipped in ")
        .and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
    let bytes = bytes.filter(|_| status == Some(0));
    let bytes = bytes.ok_or_else(|| format!("{status:?}\n{out}\n{err}"))?;
    Ok(Counted::Bytes(bytes))
}

const SMALL: &str =
    "all-reduce -b 64K -e 64K -n 1 -w 0 --no-in-place -d u32 --protocol simple --algorithm mesh";

pub(crate) fn a_wrong_element_ends_every_rank_with_1() -> Result<Completion, Failed> {
    let arguments: Vec<&str> = SMALL.split(' ').collect();
    let bytes = match bytes(&arguments)? {
        Counted::Bytes(bytes) => bytes,
        Counted::NotRun(why) => return not_run(&why),
    };
    // In the data of the first and of the last launch, in each direction.
    for at in [20_001, 100_002, bytes - 100_003, bytes - 20_004] {
        let Said { out, err, status } = job(at, &arguments)?;
        let right = err.contains("is flipped")
            && out.contains("1 element wrong")
            && err.contains("rank 0 ended with 1")
            && err.contains("rank 1 ended with 1");
        check(right, || {
            format!("byte {at} of {bytes}: {status:?}\n{out}\n{err}")
        })?;
    }
    Ok(Completion::Completed)
}

/// Several sizes and protocols, and launches whose results are not checked.
const ANY: &str = "all-reduce -b 512 -e 512K -f 32 -n 20 -w 1 --checksums";

pub(crate) fn no_flip_is_silent() -> Result<Completion, Failed> {
    let arguments: Vec<&str> = ANY.split(' ').collect();
    let bytes = match bytes(&arguments)? {
        Counted::Bytes(bytes) => bytes,
        Counted::NotRun(why) => return not_run(&why),
    };
    let jobs = std::env::var("TOPO_FLIPS").ok();
    let jobs: usize = jobs.and_then(|it| it.parse().ok()).unwrap_or(4);
    for number in 0..jobs {
        // Spread over all data.
        let at = (number * 2 + 1) * bytes / (2 * jobs) + number * 7919 % (bytes / jobs);
        let at = at.min(bytes - 1);
        let Said { out, err, status } = job(at, &arguments)?;
        let ended = |rank| err.contains(&format!("rank {rank} ended with "));
        let right = match err.contains("is flipped") {
            true => ended(0) && ended(1),
            false => status == Some(0),
        };
        check(right, || {
            format!("byte {at} of {bytes}: {status:?}\n{out}\n{err}")
        })?;
    }
    Ok(Completion::Completed)
}
