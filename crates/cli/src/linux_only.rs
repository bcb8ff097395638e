//! The words of `topo` where a command needs Linux.

use std::path::Path;

use anyhow::{Result, bail};

/// Why a command needs Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Ranks share memory as Linux has it.
    #[cfg_attr(target_os = "linux", allow(dead_code))]
    SharedMemory,
    /// An NCCL library is loaded.
    #[cfg_attr(target_os = "linux", allow(dead_code))]
    Nccl,
    /// The machine is read from `/sys`.
    Sysfs,
}

/// Refuses a command on a system that is not Linux.
///
/// # Errors
/// The system is another one.
pub(crate) fn require(command: &str, need: Need) -> Result<()> {
    require_on(std::env::consts::OS, command, need)
}

/// Refuses the files of a machine where folders cannot hold them.
///
/// # Errors
/// The system is Windows.
pub(crate) fn require_links(folder: &Path) -> Result<()> {
    match std::env::consts::OS {
        "windows" => bail!(
            "{}: the files of a machine have links and names with colons, which Windows cannot keep; \
             read them on Linux or macOS: topo probe --from {} > topology.xml",
            folder.display(),
            folder.display()
        ),
        _ => Ok(()),
    }
}

fn require_on(system: &str, command: &str, need: Need) -> Result<()> {
    let why = match need {
        _ if system == "linux" => return Ok(()),
        Need::SharedMemory => "ranks share memory as only Linux can",
        Need::Nccl => "NCCL is a library for Linux",
        Need::Sysfs => {
            "it is read from /sys; name a topology file, which topo probe or NCCL writes there"
        }
    };
    let system = match system {
        "macos" => "macOS",
        "windows" => "Windows",
        other => other,
    };
    bail!("{command} needs Linux, and this is {system}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_systems_get_one_sentence() {
        let said = |system, need| {
            let done = require_on(system, "topo run", need);
            done.map_err(|error| format!("{error:#}"))
        };
        for need in [Need::SharedMemory, Need::Nccl, Need::Sysfs] {
            assert_eq!(said("linux", need), Ok(()));
        }
        assert_eq!(
            said("macos", Need::SharedMemory),
            Err(
                "topo run needs Linux, and this is macOS: ranks share memory as only Linux can"
                    .to_owned()
            )
        );
        assert_eq!(
            said("windows", Need::Nccl),
            Err(
                "topo run needs Linux, and this is Windows: NCCL is a library for Linux".to_owned()
            )
        );
    }

    /// Linux has the functions of `linux.rs` and reads nothing of `not_linux.rs`.
    #[test]
    fn every_command_of_linux_is_refused_elsewhere() {
        let others = include_str!("not_linux.rs");
        for command in [
            "run",
            "run --calibrate",
            "expect --run",
            "diagnose --collect",
            "driver-answers",
            "gpu-test",
            "run --new-id",
            "nccl-check",
            "nccl-host",
            "tune --nccl-library",
        ] {
            let said = format!("require(\"topo {command}\", Need::");
            assert!(others.contains(&said), "{command}");
        }
    }

    /// The simulator's ranks on processors have the slots of those that run.
    #[test]
    #[cfg(target_os = "linux")]
    fn simulated_slots_are_those_of_topo_run() {
        let slots = backend_cpu::Profile::default().slot_bytes();
        for protocol in program::Protocol::ALL {
            assert_eq!(simulator::hosts::slot_bytes(protocol), slots.of(protocol));
        }
    }
}
