//! The attributes of each element, in NCCL's order and formats.

use topology::NO_P2P;
use topology::bandwidth::GENERATIONS;
use topology::xml::{Element, Tag, c_float, c_int};

use crate::gpu::ProbedGpu;
use crate::machine::{Machine, PciFunction};
use crate::net::ProbedNet;

/// PCI class for which NCCL asks the driver if a GPU has the bus id.
const DISPLAY: &str = "0x03";

/// The class that NCCL writes for an unknown end of an NVLink: an NVSwitch.
const NVSWITCH: &str = "0x068000";

/// Speed and lanes that NCCL writes for a GPU of unknown link generation.
const UNKNOWN_LINK: (&str, u32) = ("16.0 GT/s", 16);

/// A `<cpu>`.
pub fn cpu(machine: &Machine, numa: i32) -> Element {
    let mut element = Element::new(Tag::Cpu);
    element.set("numaid", numa.to_string());
    let node = machine.numa_nodes.iter().find(|node| node.number == numa);
    if let Some(node) = node.filter(|node| !node.cpumap.is_empty()) {
        element.set("affinity", node.cpumap.clone());
    }
    let processor = &machine.processor;
    let arch = match processor.arch.as_str() {
        // NCCL requires `arch`; unknown architectures are written as x86_64.
        "" => "x86_64",
        arch => arch,
    };
    element.set("arch", arch);
    if arch == "x86_64" {
        element.set("vendor", processor.vendor.clone().unwrap_or_default());
        element.set("familyid", processor.family.unwrap_or(0).to_string());
        element.set("modelid", processor.model.unwrap_or(0).to_string());
    }
    element
}

/// A `<pci>` without children.
pub fn pci(machine: &Machine, bus_id: &str, gpu: Option<&ProbedGpu>) -> Element {
    let mut element = Element::new(Tag::Pci);
    element.set("busid", bus_id);
    let function = machine.pci.get(bus_id);
    let class = function
        .map(|function| function.class.as_str())
        .filter(|class| !class.is_empty());
    // Without a class, NCCL writes that of the kind of device it looks for.
    let class = class.unwrap_or(if gpu.is_some() { DISPLAY } else { "0x02" });
    element.set("class", class);
    let gpu = gpu.filter(|_| class.starts_with(DISPLAY));
    match (gpu, function) {
        (Some(gpu), _) => {
            let low = |id: u32| format!("0x{:x}", id & 0xffff);
            element.set("vendor", low(gpu.device));
            element.set("device", low(gpu.device >> 16));
            element.set("subsystem_vendor", low(gpu.subsystem));
            element.set("subsystem_device", low(gpu.subsystem >> 16));
        }
        (None, Some(function)) => {
            for (name, text) in [
                ("vendor", &function.vendor),
                ("device", &function.device),
                ("subsystem_vendor", &function.subsystem_vendor),
                ("subsystem_device", &function.subsystem_device),
            ] {
                if !text.is_empty() {
                    element.set(name, text.clone());
                }
            }
        }
        (None, None) => {}
    }
    let (speed, width) = match (gpu, function) {
        (Some(gpu), _) => gpu_link(gpu),
        (None, Some(function)) => link(machine, function),
        (None, None) => (String::new(), String::new()),
    };
    element.set("link_speed", speed);
    element.set("link_width", width);
    element
}

/// A GPU's link, from the driver.
fn gpu_link(gpu: &ProbedGpu) -> (String, String) {
    let speed = match gpu.generation {
        None => UNKNOWN_LINK.0,
        Some(generation) => {
            let at = (generation as usize).checked_sub(1);
            at.and_then(|at| GENERATIONS.get(at))
                .copied()
                .unwrap_or_default()
        }
    };
    (
        speed.to_owned(),
        gpu.width.unwrap_or(UNKNOWN_LINK.1).to_string(),
    )
}

/// The link of another function: the minimum of the function and its port.
pub fn link(machine: &Machine, function: &PciFunction) -> (String, String) {
    let port = function
        .port()
        .and_then(|port| machine.pci.get(port))
        .map(|port| &port.link);
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let own = text(function.link.max_speed.as_ref());
    let above = text(port.and_then(|port| port.max_speed.as_ref()));
    let speed = match (gigatransfers(&above), gigatransfers(&own)) {
        (Some(port), device) if device.is_none_or(|device| port < device) => above,
        _ => own,
    };
    let lanes = |text: Option<&String>| text.map_or(0, |text| c_int(text).max(0));
    let width = lanes(function.link.max_width.as_ref())
        .min(lanes(port.and_then(|port| port.max_width.as_ref())));
    (speed, width.to_string())
}

/// The number at the start of a link speed, GT/s.
pub fn gigatransfers(text: &str) -> Option<f32> {
    text.starts_with(|c: char| c.is_ascii_digit())
        .then(|| c_float(text))
        .filter(|speed| speed.is_finite())
}

/// A `<gpu>` with its links. `class_of` gives the class of a PCI function.
pub fn gpu(gpu: &ProbedGpu, class_of: impl Fn(&str) -> Option<String>) -> Element {
    let mut element = Element::new(Tag::Gpu);
    element.set("dev", gpu.index.to_string());
    element.set("sm", gpu.sm.to_string());
    element.set("rank", gpu.rank.unwrap_or(0).to_string());
    element.set("gdr", i32::from(gpu.direct_access).to_string());
    element.set("mlopart", "-1");
    if !gpu.no_p2p.is_empty() {
        let others: Vec<String> = gpu.no_p2p.iter().map(ToString::to_string).collect();
        element.set(NO_P2P, others.join(","));
    }
    for (target, count) in &gpu.nvlinks {
        let mut link = Element::new(Tag::Nvlink);
        link.set("target", target.clone());
        link.set("count", count.to_string());
        let class = class_of(target).filter(|class| !class.is_empty());
        link.set("tclass", class.unwrap_or_else(|| NVSWITCH.to_owned()));
        element.children.push(link);
    }
    if let Some((count, bandwidth)) = gpu.c2c {
        let mut link = Element::new(Tag::C2c);
        link.set("bw", bandwidth.to_string());
        link.set("count", count.to_string());
        element.children.push(link);
    }
    element
}

/// A `<net>`.
pub fn net(net: &ProbedNet) -> Element {
    let mut element = Element::new(Tag::Net);
    element.set("name", net.name.clone());
    element.set("dev", net.dev.to_string());
    element.set("latency", "0");
    element.set("speed", net.speed.to_string());
    element.set("port", net.port.to_string());
    element.set("guid", format!("{:#x}", net.guid));
    element.set("maxconn", net.connections.to_string());
    element.set("gdr", i32::from(net.direct_access).to_string());
    element.set("net", "1");
    // GPU-initiated networking runs over any RDMA device.
    if net.rdma {
        element.set("gin", "1");
    }
    element
}
