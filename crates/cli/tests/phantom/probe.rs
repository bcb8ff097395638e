//! `topo probe` of phantom machines: files as Linux lays them out, and a phantom management library
//! that presents the same topology file.

use std::fs;
use std::path::Path;

use testkit::{FakeMachine, Machine, comparable};

use crate::machine::Phantom;

/// The output of `topo probe` for a machine.
fn probed(phantom: &Phantom, fake: &FakeMachine, folder: &Path) -> String {
    fake.write(folder).unwrap();
    let gpus: Vec<String> = fake.ranks.iter().map(u32::to_string).collect();
    let mut command = phantom.topo();
    command.arg("probe").arg("--sysfs-root").arg(folder);
    command.arg("--driver");
    if !gpus.is_empty() {
        command.args(["--gpus", &gpus.join(",")]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn machines_are_probed_back() {
    let mut probed_back = 0;
    for machine in Machine::all().unwrap() {
        let document = machine.document().unwrap();
        let name = &machine.name;
        // Machines that no probe could have seen.
        let Ok(fake) = FakeMachine::of(&document) else {
            continue;
        };
        let phantom = Phantom::new(name, &[]);
        let tree = phantom.path("tree");
        fs::create_dir(&tree).unwrap();
        let text = probed(&phantom, &fake, &tree);
        let found = topology::xml::parse(name, text.as_bytes()).unwrap();
        assert_eq!(comparable(&found), comparable(&document), "{name}");
        probed_back += 1;
    }
    assert!(probed_back > 50, "only {probed_back} machines");
}
