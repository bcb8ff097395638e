//! Programs, step by step.

use crate::{expect, ok, refused};

#[test]
fn whole_programs() {
    expect(
        "program-mesh-4-ranks.txt",
        &ok(&[
            "program",
            "--ranks",
            "4",
            "--collective",
            "all-reduce",
            "--algorithm",
            "mesh",
        ])
        .out,
    );
    expect(
        "program-two-phase-mesh-direct.txt",
        &ok(&[
            "program",
            "--ranks=3",
            "--collective=all-reduce",
            "--algorithm=two-phase-mesh",
            "--transfer=direct",
            "--rank=2",
        ])
        .out,
    );
    expect(
        "program-nvls.txt",
        &ok(&[
            "program",
            "--ranks=6",
            "--collective=all-reduce",
            "--algorithm=nvls",
            "--rank=4",
        ])
        .out,
    );
    expect(
        "program-tree-dgx-2-hosts-2.txt",
        &ok(&[
            "program",
            "topologies/dgx-2",
            "--hosts=2",
            "--collective=all-reduce",
            "--algorithm=tree",
            "--rank=3",
        ])
        .out,
    );
    expect(
        "program-ring-dgx-1v.txt",
        &ok(&[
            "program",
            "topologies/dgx-1v",
            "--collective=reduce-scatter",
            "--schedule=ring",
            "--channels=2",
            "--rank=5",
            "--in-place",
        ])
        .out,
    );
}

#[test]
fn a_plan_says_what_its_topology_says() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    ok(&["plan", "topologies/dgx-1v", "--hosts", "2", "-o", plan]);
    for what in [
        ["--collective=broadcast", "--algorithm=tree", "--root=9"],
        ["--collective=all-gather", "--algorithm=ring", "--rank=15"],
        ["--collective=send-recv", "--root=3", "--rank=4"],
    ] {
        let of = |files: &[&str]| ok(&[&["program"], files, &what].concat()).out;
        assert_eq!(of(&[plan]), of(&["topologies/dgx-1v", "--hosts=2"]));
    }
}

#[test]
fn what_there_is_no_program_for() {
    for (arguments, words) in [
        (
            &["--collective", "all-reduc", "--algorithm=ring"][..],
            "a similar value exists: 'all-reduce'",
        ),
        (&["--collective=gather"], "gather has tree, mesh"),
        (
            &["--collective=gather", "--algorithm=ring"],
            "tree (fifo), mesh (fifo), mesh (direct)",
        ),
        (
            &["--collective=gather", "--algorithm=mesh", "--rank=4"],
            "--rank 4: no such rank",
        ),
        (
            &["--collective=gather", "--algorithm=mesh", "--root=4"],
            "root 4 of Gather",
        ),
        (
            &["--collective=all-reduce", "--algorithm=mesh", "--root=1"],
            "0 where there is no root",
        ),
        (
            &[
                "--collective=all-to-all",
                "--algorithm=mesh",
                "--transfer=direct",
                "--in-place",
            ],
            "take --transfer fifo",
        ),
        (
            &["--collective=send-recv", "--to=7"],
            "expected ranks of the communicator",
        ),
        (
            &["--collective=send-recv", "--rank=3"],
            "rank 3 takes no part; expected one of 0 1",
        ),
    ] {
        let all = [&["program", "--ranks=4"], arguments].concat();
        let said = refused(&all);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
    refused(&["program", "--collective=gather", "--algorithm=mesh"]);
    refused(&[
        "program",
        "topologies/dgx-1v",
        "--ranks=2",
        "--collective=gather",
        "--algorithm=mesh",
    ]);
}
