//! The common parts of the tests.

use std::path::Path;

use probe::nvml::Answers;
use probe::{Probe, ProbeOptions};
use tempfile::TempDir;
use testkit::FakeMachine;

/// A fake machine in a folder that vanishes with it.
pub struct OnDisk {
    pub folder: TempDir,
    pub options: ProbeOptions,
}

impl OnDisk {
    pub fn new(machine: &FakeMachine) -> Self {
        let folder = testkit::fake::temporary().unwrap();
        machine.write(folder.path()).unwrap();
        let options = ProbeOptions {
            gpus: Some(machine.ranks.clone()),
            ..ProbeOptions::default()
        };
        Self { folder, options }
    }

    pub fn probe(&self) -> Probe {
        probe_folder(self.folder.path(), &self.options)
    }
}

/// Probes a recording.
pub fn probe_folder(folder: &Path, options: &ProbeOptions) -> Probe {
    let recording = probe::record::Recording::open(folder).unwrap();
    Probe::of(
        &recording.sysfs,
        recording.answers,
        recording.addresses.as_ref(),
        options,
    )
}

/// The fake machine of one of the project's machines.
pub fn fake(name: &str) -> FakeMachine {
    let machine = testkit::Machine::named(name).unwrap();
    FakeMachine::of(&machine.document().unwrap()).unwrap()
}

/// Answers from the JSON of a fake machine.
pub fn answers(machine: &FakeMachine) -> Answers {
    serde_json::from_value(machine.nvml.clone()).unwrap()
}
