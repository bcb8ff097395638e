//! The cost model against every recorded answer of NCCL, and its own promises on them.

use std::path::PathBuf;

use test_support::golden::Case;

/// The folder with all recorded answers, where there is one.
fn golden() -> Option<PathBuf> {
    let shared = std::env::var_os("TOPO_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    Some(shared.join("golden")).filter(|golden| golden.join("cases").is_dir())
}

#[test]
fn every_table_and_choice_agrees() {
    let Some(golden) = golden() else {
        println!("not run: no golden cases (set TOPO_SHARED)");
        return;
    };
    let (mut compared, mut refused, mut differing) = (0, 0, Vec::new());
    for path in Case::list(&golden).expect("the folder can be read") {
        let case = Case::read(&path, &golden.join("topologies")).expect("a case");
        match case.replay_tuning().expect("a complete case") {
            None => refused += 1,
            Some(None) => compared += 1,
            Some(Some(difference)) => differing.push(format!("{}: {difference}", case.name)),
        }
    }
    println!("{compared} cases agree, {} differ, {refused} are refused by NCCL", differing.len());
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}
