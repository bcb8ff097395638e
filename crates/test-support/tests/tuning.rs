//! The cost model against every recorded answer of NCCL, and its own promises on them.

use std::path::{Path, PathBuf};

use test_support::golden::Case;

/// The folder with all recorded answers, where there is one.
fn golden() -> Option<PathBuf> {
    let shared = std::env::var_os("TOPO_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    Some(shared.join("golden")).filter(|golden| golden.join("cases").is_dir())
}

/// Compares all cases and says how many there were; fails with the first difference of each that differs.
fn compare(cases: Vec<PathBuf>, topologies: &Path) -> usize {
    let (mut compared, mut refused, mut differing) = (0, 0, Vec::new());
    for path in cases {
        let case = Case::read(&path, topologies).expect("a case");
        match case.replay_tuning().expect("a complete case") {
            None => refused += 1,
            Some(None) => compared += 1,
            Some(Some(difference)) => differing.push(format!("{}: {difference}", case.name)),
        }
    }
    println!(
        "{compared} cases agree, {} differ, {refused} are refused by NCCL",
        differing.len()
    );
    assert!(
        differing.is_empty(),
        "{} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
    compared
}

#[test]
fn every_recorded_table_and_choice_agrees() {
    let Some(golden) = golden() else {
        println!("not run: no golden cases (set TOPO_SHARED)");
        return;
    };
    let cases = Case::list(&golden).expect("the folder can be read");
    compare(cases, &golden.join("topologies"));
}

#[test]
fn tables_and_choices_of_the_machines_agree() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut cases = Vec::new();
    for machine in machines.read_dir().expect("the machines") {
        let answers = machine.expect("a machine").path().join("nccl");
        for answer in answers.read_dir().into_iter().flatten() {
            cases.push(answer.expect("an answer").path());
        }
    }
    cases.sort();
    assert!(compare(cases, &machines) > 0);
}
