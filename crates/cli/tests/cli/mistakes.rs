//! Mistyped names and what is offered instead.

use crate::refused;

#[test]
fn mistyped_files_get_a_suggestion() {
    let said = refused(&["plan", "topologies/dgx-h100/toplogy.xml"]);
    assert!(
        said.err
            .contains("did you mean topologies/dgx-h100/topology.xml?"),
        "{}",
        said.err
    );
    let said = refused(&["plan", "topologies/dgx-h1000/topology.xml"]);
    assert!(
        said.err.contains("did you mean topologies/dgx-h100?"),
        "{}",
        said.err
    );
    let said = refused(&["show", "topologies"]);
    assert!(
        said.err.contains("is a folder without a topology.xml"),
        "{}",
        said.err
    );
    let said = refused(&["show", "qqqqqq"]);
    assert!(!said.err.contains("did you mean"), "{}", said.err);
}

#[test]
fn mistyped_devices_get_a_suggestion() {
    let said = refused(&["show", "topologies/dgx-h100", "--path", "GPUO", "mlx5_3"]);
    assert!(
        said.err.contains("no device `GPUO`; did you mean GPU0"),
        "{}",
        said.err
    );
    let said = refused(&["show", "topologies/dgx-h100", "--path", "GPU0", "mlx_3"]);
    assert!(said.err.contains("did you mean mlx5_3"), "{}", said.err);
    assert!(
        said.err.contains("It has GPU0-7, NIC0-7, CPU0,1"),
        "{}",
        said.err
    );
}

#[test]
fn mistyped_commands_and_flags_get_a_suggestion() {
    assert!(
        refused(&["paln", "topologies/dgx-h100"])
            .err
            .contains("'plan'")
    );
    assert!(
        refused(&["plan", "topologies/dgx-h100", "--host", "2"])
            .err
            .contains("'--hosts'")
    );
    refused(&["plan", "topologies/dgx-h100", "--hosts", "0"]);
    refused(&["plan", "topologies/dgx-h100", "--set", "NCCL_CROSS_NIC"]);
    refused(&["rank", "topologies/dgx-h100"]);
    let said = refused(&[
        "plan",
        "topologies/dgx-h100",
        "topologies/dgx-a100",
        "--hosts",
        "2",
    ]);
    assert!(
        said.err.contains("--hosts counts copies of one machine"),
        "{}",
        said.err
    );
}
