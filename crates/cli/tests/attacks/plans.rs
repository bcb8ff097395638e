//! Plans of strangers whose settings would load a library, with a checksum that fits.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{LONG, Running, Said, topo};

fn run(arguments: &[&str]) -> Said {
    Running::start(topo().args(arguments)).within(LONG)
}

/// The plan of a machine with these settings. Its checksum is the one that the program names.
fn forged(folder: &Path, name: &str, settings: &Value) -> String {
    let file = folder.join("plan.json").display().to_string();
    let made = run(&["plan", "topologies/gh200", "-o", &file]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    let mut plan: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    plan["plan"]["settings"] = settings.clone();
    plan["plan"]["machines"][0]["name"] = name.into();
    fs::write(&file, plan.to_string()).unwrap();
    let refused = run(&["show", &file, "--rank", "0"]);
    let (_, rest) = refused.err.split_once("has checksum ").expect("a checksum");
    plan["checksum"] = rest[..64].into();
    fs::write(&file, plan.to_string()).unwrap();
    file
}

/// Exports the plan; returns what it says and `nccl.conf`.
fn export(name: &str, settings: &Value) -> (Said, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = forged(folder.path(), name, settings);
    let exported = folder.path().join("exported");
    let said = run(&["export", &file, "--dir", &exported.display().to_string()]);
    let conf = fs::read_to_string(exported.join("nccl.conf")).ok();
    (said, conf)
}

pub(crate) fn no_setting_of_a_plan_loads_a_library() {
    for (name, value) in [
        ("NCCL_CROSS_NIC", "0\nNCCL_NET_PLUGIN=/tmp/other.so"),
        ("NCCL_ALGO", "Ring\nNCCL_NET_PLUGIN=/tmp/other.so"),
        ("NCCL_CROSS_NIC=0\nNCCL_NET_PLUGIN", "/tmp/other.so"),
        ("NCCL_HOSTID", "x\nNCCL_NET_PLUGIN=/tmp/other.so"),
        ("LD_PRELOAD", "/tmp/other.so"),
        ("NCCL_NET_PLUGIN", "/tmp/other.so"),
        ("NCCL_TUNER_PLUGIN", "/tmp/other.so"),
        ("NCCL_GRAPH_FILE", "/tmp/other.so"),
    ] {
        let settings = json!([{ "name": name, "value": value }]);
        let (said, conf) = export("gh200", &settings);
        let conf = conf.unwrap_or_default();
        assert!(!conf.contains("other.so"), "{name:?}={value:?}: {conf}");
        let refused = said.status == Some(2) && !said.err.contains('\u{1b}');
        // The exported graph file takes the place of the plan's.
        let is_replaced = name == "NCCL_GRAPH_FILE";
        let is_left_out = is_replaced || said.out.contains(&format!("left out: {name}"));
        let exported = said.status == Some(0) && is_left_out;
        assert!(refused || exported, "{name:?}={value:?}: {said:?}");
    }
}

pub(crate) fn no_name_of_a_machine_adds_a_line() {
    let (said, conf) = export("gh200\nNCCL_NET_PLUGIN=/tmp/other.so", &json!([]));
    assert_eq!((said.status, conf), (Some(2), None), "{}", said.err);
}

pub(crate) fn settings_that_decide_are_exported() {
    let settings = json!([{ "name": "NCCL_CROSS_NIC", "value": "0" }]);
    let (said, conf) = export("gh200", &settings);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(conf.is_some_and(|it| it.contains("\nNCCL_CROSS_NIC=0\n")));
}
