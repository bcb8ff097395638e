//! A machine in one line.

use topology::{NodeType, System};

use super::words::{count, gbps, processor};

/// Describes a machine: `8 GPUs (sm 90), 8 NICs (50 GB/s), 2 CPUs (Intel Sapphire Rapids),
/// NVSwitch`.
pub fn machine(system: &System) -> String {
    let mut parts = Vec::new();
    let gpus = system.count(NodeType::Gpu);
    let sms = distinct(system.gpus().map(|(_, gpu)| gpu.sm.to_string()));
    parts.push(if gpus == 0 {
        "no GPU".to_owned()
    } else {
        format!("{} (sm {sms})", count(gpus, "GPU"))
    });
    let nets = system.count(NodeType::Net);
    let speeds = distinct(system.nets().map(|(_, net)| gbps(net.bw)));
    parts.push(if nets == 0 {
        "no NIC".to_owned()
    } else {
        format!("{} ({speeds} GB/s)", count(nets, "NIC"))
    });
    let processors = distinct(system.cpus().map(|(_, cpu)| processor(cpu).to_owned()));
    parts.push(format!(
        "{} ({processors})",
        count(system.count(NodeType::Cpu), "CPU")
    ));
    if system.count(NodeType::Nvs) > 0 {
        parts.push("NVSwitch".to_owned());
    }
    if system.hosts().len() > 1 {
        parts.push(count(system.hosts().len(), "host"));
    }
    parts.join(", ")
}

fn distinct(texts: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.join(", ")
}
