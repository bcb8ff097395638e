//! The time of a probe of a machine that is recorded on disk.
//!
//! `lstopo-no-graphics` on the same computer is a yardstick for the first.

use probe::record::Recording;
use probe::{Probe, ProbeOptions};
use testkit::{FakeMachine, Machine};

fn main() {
    divan::main();
}

/// A machine on disk.
fn recorded(name: &str) -> tempfile::TempDir {
    let machine = Machine::named(name).expect("a machine of the project");
    let document = machine.document().expect("a topology");
    let folder = tempfile::tempdir().expect("a folder");
    FakeMachine::of(&document)
        .expect("a machine to probe")
        .write(folder.path())
        .expect("files");
    folder
}

/// Files and answers are read and the topology is made.
#[divan::bench(args = ["dgx-h100", "dgx-a100", "gb200-nvl72-tray"])]
fn from_disk(bencher: divan::Bencher<'_, '_>, name: &str) {
    let folder = recorded(name);
    bencher.bench(|| {
        let recording = Recording::open(folder.path()).expect("a recording");
        Probe::of(
            &recording.sysfs,
            recording.answers,
            None,
            &ProbeOptions::default(),
        )
    });
}
