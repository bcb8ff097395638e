//! Jobs as a whole: which GPUs, which ranks, and what one rank does.

use crate::{expect, ok, refused, run};

/// A plan in a folder of its own.
fn plan(arguments: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json").display().to_string();
    let mut all = vec!["plan", "--format", "quiet", "-o", &file];
    all.extend(arguments);
    ok(&all);
    (folder, file)
}

#[test]
fn a_rank_of_a_large_job() {
    let (_folder, file) = plan(&["topologies/dgx-h100", "--hosts", "16384"]);
    assert!(std::fs::metadata(&file).unwrap().len() < 50 << 20);
    expect(
        "rank-dgx-h100-hosts-16384.txt",
        &ok(&["rank", &file, "-r", "77777"]).out,
    );
    let json = ok(&["rank", &file, "--rank", "131071", "--format", "json"]).out;
    for part in [
        "\"rank\": 131071",
        "\"host\": 16383",
        "\"send\": {",
        "\"network\": {",
    ] {
        assert!(json.contains(part), "no {part} in {json}");
    }
    let said = refused(&["rank", &file, "--rank", "131072"]);
    assert!(
        said.err
            .contains("the job has no rank 131072; expected 0 to 131071"),
        "{}",
        said.err
    );
    refused(&["rank", &file, "--rank", "-1"]);
    refused(&["rank", &file, "--rank", "x"]);
}

#[test]
fn ranks_of_other_jobs() {
    let (_folder, file) = plan(&["topologies/dgx-a100-sharp", "--hosts", "4", "--collnet"]);
    expect(
        "rank-dgx-a100-sharp-hosts-4.txt",
        &ok(&["rank", &file, "-r", "5"]).out,
    );
    // A plan can come through a pipe; here it is empty.
    let said = refused(&["rank", "-", "-r", "0"]);
    assert!(
        said.err
            .contains("standard input: this is not a plan: found an empty file"),
        "{}",
        said.err
    );
}

#[test]
fn files_that_are_no_plans() {
    let (folder, file) = plan(&["topologies/dgx-1v"]);
    let text = std::fs::read_to_string(&file).unwrap();
    let other = folder.path().join("other.json").display().to_string();
    for (changed, message) in [
        (
            text.replacen("dgx-1v", "dgx-1w", 1),
            "was changed after it was made",
        ),
        (text[..text.len() / 2].to_owned(), "is truncated"),
        (
            text.replacen("\"version\": 1", "\"version\": 2", 1),
            "has format version 2",
        ),
        ("<system/>".to_owned(), "make one with `topo plan`"),
    ] {
        std::fs::write(&other, changed).unwrap();
        let said = refused(&["rank", &other, "-r", "0"]);
        assert!(
            said.err.contains(message) && said.err.contains(&other),
            "{}",
            said.err
        );
    }
    let said = refused(&["rank", "topologies", "-r", "0"]);
    assert!(
        said.err.contains("is a folder without a topology.xml"),
        "{}",
        said.err
    );
    let said = refused(&["rank", "no-such-plan.json", "-r", "0"]);
    assert!(
        said.err.contains("cannot read no-such-plan.json"),
        "{}",
        said.err
    );
}

#[test]
fn some_gpus_only() {
    let said = ok(&[
        "plan",
        "topologies/dgx-h100",
        "--gpus",
        "0-3,6",
        "--format",
        "quiet",
    ]);
    assert!(said.out.contains("hosts=1 ranks=5 "), "{}", said.out);
    // All GPUs are the machine itself, in whatever order they are named.
    let whole = ok(&["plan", "topologies/dgx-1v", "--format", "json"]).out;
    assert_eq!(
        ok(&[
            "plan",
            "topologies/dgx-1v",
            "--gpus",
            "7-0",
            "--format",
            "json"
        ])
        .out,
        whole
    );
    for (list, message) in [
        ("0-3,9", "has no GPU9; it has GPU 0-7"),
        ("0,0", "GPU0 is named twice"),
        ("0-", "`0-` is neither a number nor a range"),
        ("", "the list is empty"),
    ] {
        let said = refused(&["plan", "topologies/dgx-h100", "--gpus", list]);
        assert!(said.err.contains(message), "{list}: {}", said.err);
    }
}

#[test]
fn rank_orders() {
    let (folder, file) = plan(&[
        "topologies/dgx-h100",
        "--hosts",
        "4",
        "--rank-order",
        "round-robin",
    ]);
    let page = ok(&["rank", &file, "-r", "5"]).out;
    assert!(page.contains("1 of 4; node 1 of 4, rank 1 in it"), "{page}");
    // The same from a file, and no file at all for the usual order.
    let list = folder.path().join("order.txt").display().to_string();
    let dealt: Vec<String> = (0..32)
        .map(|rank| (rank % 4 * 8 + rank / 4).to_string())
        .collect();
    std::fs::write(
        &list,
        format!(
            "# dealt\n{}\n{}\n",
            dealt[..16].join(", "),
            dealt[16..].join(" ")
        ),
    )
    .unwrap();
    let json = |order: &str| {
        ok(&[
            "plan",
            "topologies/dgx-h100",
            "--hosts",
            "4",
            "--rank-order",
            order,
            "--format",
            "json",
        ])
        .out
    };
    let from_file = json(&format!("@{list}"));
    assert_eq!(from_file, std::fs::read_to_string(&file).unwrap());
    assert_eq!(json("0-31"), json("host"));
    for (order, message) in [
        ("roundrobin", "did you mean round-robin?"),
        ("0-14", "has 15 entries, but the job has 16 ranks"),
        (
            "0-14,3",
            "names GPU 3 twice, for ranks 3 and 15; GPU 15 has no rank",
        ),
        (
            "0-14,16",
            "gives rank 15 GPU 16, but the job has GPUs 0 to 15",
        ),
        ("0-4294967295", "longer than 16777216"),
        ("@no-such-order", "cannot read the rank order no-such-order"),
    ] {
        let said = refused(&[
            "plan",
            "topologies/dgx-h100",
            "--hosts",
            "2",
            "--rank-order",
            order,
        ]);
        assert!(said.err.contains(message), "{order}: {}", said.err);
    }
    std::fs::write(&list, "0-7\n8 9 ten").unwrap();
    let said = refused(&[
        "plan",
        "topologies/dgx-h100",
        "--hosts",
        "2",
        "--rank-order",
        &format!("@{list}"),
    ]);
    assert!(said.err.contains(":2: `ten` is neither"), "{}", said.err);
}

#[test]
fn unequal_hosts_are_planned_with_a_word() {
    let said = ok(&[
        "plan",
        "topologies/dgx-h100",
        "topologies/gb200-nvl72-tray",
        "--format",
        "quiet",
    ]);
    for word in [
        "between 4 and 8 network ports",
        "sm 90 to sm 100",
        "between 4 and 8 ranks",
        "different processors",
    ] {
        assert!(said.err.contains(word), "{}", said.err);
    }
    let said = run(&[
        "plan",
        "topologies/dgx-h100",
        "topologies/gb200-nvl72-tray",
        "--set",
        "NCCL_IGNORE_NET_MISMATCH=0",
    ]);
    assert!(
        said.err
            .contains("NCCL_IGNORE_NET_MISMATCH=0 asks for equal numbers"),
        "{}",
        said.err
    );
    // A host that nothing reaches.
    let said = refused(&["plan", "topologies/dgx-h100", "topologies/pcie-8gpu-nonet"]);
    assert!(
        said.err.contains("host 1: GPU0") && said.err.contains("no network port"),
        "{}",
        said.err
    );
}
