//! Edits of machines, and the failures that `topo diff --each-failure` lists, beside whole plans.

use serde_json::Value;
use topology::edit::Edit;
use topology::xml::{parse, write};

use crate::{file, ok, refused, root, run};

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(arguments).out).unwrap()
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

/// The option that asks for an edit, and its value.
fn option(edit: &Value) -> (String, &str) {
    let kind = edit["kind"].as_str().unwrap();
    (format!("--{kind}"), edit["of"].as_str().unwrap())
}

#[test]
fn each_failure_is_the_difference_of_two_whole_plans() {
    for (machine, hosts) in [("dgx-1v", "1"), ("dgx-h100", "2"), ("pcie-8gpu-nicsw", "2")] {
        let folder = format!("topologies/{machine}");
        let report = json(&[
            "diff",
            "--each-failure",
            &folder,
            "--hosts",
            hosts,
            "--format",
            "json",
        ]);
        let rows = report["failures"].as_array().unwrap();
        assert!(!rows.is_empty());
        let mut before = f64::INFINITY;
        for row in rows {
            // Some of each group, as users type them.
            for edit in row["edits"].as_array().unwrap().iter().step_by(5) {
                let (option, text) = option(edit);
                let arguments = [
                    "cost", &folder, "--hosts", hosts, &option, text, "--sizes", "64K,1G",
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
                    // Both are 32-bit numbers, which JSON may write with more digits.
                    let time = |row: &Value| row["time_us"].as_f64().map(|time| time as f32);
                    assert_eq!(time(&sizes[at]), time(left), "{machine} {edit}");
                }
                assert_eq!(cost["ranks"], row["left"]["ranks"], "{machine} {edit}");
            }
            if row["cannot_be_planned"].is_null() {
                let (option, text) = option(&row["edits"][0]);
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
