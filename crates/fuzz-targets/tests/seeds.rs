//! Runs every committed input, and those made of the repository's files, through its target: two
//! tests of each target.

use std::fs;
use std::process::ExitCode;

use fuzz_targets::{Depth, TARGETS, Target, input};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let committed = TARGETS.iter().map(|target| {
        Trial::test(format!("committed::{}", target.name), || {
            committed_inputs_are_handled(target);
            Ok(())
        })
    });
    let seeds = TARGETS.iter().map(|target| {
        Trial::test(format!("seeds::{}", target.name), || {
            seeds_reach_what_is_behind_the_header(target);
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, committed.chain(seeds).collect()).exit_code()
}

/// Committed inputs by file name.
fn committed(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = input::repository()
        .join("xtask/fuzz/seeds")
        .join(target.name);
    let Ok(entries) = fs::read_dir(&folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect()
}

fn committed_inputs_are_handled(target: &Target) {
    for (name, bytes) in committed(target) {
        // A panic alone does not name the input.
        println!("{name}");
        (target.run)(&bytes);
    }
}

fn seeds_reach_what_is_behind_the_header(target: &Target) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{}", target.name);
    let accepted = seeds
        .iter()
        .filter(|seed| (target.run)(seed) == Depth::Accepted)
        .count();
    assert!(accepted > 0, "no seed of {} is accepted", target.name);
}
