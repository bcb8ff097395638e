//! Ranks on several hosts with GPUs: data leaves GPU memory by a net plug-in, with GPUDirect RDMA
//! or by host memory.

use std::collections::BTreeMap;

use testkit::network::loopback;

use crate::machine::Phantom;

/// The page's words where NICs access GPU memory.
const RDMA: &str = "NICs read and write memory of GPUs";

/// The result of a run.
struct Run {
    page: String,
    /// Calls of the driver.
    calls: BTreeMap<String, u64>,
    /// Flushes of NICs.
    flushes: u64,
}

/// Runs an all-reduce of two hosts, each with two GPUs of the machine, by a plug-in with these
/// settings.
fn run(machine: &str, lines: &[&str], settings: &str) -> Run {
    let phantom = Phantom::new(machine, lines);
    let plugin = phantom.path("libnccl-net-loopback.so");
    loopback::compile(12, settings, &[], &plugin).unwrap();
    let report = phantom.path("network");
    let mut command = phantom.topo();
    command.env("TOPO_LOOPBACK_REPORT", &report);
    command.args(["run", "all-reduce", "--backend", "cuda", "--ranks", "4"]);
    command.args(["--warm", "0"]);
    command.args(["--hosts", "2", "--processes", "--net-plugin"]);
    command
        .arg(&plugin)
        .args(["--protocol", "simple", "-n", "2"]);
    command.args(["-b", "64", "-e", "64K", "-f", "1024", "--channels", "2"]);
    let output = command.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{page}\n{errors}");
    assert!(page.contains("every element is right"), "{page}");
    let joined = format!("by the net plug-in {}", plugin.display());
    assert!(page.contains(&joined), "{page}");
    let driver = phantom.report();
    assert_eq!(driver.problems, [] as [&str; 0], "{page}");
    let text = std::fs::read_to_string(report).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let flushes = words.windows(2).filter(|pair| pair[1] == "flushes,");
    Run {
        page,
        calls: driver.calls,
        flushes: flushes.map(|pair| pair[0].parse::<u64>().unwrap()).sum(),
    }
}

const EXPORT: &str = "cuMemGetHandleForAddressRange";

#[test]
fn gpudirect_rdma_by_addresses() {
    let run = run("dgx-a100", &[], "MEMORY=3");
    assert!(run.page.contains(RDMA), "{}", run.page);
    assert!(run.calls.contains_key("cuPointerSetAttribute"));
    assert!(!run.calls.contains_key(EXPORT));
    assert!(run.flushes > 0);
}

#[test]
fn gpudirect_rdma_by_dma_buf() {
    let run = run("dgx-h100", &["dma-buf yes"], "MEMORY=7");
    assert!(run.page.contains(RDMA), "{}", run.page);
    assert!(run.calls.contains_key(EXPORT));
    assert!(run.flushes > 0);
}

#[test]
fn networks_that_take_host_memory_only() {
    let run = run("dgx-h100", &[], "MEMORY=1");
    assert!(!run.page.contains(RDMA), "{}", run.page);
    assert!(!run.calls.contains_key("cuPointerSetAttribute"));
    assert_eq!(run.flushes, 0);
}
