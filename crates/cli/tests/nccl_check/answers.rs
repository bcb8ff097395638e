//! What NCCL's libraries decide.

use libtest_mimic::{Completion, Failed};
use serde_json::Value;

use super::{check, library, not_fetched, topo};

/// A job that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub name: &'static str,
    machine: &'static str,
    arguments: &'static [&'static str],
}

pub const SAMPLES: [Sample; 4] = [
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
        name: "nvlink_domain",
        machine: "gb200-nvl72-tray",
        arguments: &["--hosts", "2", "--nvlink-domain"],
    },
    Sample {
        name: "sockets",
        machine: "workstation-2gpu",
        arguments: &["--hosts", "2", "--net", "socket"],
    },
];

/// NCCL answers, and decides as planned.
pub fn of(version: &str, sample: Sample) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let mut command = topo(sample.machine, &library);
    command.args(sample.arguments).arg("--json");
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
    Ok(Completion::Completed)
}
