//! Drawn machines with few links and odd speeds, which NCCL's libraries plan as `topo` does.

use std::process::{Command, Stdio};

use libtest_mimic::{Completion, Failed};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use testkit::random;

use super::{check, library, not_fetched};

/// Machines of a kind.
const MACHINES: usize = 60;

const HOSTS: [&str; 3] = ["1", "2", "4"];

/// The drivers of the stand-ins, by turns.
const DRIVERS: [&str; 2] = ["12.9", "13.3"];

/// NCCL's variables, by turns; none where a text is empty.
const SETTINGS: [&str; 9] = [
    "",
    "",
    "NCCL_CROSS_NIC=0",
    "NCCL_NETDEVS_POLICY=ALL",
    "NCCL_NET_MERGE_LEVEL=PORT",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_PXN_DISABLE=1",
    "NCCL_PROTO=LL128,Simple",
    "NCCL_NTHREADS=abc",
];

/// Seconds after which a job that shares its machine with others is given up.
const SECONDS: &str = "400";

/// What is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub name: &'static str,
    /// Compute capabilities × 10.
    sms: &'static [u32],
    most_links: u8,
}

pub(crate) const KINDS: [Kind; 2] = [
    Kind {
        name: "rubin",
        sms: &[107],
        most_links: 36,
    },
    Kind {
        name: "blackwell",
        sms: &[100, 103],
        most_links: 6,
    },
];

/// NCCL decides as planned on every drawn machine of which it says something.
pub(crate) fn agree(version: &str, kind: Kind) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let folder = tempfile::tempdir()?;
    let mut runner = TestRunner::deterministic();
    let strategy = random::machine_of(kind.sms.to_vec(), kind.most_links);
    let (mut answered, mut differing) = (0, Vec::new());
    for number in 0..MACHINES {
        let document = strategy.new_tree(&mut runner)?.current();
        let file = folder.path().join(format!("{number}.xml"));
        std::fs::write(&file, topology::xml::write(&document))?;
        for hosts in HOSTS {
            let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
            command
                .arg("nccl-check")
                .arg(&file)
                .arg("--nccl")
                .arg(&library);
            command.args(["--hosts", hosts, "--timeout", SECONDS, "--json"]);
            command.args(["--driver-version", DRIVERS[number % DRIVERS.len()]]);
            let setting = SETTINGS[number % SETTINGS.len()];
            if !setting.is_empty() {
                command.args(["--set", setting]);
            }
            let said = command.stdin(Stdio::null()).output()?;
            match said.status.code() {
                Some(0) => answered += 1,
                Some(1) => differing.push(format!("machine {number} on {hosts} hosts, {setting}")),
                // NCCL, or what it takes the machine for, gave no answer.
                _ => {}
            }
        }
    }
    check(differing.is_empty(), || differing.join("\n"))?;
    check(2 * answered > MACHINES * HOSTS.len(), || {
        format!("NCCL answered {answered} jobs only")
    })?;
    Ok(Completion::Completed)
}
