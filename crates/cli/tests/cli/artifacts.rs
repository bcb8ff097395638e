//! Plan files.

use plan::Plan;
use testkit::Machine;

use crate::{FAILED, ok, said, topo};

#[test]
fn only_settings_that_decide_change_the_fingerprint() {
    let plan = |arguments: &[&str]| {
        let arguments = [
            &["plan", "topologies/dgx-a100", "--format", "json"],
            arguments,
        ]
        .concat();
        Plan::from_json(&ok(&arguments).out).unwrap()
    };
    let plain = plan(&[]);
    let same = plan(&[
        "--set",
        "NCCL_DEBUG=INFO",
        "--set",
        "NCCL_TOPO_DUMP_FILE=/tmp/x",
    ]);
    assert_eq!(same, plain);
    for arguments in [
        &["--set", "NCCL_CROSS_NIC=2"][..],
        &["--set", "NCCL_MAX_NCHANNELS=4"],
        &["--set", "NCCL_ALGO=ring"],
        &["--hosts", "2"],
        &["--collnet"],
    ] {
        assert_ne!(
            plan(arguments).fingerprint,
            plain.fingerprint,
            "{arguments:?}"
        );
    }
}

#[test]
fn every_machine_gives_a_plan_that_reads_back() {
    for machine in Machine::all().unwrap() {
        let mut command = topo();
        command
            .args(["plan", "--format", "json"])
            .arg(&machine.folder);
        let said = said(command.output().unwrap());
        let name = &machine.name;
        if said.status == Some(0) {
            let plan = Plan::from_json(&said.out);
            let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.to_json().unwrap(), said.out, "{name}");
            assert_eq!(plan.machines[0].name, *name);
        } else {
            assert_eq!(
                (said.status, said.out.as_str()),
                (Some(FAILED), ""),
                "{name}"
            );
        }
    }
}
