//! Drawn machines with few links and odd speeds, which NCCL's libraries plan as `topo` does.

use std::process::{Command, Stdio};

use libtest_mimic::{Completion, Failed};
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use testkit::random;
use topology::xml::Document;

use super::{check, library, not_fetched};

/// Machines of a kind.
const MACHINES: usize = 60;

pub(crate) const HOSTS: [&str; 3] = ["1", "2", "4"];

/// The drivers of the stand-ins, by turns.
const DRIVERS: [&str; 3] = ["12.9", "13.3", "13.4"];

/// NCCL's variables, by turns; none where a text is empty.
const SETTINGS: [&str; 10] = [
    "",
    "",
    "NCCL_CROSS_NIC=0",
    "NCCL_NETDEVS_POLICY=ALL",
    "NCCL_NET_MERGE_LEVEL=PORT",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_PXN_DISABLE=1",
    "NCCL_PROTO=LL128,Simple",
    "NCCL_NTHREADS=abc",
    "NCCL_TOPO_SPLIT_MLOPART=0",
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
    /// GPUs are split into parts (MLOPart).
    has_parts: bool,
    /// All processors are Grace.
    on_arm: bool,
}

pub(crate) const KINDS: [Kind; 4] = [
    Kind {
        name: "rubin",
        sms: &[107],
        most_links: 36,
        has_parts: false,
        on_arm: false,
    },
    Kind {
        name: "blackwell",
        sms: &[100, 103],
        most_links: 6,
        has_parts: false,
        on_arm: false,
    },
    Kind {
        name: "parts",
        sms: &[100, 103, 107],
        most_links: 18,
        has_parts: true,
        on_arm: false,
    },
    Kind {
        name: "grace",
        sms: &[90, 100, 103],
        most_links: 6,
        has_parts: false,
        on_arm: true,
    },
];

impl Kind {
    /// Whether a version can be asked: those before 2.30 know no parts of GPUs.
    pub(crate) fn is_known_to(self, version: &str) -> bool {
        !self.has_parts || !is_before_2_30(version)
    }

    fn machines(self) -> BoxedStrategy<Document> {
        let sms = self.sms.to_vec();
        match (self.has_parts, self.on_arm) {
            (true, _) => random::machine_of_parts(sms, self.most_links).boxed(),
            (_, true) => random::machine_on_arm(sms, self.most_links).boxed(),
            _ => random::machine_of(sms, self.most_links).boxed(),
        }
    }
}

fn is_before_2_30(version: &str) -> bool {
    let old = ["2.27.", "2.28.", "2.29."];
    old.iter().any(|it| version.starts_with(it))
}

/// NCCL decides as planned on so many hosts like every drawn machine of which it says something.
pub(crate) fn agree(version: &str, kind: Kind, hosts: &str) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let folder = tempfile::tempdir()?;
    let mut runner = TestRunner::deterministic();
    let strategy = kind.machines();
    let (mut answered, mut differing) = (0, Vec::new());
    for number in 0..MACHINES {
        let document = strategy.new_tree(&mut runner)?.current();
        let file = folder.path().join(format!("{number}.xml"));
        std::fs::write(&file, topology::xml::write(&document))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
        command
            .arg("nccl-check")
            .arg(&file)
            .arg("--nccl")
            .arg(&library);
        command.args(["--hosts", hosts, "--timeout", SECONDS, "--json"]);
        command.args(["--driver-version", DRIVERS[number % DRIVERS.len()]]);
        if is_before_2_30(version) {
            // Which thread of a process hides merged ports is left to chance.
            command.args(["--net", "plugin"]);
        }
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
    check(differing.is_empty(), || differing.join("\n"))?;
    check(2 * answered > MACHINES, || {
        format!("NCCL answered {answered} jobs only")
    })?;
    Ok(Completion::Completed)
}
