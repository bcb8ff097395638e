//! NVIDIA's own driver libraries without a GPU (`cargo xtask fetch drivers`): they have the entry
//! points that the phantom driver of their version has, and the backend says that there is no GPU.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Drivers and their versions of CUDA.
const DRIVERS: [(&str, u32); 2] = [("535", 12_020), ("550", 12_040)];

/// Entry points, each with the version that has it first.
const ENTRY_POINTS: &str = include_str!("../../phantom/entry_points.txt");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (driver, version) in DRIVERS {
        let trial = |name: &str, test: fn(&Path, u32) -> Result<(), String>| {
            Trial::ignorable_test(format!("{name}_{driver}"), move || {
                run(driver, version, test)
            })
        };
        trials.push(trial("entry_points_of", entry_points));
        trials.push(trial("no_gpu_with", no_gpu));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(
    driver: &str,
    version: u32,
    test: fn(&Path, u32) -> Result<(), String>,
) -> Result<Completion, Failed> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target: PathBuf = target.map_or_else(|| repository.join("target"), Into::into);
    let folder = target.join("drivers").join(driver);
    if !folder.join("libcuda.so.1").exists() {
        return Ok(Completion::ignored_with(format!(
            "not run: driver {driver} is not there (cargo xtask fetch drivers)"
        )));
    }
    test(&folder, version)?;
    Ok(Completion::Completed)
}

/// The library has all entry points of its version of CUDA and none of a later one.
fn entry_points(folder: &Path, version: u32) -> Result<(), String> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]);
    let listed = nm.arg(folder.join("libcuda.so.1")).output();
    let listed = listed.map_err(|why| format!("nm, of the C++ compiler's tools: {why}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let names = listed
        .lines()
        .filter_map(|line| line.split([' ', '@']).next());
    let exported: BTreeSet<&str> = names.collect();
    for line in ENTRY_POINTS.lines() {
        let (name, since) = line.split_once(' ').ok_or("a line without a version")?;
        let since: u32 = since.parse().map_err(|_| format!("{line}: no version"))?;
        let found = exported.contains(name);
        if found != (since <= version) {
            return Err(format!("{name}, since {since}: found: {found}"));
        }
    }
    Ok(())
}

/// The backend finds all that it calls, and the driver finds no GPU.
fn no_gpu(folder: &Path, _: u32) -> Result<(), String> {
    if Path::new("/dev/nvidiactl").exists() {
        // The driver of this machine is another one.
        return Ok(());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args("run --ranks 2 all-reduce --backend cuda".split(' '))
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .map_err(|why| why.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(2) if errors.contains("the NVIDIA driver finds no GPU") => Ok(()),
        status => Err(format!("{status:?}: {errors}")),
    }
}
