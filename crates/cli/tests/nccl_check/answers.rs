//! The decisions of NCCL's libraries.

use std::process::Command;

use libtest_mimic::{Completion, Failed};
use serde_json::Value;

use super::{check, library, not_fetched, program, topo};

/// A job that is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub name: &'static str,
    machine: &'static str,
    arguments: &'static [&'static str],
}

/// Small machines on which versions differ.
const GUIDS: &str = "../crates/planner/tests/machines/plain-guids.xml";
const FAR_GPUS: &str = "../crates/planner/tests/machines/far-gpus.xml";
const PLANES: &str = "../crates/planner/tests/machines/planes.xml";
const CONNECTX8: &str = "../crates/planner/tests/machines/connectx8.xml";
const ONE_NAME: &str = "../crates/planner/tests/machines/one-name.xml";
const NO_PORTS: &str = "../crates/planner/tests/machines/no-ports.xml";
const INTERFACES: &str = "../crates/cli/tests/nccl_check/interfaces.xml";
const LOST_GPUS: &str = "../crates/planner/tests/machines/lost-gpus.xml";
const NO_ACCESS: &str = "../crates/planner/tests/machines/no-access.xml";
const SOME_ACCESS: &str = "../crates/planner/tests/machines/some-access.xml";
const NO_ACCESS_BY_NVLINK: &str = "../crates/planner/tests/machines/no-access-nvlink.xml";

pub(crate) const SAMPLES: [Sample; 43] = [
    Sample {
        name: "rubin",
        machine: "hgx-rubin-nvl8",
        arguments: &[],
    },
    Sample {
        name: "rubin_with_an_old_driver",
        machine: "vr200-nvl72-tray",
        arguments: &["--hosts", "2"],
    },
    Sample {
        name: "rubin_with_a_new_driver",
        machine: "vr200-nvl72-tray",
        arguments: &["--hosts", "2", "--driver-version", "13.3"],
    },
    Sample {
        name: "one_host",
        machine: "dgx-h100",
        arguments: &[],
    },
    Sample {
        name: "two_hosts",
        machine: "workstation-2gpu",
        arguments: &["--hosts", "2"],
    },
    Sample {
        name: "peers",
        machine: "workstation-2gpu-nvlink",
        arguments: &["--hosts", "2", "--peers"],
    },
    Sample {
        name: "nvlink_domain",
        machine: "gb200-nvl72-tray",
        arguments: &["--hosts", "2", "--nvlink-domain"],
    },
    Sample {
        name: "sockets",
        machine: "workstation-2gpu",
        arguments: &["--hosts", "2", "--net", "socket"],
    },
    Sample {
        name: "guids_without_prefix",
        machine: GUIDS,
        arguments: &["--hosts", "2", "--net", "plugin"],
    },
    Sample {
        name: "nodes_of_one_host",
        machine: FAR_GPUS,
        arguments: &["--net", "plugin"],
    },
    Sample {
        name: "planes_of_a_rail",
        machine: PLANES,
        arguments: &["--hosts", "2", "--net", "plugin"],
    },
    Sample {
        name: "ports_of_connectx8",
        machine: CONNECTX8,
        arguments: &["--hosts", "2", "--net", "plugin"],
    },
    Sample {
        name: "ports_of_one_name",
        machine: ONE_NAME,
        arguments: &["--hosts", "2", "--net", "plugin"],
    },
    Sample {
        name: "no_ports",
        machine: NO_PORTS,
        arguments: &[],
    },
    Sample {
        name: "no_ports_on_two_hosts",
        machine: NO_PORTS,
        arguments: &["--hosts", "2"],
    },
    Sample {
        name: "rails_of_a_file_that_lacks_gpus",
        machine: LOST_GPUS,
        arguments: &["--hosts", "2", "--peers"],
    },
    Sample {
        name: "transports_that_differ_by_direction",
        machine: "random-00119",
        arguments: &["--peers"],
    },
    Sample {
        name: "refused_collectives",
        machine: "workstation-2gpu",
        arguments: &["--set", "NCCL_ALGO=Tree"],
    },
    Sample {
        name: "windows",
        machine: "dgx-h100",
        arguments: &["--window", "symmetric", "--sizes", "1K..256M"],
    },
    Sample {
        name: "windows_of_blackwell",
        machine: "dgx-b200",
        arguments: &["--window", "symmetric", "--sizes", "1K..256M"],
    },
    Sample {
        name: "windows_in_place",
        machine: "dgx-b200",
        arguments: &[
            "--gpus",
            "0-3",
            "--window",
            "symmetric",
            "--in-place",
            "--sizes",
            "1K..256M",
        ],
    },
    Sample {
        name: "registered_in_place",
        machine: "dgx-a100",
        arguments: &["--window", "local", "--in-place"],
    },
    Sample {
        name: "windows_of_rubin",
        machine: "hgx-rubin-nvl8",
        arguments: &[
            "--window",
            "symmetric",
            "--sizes",
            "1K..256M",
            "--type",
            "bf16",
        ],
    },
    Sample {
        name: "pat",
        machine: "gh200",
        arguments: &[
            "--hosts",
            "2",
            "--sizes",
            "16K..256K",
            "--set",
            "NCCL_ALGO=PAT",
        ],
    },
    Sample {
        name: "groups_on_windows",
        machine: "dgx-a100",
        arguments: &["--window", "symmetric", "--calls", "60", "--type", "bf16"],
    },
    Sample {
        name: "registered",
        machine: "dgx-h100",
        arguments: &["--window", "local", "--sizes", "8M"],
    },
    Sample {
        name: "registered_averages",
        machine: "dgx-h100",
        arguments: &["--window", "local", "--op", "avg", "--type", "f16"],
    },
    Sample {
        name: "groups_of_small_numbers",
        machine: "dgx-h100",
        arguments: &["--hosts", "2", "--calls", "8", "--type", "fp8_e4m3"],
    },
    Sample {
        name: "some_adapters",
        machine: "oci-a100",
        arguments: &[
            "--hosts",
            "2",
            "--set",
            "NCCL_IB_HCA==mlx5_5,mlx5_1,mlx5_10",
            "--net",
            "plugin",
        ],
    },
    Sample {
        name: "some_interfaces",
        machine: INTERFACES,
        arguments: &["--hosts", "2", "--set", "NCCL_SOCKET_IFNAME=^eth0"],
    },
    Sample {
        name: "without_virtual_memory",
        machine: "dgx-h100",
        arguments: &["--set", "NCCL_CUMEM_ENABLE=0"],
    },
    Sample {
        name: "without_virtual_memory_on_two_hosts",
        machine: "workstation-2gpu-nvlink",
        arguments: &["--hosts", "2", "--peers", "--set", "NCCL_CUMEM_ENABLE=0"],
    },
    Sample {
        name: "registered_without_virtual_memory",
        machine: "workstation-2gpu-nvlink",
        arguments: &["--window", "local", "--set", "NCCL_CUMEM_ENABLE=0"],
    },
    Sample {
        name: "refused_collectives_on_windows",
        machine: "workstation-2gpu-nvlink",
        arguments: &[
            "--window",
            "symmetric",
            "--type",
            "u8",
            "--set",
            "NCCL_ALGO=NVLS",
        ],
    },
    Sample {
        name: "connected_late",
        machine: "dgx-h100",
        arguments: &["--sizes", "1K,1M", "--set", "NCCL_RUNTIME_CONNECT=1"],
    },
    Sample {
        name: "connected_at_the_start",
        machine: "workstation-2gpu",
        arguments: &["--hosts", "2", "--peers", "--set", "NCCL_RUNTIME_CONNECT=0"],
    },
    Sample {
        name: "gpus_in_another_order",
        machine: "dgx-1v",
        arguments: &["--gpus", "6,4,0,5", "--hosts", "2"],
    },
    Sample {
        name: "some_gpus_of_two_switches",
        machine: "pcie-8gpu-switch-per-socket",
        arguments: &["--gpus", "0,1,5,6", "--rank-order", "round-robin"],
    },
    Sample {
        name: "no_peer_access",
        machine: NO_ACCESS,
        arguments: &["--peers"],
    },
    Sample {
        name: "peer_access_of_some_pairs",
        machine: SOME_ACCESS,
        arguments: &["--hosts", "2", "--peers"],
    },
    Sample {
        name: "peer_access_that_is_not_asked_for",
        machine: SOME_ACCESS,
        arguments: &["--peers", "--set", "NCCL_IGNORE_DISABLED_P2P=2"],
    },
    Sample {
        name: "nvlink_without_peer_access",
        machine: NO_ACCESS_BY_NVLINK,
        arguments: &["--peers", "--set", "NCCL_IGNORE_DISABLED_P2P=1"],
    },
    Sample {
        name: "hosts_that_differ",
        machine: "dgx-a100",
        arguments: &[
            "topologies/dgx-1v",
            "topologies/workstation-2gpu",
            "--peers",
        ],
    },
];

/// NCCL answers, and decides as planned.
pub(crate) fn of(version: &str, sample: Sample) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let mut command = topo(sample.machine, &library);
    agrees(version, command.args(sample.arguments))
}

/// A machine for which other rings than NCCL's carry more.
const WITH_BETTER_RINGS: &str = "random-00078";

/// NCCL follows the graph file of `topo plan --strategy ring`, on one host and on two.
pub(crate) fn better_rings(version: &str) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let folder = tempfile::tempdir()?;
    for hosts in ["1", "2"] {
        let (minor, _) = version
            .rsplit_once('.')
            .ok_or("a version of three numbers")?;
        let planned = program("plan", WITH_BETTER_RINGS)
            .args(["--hosts", hosts, "--nccl", minor])
            .args(["--strategy", "ring", "--format", "nccl-graph"])
            .output()?;
        check(planned.status.success(), || {
            String::from_utf8_lossy(&planned.stderr).into_owned()
        })?;
        let file = folder.path().join("rings.xml");
        std::fs::write(&file, planned.stdout)?;
        let variable = format!("NCCL_GRAPH_FILE={}", file.display());
        let mut command = topo(WITH_BETTER_RINGS, &library);
        agrees(
            version,
            command.args(["--hosts", hosts, "--set", &variable]),
        )?;
    }
    Ok(Completion::Completed)
}

/// NCCL answers a command, and decides as planned.
fn agrees(version: &str, command: &mut Command) -> Result<Completion, Failed> {
    command.arg("--json");
    let said = command.output()?;
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    let status = said.status.code();
    check(matches!(status, Some(0 | 1)), || err.clone())?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    let said = || report.to_string();
    check(report["nccl"] == version, said)?;
    check(report["agrees"] == true && status == Some(0), said)?;
    let outcome = &report["fields"][0];
    let made = outcome["field"] == "outcome" && outcome["agrees"] == true;
    check(made, said)?;
    let mut fields = report["fields"].as_array().into_iter().flatten();
    let memory = fields.find(|it| it["field"] == "memory");
    let counted = memory.and_then(|it| it["values"].as_u64());
    check(counted.is_some_and(|values| values > 0), said)?;
    Ok(Completion::Completed)
}
