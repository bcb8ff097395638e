//! Compiles `src/` a second time, as the plug-in: a shared library without dependencies, which the
//! crate then holds as bytes.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The plug-in's file.
const FILE: &str = "libnccl-tuner-topo.so";

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR")).join(FILE);
    // NCCL is a library for Linux. A program that is linked statically can hold a plug-in, but its
    // target cannot make one.
    let is_static = variable("CARGO_CFG_TARGET_ENV") == "musl";
    if variable("CARGO_CFG_TARGET_OS") != "linux" || is_static {
        fs::write(&out, b"").expect("the build's folder can be written");
        return;
    }
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(compiler);
    command
        .args(["--edition", "2024", "--crate-name", "nccl_tuner_topo"])
        .args(["--crate-type", "cdylib", "--cfg", "topo_plugin"])
        .args(["--target", &variable("TARGET")])
        // Panics are caught where NCCL calls, so they must unwind.
        .args([
            "-C",
            "opt-level=2",
            "-C",
            "panic=unwind",
            "-C",
            "strip=symbols",
        ])
        // NCCL may unload and load it again while other threads run.
        .args(["-C", "link-arg=-Wl,-z,nodelete", "-C", "codegen-units=1"])
        .arg("-o")
        .arg(&out)
        .arg("src/lib.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = OsString::from("linker=");
        argument.push(linker);
        command.arg("-C").arg(argument);
    }
    let status = command.status().expect("rustc can be started");
    assert!(
        status.success(),
        "rustc cannot compile the plug-in: {status}"
    );
}
