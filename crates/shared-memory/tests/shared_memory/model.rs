//! The models of the memory order, which are compiled separately.

use std::process::Command;

#[test]
#[ignore = "not run: it is compiled by itself: `cargo xtask loom`"]
fn loom_finds_no_wrong_order() {
    let status = Command::new(env!("CARGO"))
        .args(["xtask", "loom"])
        .status()
        .unwrap();
    assert!(status.success());
}
