//! A probed machine: its GPUs, network devices and other devices.

use pages::{Page, Table};
use probe::Probe;

use super::{count, or_dash};

pub(crate) fn page(probe: &Probe) -> Page {
    let mut page = Page::new("This machine");
    page.remark = summary(probe);
    let parts = [
        ("GPUs", "as the driver names them", gpus(probe)),
        ("Network", "as NCCL's own transports list it", nets(probe)),
        (
            "Other devices",
            "GPUs, accelerators and adapters that a job would not use",
            others(probe),
        ),
    ];
    for (title, remark, table) in parts {
        if !table.is_empty() {
            page.section(title, remark).table(table);
        }
    }
    page
}

fn summary(probe: &Probe) -> String {
    let processor = &probe.machine.processor;
    let nodes = probe
        .machine
        .numa_nodes
        .iter()
        .filter(|node| node.has_processors())
        .count();
    let mut parts = vec![processor.arch.clone()];
    parts.extend(
        processor
            .vendor
            .clone()
            .map(|vendor| vendor.trim().to_owned()),
    );
    parts.push(count(nodes, "NUMA node"));
    parts.push(count(probe.machine.pci.len(), "PCI function") + " read");
    if processor.hypervisor {
        parts.push("virtual".to_owned());
    }
    if let Some(driver) = probe.answers.driver.value() {
        parts.push(format!("NVIDIA driver {driver}"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn gpus(probe: &Probe) -> Table {
    let mut columns = Table::new([
        "", "rank", "bus id", "name", "sm", "link", "NVLinks", "NUMA",
    ]);
    for gpu in &probe.gpus {
        let link = match (gpu.generation, gpu.width) {
            (Some(generation), Some(width)) => format!("gen {generation} x{width}"),
            _ => "?".to_owned(),
        };
        columns.row(vec![
            format!("GPU{}", gpu.index),
            or_dash(gpu.rank),
            gpu.bus_id.clone(),
            gpu.name.clone(),
            gpu.sm.to_string(),
            link,
            gpu.nvlink_count().to_string(),
            numa(probe, &gpu.bus_id),
        ]);
    }
    columns
}

fn nets(probe: &Probe) -> Table {
    let mut columns = Table::new(["", "name", "bus id", "port", "Gb/s", "GPUDirect", "NUMA"]);
    for net in &probe.nets {
        let bus_id = net.bus_id.clone();
        columns.row(vec![
            format!("NIC{}", net.dev),
            net.name.clone(),
            or_dash(bus_id.as_ref()),
            net.port.to_string(),
            (f64::from(net.speed) / 1000.0).to_string(),
            if net.direct_access { "yes" } else { "no" }.to_owned(),
            or_dash(bus_id.map(|bus_id| numa(probe, &bus_id))),
        ]);
    }
    columns
}

fn others(probe: &Probe) -> Table {
    let mut columns = Table::new(["bus id", "class", "vendor:device", "driver", "link", "NUMA"]);
    for function in probe
        .machine
        .pci
        .iter()
        .filter(|function| !function.class.starts_with("0x06"))
    {
        let known = probe.gpus.iter().any(|gpu| gpu.bus_id == function.bus_id)
            || probe
                .nets
                .iter()
                .any(|net| net.bus_id.as_ref() == Some(&function.bus_id));
        if known {
            continue;
        }
        let (speed, width) = (&function.link.current_speed, &function.link.current_width);
        let link = speed.as_ref().zip(width.as_ref());
        let link = or_dash(link.map(|(speed, width)| format!("{speed} x{width}")));
        columns.row(vec![
            function.bus_id.clone(),
            function.class.clone(),
            format!("{}:{}", function.vendor, function.device),
            or_dash(function.driver.as_ref()),
            link,
            numa(probe, &function.bus_id),
        ]);
    }
    columns
}

fn numa(probe: &Probe, bus_id: &str) -> String {
    let function = probe.machine.pci.get(bus_id);
    let node = function.map(probe::machine::PciFunction::numa);
    or_dash(node.filter(|node| *node >= 0))
}
