//! Prices, differences and failures.

use serde_json::Value;
use topology::edit::Edit;
use topology::xml::{parse, write};

use crate::{expect, file, ok, refused, root, run};

/// The status of plans that differ.
const DIFFERENT: i32 = 1;

const H100: &str = "topologies/dgx-h100";

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(arguments).out).unwrap()
}

#[test]
fn whole_pages() {
    expect(
        "cost-dgx-h100-hosts-2.txt",
        &ok(&["cost", H100, "--hosts", "2"]).out,
    );
    expect(
        "cost-table-dgx-h100.txt",
        &ok(&["cost", H100, "--table", "--collective", "all"]).out,
    );
    expect(
        "cost-alpha-beta-dgx-1v.txt",
        &ok(&[
            "cost",
            "topologies/dgx-1v",
            "--alpha-beta",
            "--collective",
            "all-reduce,all-to-all",
            "--sizes",
            "1K..1G",
            "--factor",
            "16",
        ])
        .out,
    );
    expect(
        "what-if-dgx-1v.txt",
        &ok(&["what-if", "topologies/dgx-1v"]).out,
    );
    expect(
        "what-if-dgx-h100-hosts-2.txt",
        &ok(&["what-if", H100, "--hosts", "2"]).out,
    );
    let said = run(&["diff", "topologies/dgx-1v", "--degrade-b", "GPU0:GPU3=50%"]);
    assert_eq!(said.status, Some(DIFFERENT), "{}", said.err);
    expect("diff-dgx-1v.txt", &said.out);
    let said = run(&["diff", H100, "--hosts", "2", "--without-b", "host1/mlx5_3"]);
    assert_eq!(said.status, Some(DIFFERENT), "{}", said.err);
    expect("diff-dgx-h100-hosts-2.txt", &said.out);
}

#[test]
fn costs_say_what_the_plan_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json").display().to_string();
    ok(&["plan", H100, "--hosts", "3", "-o", &plan]);
    let of_file = json(&[
        "cost",
        H100,
        "--hosts",
        "3",
        "--collective",
        "all",
        "--format",
        "json",
    ]);
    let of_plan = json(&["cost", &plan, "--collective", "all", "--format", "json"]);
    assert_eq!(of_file["collectives"], of_plan["collectives"]);
    assert_eq!(
        (&of_plan["ranks"], &of_plan["hosts"]),
        (&Value::from(24), &Value::from(3))
    );
    assert_eq!(ok(&["diff", &plan, H100, "--hosts", "3"]).out, "");
    assert_eq!(
        run(&["diff", &plan, H100, "--hosts", "2"]).status,
        Some(DIFFERENT)
    );
    let said = refused(&["cost", &plan, "--without", "GPU0"]);
    assert!(
        said.err
            .contains("is a plan, which --without cannot change"),
        "{}",
        said.err
    );
    let said = refused(&["cost", &plan, "--profile", "x.toml"]);
    assert!(said.err.contains("x.toml"), "{}", said.err);
}

#[test]
fn filters_choose_among_what_is_left() {
    let times = |extra: &[&str]| {
        let arguments = [
            &["cost", H100, "--sizes", "64K,1M,1G", "--format", "json"],
            extra,
        ]
        .concat();
        let sizes = json(&arguments)["collectives"][0]["sizes"].clone();
        let sizes = sizes.as_array().unwrap().clone();
        let way =
            |size: &Value| format!("{} {}", size["algorithm"], size["protocol"]).replace('"', "");
        sizes.iter().map(way).collect::<Vec<_>>()
    };
    assert_eq!(times(&[]), ["Ring LL", "Ring LL", "NVLS Simple"]);
    assert_eq!(
        times(&["--algorithm", "ring"]),
        ["Ring LL", "Ring LL", "Ring Simple"]
    );
    assert_eq!(
        times(&["--algorithm", "ring,tree", "--protocol", "ll128"]),
        ["Tree LL128", "Tree LL128", "Ring LL128"]
    );
    assert_eq!(
        times(&["--set", "NCCL_ALGO=^ring"]),
        ["Tree LL", "NVLS Simple", "NVLS Simple"]
    );
    let said = refused(&["cost", H100, "--set", "NCCL_ALGO=rang"]);
    assert!(
        said.err
            .contains("`rang` is no algorithm; did you mean Ring?"),
        "{}",
        said.err
    );
    let said = refused(&["cost", H100, "--set", "NCCL_PROTO=Simple;ll"]);
    assert!(
        said.err.contains("NCCL_PROTO=\"Simple;ll\", character 8"),
        "{}",
        said.err
    );
    let said = refused(&[
        "cost",
        H100,
        "--collective",
        "broadcast",
        "--algorithm",
        "tree",
    ]);
    assert!(
        said.err
            .contains("no algorithm and protocol is left for Broadcast"),
        "{}",
        said.err
    );
    let said = refused(&["cost", H100, "--collective", "gather"]);
    assert!(said.err.contains("--alpha-beta judges it"), "{}", said.err);
    let said = refused(&["cost", H100, "--collective", "all-reduse"]);
    assert!(said.err.contains("did you mean all-reduce"), "{}", said.err);
    refused(&["cost", H100, "--sizes", "2K..1K"]);
    refused(&["cost", H100, "--sizes", "0"]);
}

#[test]
fn profiles_are_files() {
    let built_in = ok(&["cost", "--built-in-profile"]).out;
    let (_folder, same) = file("same.toml", &built_in);
    let arguments = ["cost", H100, "--format", "json"];
    let with = |profile: &str| json(&[&arguments[..], &["--profile", profile]].concat());
    assert_eq!(with(&same), json(&arguments));
    let (_folder, mine) = file(
        "mine.toml",
        &built_in
            .replace("tree = [6.8, 14.0, 8.4]", "tree = [1.8, 14.0, 8.4]")
            .replace("name = \"nccl-2.30\"", "name = \"mine\""),
    );
    let mine = with(&mine);
    assert_eq!(mine["profile"], "mine");
    assert_eq!(mine["collectives"][0]["sizes"][0]["algorithm"], "Tree");
    let (_folder, typo) = file("typo.toml", &built_in.replace("pat-overlap", "pat-overlpa"));
    let said = refused(&["cost", H100, "--profile", &typo]);
    assert!(
        said.err.contains("typo.toml:136: a cost profile has no key `latency.pat-overlpa`; did you mean `latency.pat-overlap`?"),
        "{}",
        said.err
    );
}

#[test]
fn edits_equal_edited_files() {
    for (machine, option, text) in [
        ("dgx-h100", "--without", "mlx5_3"),
        ("dgx-h100", "--without", "GPU5"),
        ("dgx-h100", "--without", "0000:45:01.0"),
        ("dgx-h100", "--degrade", "GPU0:NVSwitch=50%"),
        ("dgx-1v", "--degrade", "GPU0:GPU3=50%"),
        ("dgx-1v", "--without", "GPU0:GPU1"),
        ("gb200-nvl72-tray", "--degrade", "GPU0:CPU0=50%"),
    ] {
        let folder = format!("topologies/{machine}");
        let bytes = std::fs::read(root().join(&folder).join("topology.xml")).unwrap();
        let edit = if option == "--without" {
            Edit::without(text)
        } else {
            Edit::degrade(text)
        };
        let document = edit
            .unwrap()
            .apply(&parse(machine, &bytes).unwrap())
            .unwrap();
        let (_folder, edited) = file("edited.xml", &write(&document));
        for hosts in ["1", "2"] {
            let side = format!("{option}-b");
            let said = ok(&["diff", &edited, &folder, &side, text, "--hosts", hosts]);
            assert_eq!(said.out, "", "{machine} {option} {text}");
            let quiet = |arguments: &[&str]| {
                let arguments = [arguments, &["--hosts", hosts, "--format", "quiet"]].concat();
                let out = ok(&arguments).out;
                out.split_once(' ').unwrap().1.to_owned()
            };
            assert_eq!(
                quiet(&["plan", &edited]),
                quiet(&["plan", &folder, option, text])
            );
        }
    }
}

#[test]
fn edits_of_one_host() {
    let all = ok(&[
        "plan",
        H100,
        "--hosts",
        "2",
        "--without",
        "mlx5_3",
        "--format",
        "quiet",
    ])
    .out;
    let one = ok(&[
        "plan",
        H100,
        "--hosts",
        "2",
        "--without",
        "host1/mlx5_3",
        "--format",
        "quiet",
    ])
    .out;
    // The first host is whole, so it found 8 rings; the job has those of the poorer host.
    assert!(
        all.contains("ring=7x48") && one.contains("ring=8x48"),
        "{all}{one}"
    );
    let said = refused(&["plan", H100, "--hosts", "2", "--without", "host2/mlx5_3"]);
    assert!(
        said.err.contains("the job has no host 2; expected 0 to 1"),
        "{}",
        said.err
    );
    let said = refused(&["plan", H100, "--without", "mlx_3"]);
    assert!(
        said.err
            .contains("has no device `mlx_3`; did you mean mlx5_3"),
        "{}",
        said.err
    );
    let said = refused(&["plan", H100, "--degrade", "GPU0:GPU1=50%"]);
    assert!(
        said.err
            .contains("no link between GPU0 and GPU1; GPU0 has links to"),
        "{}",
        said.err
    );
    let said = run(&["plan", H100, "--degrade", "GPU0"]);
    assert!(
        said.status == Some(2) && said.err.contains("expected LINK=SHARE"),
        "{}",
        said.err
    );
}

#[test]
fn each_failure_is_the_difference_of_two_whole_plans() {
    for (machine, hosts) in [("dgx-1v", "1"), ("dgx-h100", "2"), ("pcie-8gpu-nicsw", "2")] {
        let folder = format!("topologies/{machine}");
        let report = json(&["what-if", &folder, "--hosts", hosts, "--format", "json"]);
        let rows = report["failures"].as_array().unwrap();
        assert!(!rows.is_empty());
        let mut before = f64::INFINITY;
        for row in rows {
            // Each of a group, as one would type it.
            for options in row["options"].as_array().unwrap().iter().step_by(5) {
                let (option, text) = options.as_str().unwrap().split_once(' ').unwrap();
                let arguments = [
                    "cost", &folder, "--hosts", hosts, option, text, "--sizes", "64K,1G",
                    "--format", "json",
                ];
                if let Some(problem) = row["cannot_be_planned"].as_str() {
                    assert!(refused(&arguments).err.contains(problem));
                    continue;
                }
                let cost = json(&arguments);
                let sizes = &cost["collectives"][0]["sizes"];
                for (at, left) in row["left"]["all_reduce"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .enumerate()
                {
                    assert_eq!(sizes[at]["time_us"], left["time_us"], "{machine} {options}");
                }
                assert_eq!(cost["ranks"], row["left"]["ranks"], "{machine} {options}");
            }
            if row["cannot_be_planned"].is_null() {
                let (option, text) = row["options"][0].as_str().unwrap().split_once(' ').unwrap();
                let side = format!("{option}-b");
                let said = run(&[
                    "diff", &folder, "--hosts", hosts, &side, text, "--format", "json",
                ]);
                let difference: Value = serde_json::from_str(&said.out).unwrap();
                assert_eq!(
                    difference["facts"], row["differences"],
                    "{machine} {option} {text}"
                );
            }
            let loss = row["left"]["all_reduce"][1]["loss"]
                .as_f64()
                .unwrap_or(f64::INFINITY);
            assert!(loss <= before, "worst first");
            before = loss;
        }
    }
}

#[test]
fn failures_that_stop_the_job_say_so() {
    // Without its only NIC a host cannot take part; without its only GPU there is nothing left.
    let machine = ["what-if", "topologies/gh200", "--hosts", "2"];
    let page = ok(&machine).out;
    assert!(
        page.contains("cannot start          all         all"),
        "{page}"
    );
    assert!(
        page.contains(
            "Without NIC0 NCCL cannot start: host 0: GPU0 (0009:01:00.0) reaches no network port"
        ),
        "{page}"
    );
    let only = json(&[&machine[..], &["--only", "gpu", "--format", "json"]].concat());
    let rows = only["failures"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["options"][0], "--without host0/GPU0");
    assert!(
        rows[0]["cannot_be_planned"]
            .as_str()
            .unwrap()
            .contains("no GPU"),
        "{only}"
    );
}

#[test]
fn settings_that_change_nothing_are_no_difference() {
    for set in [
        "NCCL_DEBUG=INFO",
        "NCCL_CROSS_NIC=2",
        "NCCL_ALGO=^CollNetDirect",
    ] {
        assert_eq!(ok(&["diff", H100, "--set-b", set]).out, "", "{set}");
    }
    assert_eq!(
        run(&["diff", H100, "--set-b", "NCCL_ALGO=^NVLS"]).status,
        Some(DIFFERENT)
    );
    assert_eq!(
        run(&[
            "diff",
            H100,
            "--set",
            "NCCL_ALGO=ring",
            "--set-b",
            "NCCL_ALGO=^NVLS"
        ])
        .status,
        Some(DIFFERENT)
    );
    let said = refused(&["diff", H100]);
    assert!(said.err.contains("expected a second one"), "{}", said.err);
    refused(&["diff", H100, "topologies/nowhere"]);
    refused(&["diff", "-", "-"]);
}

#[test]
fn pages_fit() {
    for width in ["80", "100"] {
        for arguments in [
            &["cost", H100, "--collective", "all", "--alpha-beta"][..],
            &["cost", "topologies/dgx-1v", "--table"],
            &["what-if", "topologies/dgx-1v"],
            &["diff", "topologies/dgx-1v", H100],
            &[
                "diff",
                "topologies/dgx-1v",
                "--hosts",
                "2",
                "--without-b",
                "host1/GPU0",
            ],
        ] {
            let output = crate::topo()
                .args(arguments)
                .env("COLUMNS", width)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            for line in text.lines() {
                assert!(
                    line.chars().count() <= width.parse().unwrap(),
                    "{arguments:?}: {line}"
                );
                assert_eq!(line.trim_end(), line, "{arguments:?}");
            }
        }
    }
}
