//! The machines of a saved plan: their GPUs and NICs.

use crate::names::processors;
use pages::Table;
use plan::{Plan, PlannedMachine};

use super::{Look, gbps, names, trim_lines, wrap};

/// Each machine, and what a plan does not hold.
pub fn page(plan: &Plan, look: Look) -> String {
    let mut text = String::new();
    for machine in &plan.machines {
        text.push_str(&look.title(&machine.name, &machine.summary));
        let mut hosts: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let pages = hosts.iter().map(|host| devices(machine, *host, look));
        match machine.hosts {
            1 => text.extend(pages),
            _ => {
                let hosts = hosts.iter().map(|host| *host as i32);
                text.push_str(&names::each_host(pages.zip(hosts), look));
            }
        }
        text.push('\n');
    }
    let missing =
        "A plan holds no PCI switches and links: topo show draws them from the topology file.";
    text.push_str(&look.faint(&wrap(missing, "  ", "  ", look.width)));
    trim_lines(&text)
}

/// The GPUs and NICs of a host.
fn devices(machine: &PlannedMachine, host: u32, look: Look) -> String {
    let known = |capable: bool| if capable { "yes" } else { "no" }.to_owned();
    let mut gpus = Table::new([
        "GPU",
        "bus id",
        "sm",
        "GPUDirect RDMA",
        "NUMA node",
        "processors",
    ]);
    for gpu in machine.gpus.iter().filter(|gpu| gpu.host == host) {
        let near = gpu.cpu_affinity.as_deref().and_then(processors);
        gpus.row(vec![
            plain(&names::gpu_name(machine, gpu.rank)),
            gpu.bus_id.clone(),
            gpu.sm.to_string(),
            known(gpu.gdr),
            gpu.numa.map(|numa| numa.to_string()).unwrap_or_default(),
            near.unwrap_or_default(),
        ]);
    }
    let mut nics = Table::new(["NIC", "name", "bus id", ">GB/s", "GPUDirect RDMA"]);
    let own = machine.nics.iter().filter(|nic| nic.host == host);
    let rows = own.map(|nic| {
        vec![
            plain(&names::net_name(machine, nic.id)),
            nic.name.clone().unwrap_or_default(),
            nic.bus_id.clone().unwrap_or_default(),
            gbps(nic.speed),
            known(nic.gdr),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let text = gpus.text(look);
    if rows.is_empty() {
        return text;
    }
    rows.into_iter().for_each(|row| nics.row(row));
    format!("{text}\n{}", nics.text(look))
}

/// A name without its host.
fn plain(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}
