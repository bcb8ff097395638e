//! Machines from what other programs print: the matrix of a machine, read as nvidia-smi prints it,
//! gives a machine with the same matrix.

use answers::built_in::MACHINES;
use answers::matrix::Wiring;
use topology::xml::parse;

/// A machine's matrix as nvidia-smi prints it.
fn printed(wiring: &Wiring) -> String {
    let devices = 0..wiring.devices.len();
    let mut text = String::new();
    for device in &wiring.devices {
        text += &format!("\t{}", device.label);
    }
    text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
    for one in devices.clone() {
        let device = &wiring.devices[one];
        text += &device.label;
        for other in devices.clone() {
            text += &format!("\t{}", wiring.letters(one, other));
        }
        if device.is_gpu && device.numa >= 0 {
            text += &format!("\t{0}-{0}\t{0}\t\tN/A", device.numa);
        }
        text += "\n";
    }
    text + "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"
}

fn matrix(wiring: &Wiring) -> Vec<Vec<String>> {
    let devices = 0..wiring.devices.len();
    let row = |one| {
        devices
            .clone()
            .map(|other| wiring.letters(one, other))
            .collect()
    };
    devices.clone().map(row).collect()
}

#[test]
fn a_matrix_gives_a_machine_with_this_matrix() {
    let mut compared = 0;
    for machine in MACHINES {
        let document = parse(machine.name, machine.text.as_bytes()).unwrap();
        let wiring = Wiring::new(&document);
        let gpus = wiring.devices.iter().filter(|it| it.is_gpu).count();
        // Partitions of one GPU have one number; several hosts have no common matrix.
        let mut labels: Vec<&str> = wiring.devices.iter().map(|it| it.label.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        if gpus == 0 || labels.len() < wiring.devices.len() || wiring.hosts().len() > 1 {
            continue;
        }
        let text = printed(&wiring);
        let made = records::machine(machine.name, text.as_bytes()).expect(&text);
        let made = Wiring::new(&made.document);
        assert_eq!(matrix(&wiring), matrix(&made), "{}:\n{text}", machine.name);
        compared += 1;
    }
    assert!(compared >= 20, "{compared} machines");
}
