//! The models of the memory order, which need a compilation of their own.

#![cfg(not(loom))]

use std::process::Command;

#[test]
fn loom_finds_no_wrong_order() {
    if std::env::var_os("TOPO_LOOM").is_none() {
        println!("not run: loom_finds_no_wrong_order (set TOPO_LOOM, or `cargo xtask loom`)");
        return;
    }
    let status = Command::new(env!("CARGO"))
        .args(["xtask", "loom"])
        .status()
        .unwrap();
    assert!(status.success());
}
