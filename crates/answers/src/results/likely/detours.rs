//! The part of their rate that ports keep when their data takes a detour: up to the host bridge, or
//! through the host's memory.

use topology::bandwidth;
use topology::edit::{Device, DeviceKind, Devices};
use topology::xml::{Document, Element, Tag, c_int};

/// Mb/s of a port in a GB/s.
const MBIT: f64 = 8000.0;

/// What NCCL takes a port without a speed for, Mb/s.
const DEFAULT_SPEED: i32 = 10_000;

/// How often each byte that a port sends and receives crosses the host's memory: the GPU writes and
/// the port reads, then the port writes and the GPU reads.
const MEMORY_CROSSINGS: f64 = 4.0;

/// Peak memory bandwidth of a processor's socket by vendor, family and models, GB/s: channels times
/// transfers per second times 8 bytes, from the data sheets of the largest processor.
const MEMORY: [(&str, i32, &[i32], f64); 10] = [
    ("GenuineIntel", 6, &[63, 79], 76.8), // Haswell, Broadwell: 4 × DDR4-2400
    ("GenuineIntel", 6, &[85], 140.8),    // Skylake, Cascade Lake: 6 × DDR4-2933
    ("GenuineIntel", 6, &[106], 204.8),   // Ice Lake: 8 × DDR4-3200
    ("GenuineIntel", 6, &[143], 307.2),   // Sapphire Rapids: 8 × DDR5-4800
    ("GenuineIntel", 6, &[207], 358.4),   // Emerald Rapids: 8 × DDR5-5600
    ("GenuineIntel", 6, &[173], 614.4),   // Granite Rapids: 12 × DDR5-6400
    ("AuthenticAMD", 143, &[1], 170.6),   // Naples: 8 × DDR4-2666
    ("AuthenticAMD", 143, &[49], 204.8),  // Rome: 8 × DDR4-3200
    ("AuthenticAMD", 175, &[1], 204.8),   // Milan: 8 × DDR4-3200
    ("AuthenticAMD", 175, &[17, 160], 460.8), // Genoa, Bergamo: 12 × DDR5-4800
];

/// Ports on a longer way, and what limits them there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Detour {
    /// The share of its rate that the slowest port keeps at most. Host bridges and memory carry
    /// less than their links and data sheets say.
    pub share: f64,
    /// The limit, in words.
    pub limit: String,
}

/// A port with the limits of its ways, GB/s.
struct Port {
    name: String,
    rate: f64,
    /// The uplinks of the switches that it shares with GPUs carry what it sends and receives in
    /// each direction: the least share of it.
    uplinks: f64,
    /// The processor's memory.
    memory: Option<f64>,
}

/// The ports of a machine if switches redirect transfers between GPUs and ports up to the host
/// bridge. `None` if no port is slower then.
pub(super) fn through_host_bridge(document: &Document) -> Option<Detour> {
    let (share, names) = slowed(&ports(document), |port| port.uplinks)?;
    Some(Detour {
        share,
        limit: format!(
            "uplinks of the switches above {names} carry in each direction what the port sends and receives"
        ),
    })
}

/// The ports of a machine if all data goes through the host's memory. `None` if no port is slower.
pub(super) fn through_memory(document: &Document) -> Option<Detour> {
    let ports = ports(document);
    let memory = |port: &Port| port.memory.unwrap_or(f64::INFINITY);
    let (share, names) = slowed(&ports, |port| memory(port).min(port.uplinks))?;
    let limit = match ports.iter().any(|it| memory(it) < it.uplinks) {
        true => "each byte crosses the host's memory four times",
        false => "uplinks of switches carry what a port sends and receives in each direction",
    };
    Some(Detour {
        share,
        limit: format!("{limit}: {names}"),
    })
}

/// The least share of its rate that a port keeps, and the names of the slower ports.
fn slowed(ports: &[Port], left: impl Fn(&Port) -> f64) -> Option<(f64, String)> {
    let share = |port: &Port| left(port) / port.rate;
    let slowed: Vec<&Port> = ports.iter().filter(|port| share(port) < 1.0).collect();
    let names = match &slowed[..] {
        [] => return None,
        [only] => only.name.clone(),
        [first, .., last] => format!("{} to {}", first.name, last.name),
    };
    let least = slowed.into_iter().map(share).min_by(f64::total_cmp)?;
    Some((least, names))
}

/// The ports of the first host.
fn ports(document: &Document) -> Vec<Port> {
    let devices = Devices::of(document);
    let is_port = |it: &&Device| it.kind == DeviceKind::Port && it.host == 0;
    let all: Vec<&Device> = devices.all.iter().filter(is_port).collect();
    let rates = |below: &[usize]| -> f64 {
        let below = all.iter().filter(|it| it.element.starts_with(below));
        below.map(|it| rate(at(document, &it.element))).sum()
    };
    let cpus = document
        .root
        .children
        .iter()
        .filter(|it| it.tag == Tag::Cpu);
    // NUMA nodes of a socket are not in the file; servers with GPUs have two sockets at most.
    let nodes = cpus.count().max(1) as f64;
    let ports = all.iter().filter_map(|port| {
        let rate = rate(at(document, &port.element));
        let mut uplinks = f64::INFINITY;
        for depth in 2..port.element.len() {
            let above = &port.element[..depth];
            let switch = at(document, above);
            if switch.tag == Tag::Pci && holds_gpu(switch) {
                let share = link(switch) / (2.0 * rates(above));
                uplinks = uplinks.min(share * rate);
            }
        }
        let cpu = port.element.get(..1)?;
        let memory = memory(at(document, cpu)).map(|socket| {
            let node = socket * nodes.min(2.0) / nodes;
            node / (MEMORY_CROSSINGS * rates(cpu)) * rate
        });
        Some(Port {
            name: devices.own_name(port)?,
            rate,
            uplinks,
            memory,
        })
    });
    ports.collect()
}

fn at<'a>(document: &'a Document, path: &[usize]) -> &'a Element {
    let root = &document.root;
    path.iter()
        .fold(root, |element, index| &element.children[*index])
}

fn holds_gpu(element: &Element) -> bool {
    element.tag == Tag::Gpu || element.children.iter().any(holds_gpu)
}

/// A port's rate, GB/s.
fn rate(port: &Element) -> f64 {
    let speed = port.get("speed").map_or(0, c_int);
    let speed = if speed > 0 { speed } else { DEFAULT_SPEED };
    f64::from(speed) / MBIT
}

/// The link above a switch, GB/s.
fn link(switch: &Element) -> f64 {
    let speed = switch.get("link_speed").unwrap_or_default();
    let width = switch.get("link_width").map_or(0, c_int);
    f64::from(bandwidth::pci(speed, width)).max(0.0)
}

/// The memory bandwidth of a processor's socket, GB/s.
fn memory(cpu: &Element) -> Option<f64> {
    let number = |name| cpu.get(name).map(c_int);
    let (vendor, family, model) = (cpu.get("vendor")?, number("familyid")?, number("modelid")?);
    let known = MEMORY
        .iter()
        .find(|it| it.0 == vendor && it.1 == family && it.2.contains(&model));
    known.map(|it| it.3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cpu: &str, width: i32) -> Document {
        let text = format!(
            "<system version=\"1\"><cpu numaid=\"0\" {cpu}>\
             <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"{width}\">\
             <pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
             <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/></pci>\
             <pci busid=\"0000:03:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
             <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" guid=\"0x1\" gdr=\"1\"/></nic></pci>\
             </pci></cpu></system>"
        );
        topology::xml::parse("host.xml", text.as_bytes()).unwrap()
    }

    /// What is left of 50 GB/s, in tenths.
    fn left(detour: Option<Detour>) -> Option<u32> {
        detour.map(|it| (it.share * 500.0).round() as u32)
    }

    #[test]
    fn an_uplink_carries_what_a_port_sends_and_receives() {
        let of = |width| left(through_host_bridge(&host("arch=\"x86_64\"", width)));
        // Half of 48 GB/s is less than the 50 of the port.
        assert_eq!(of(16), Some(240));
        assert_eq!(of(8), Some(120));
        assert_eq!(of(64), None);
    }

    #[test]
    fn memory_limits_where_the_processor_is_known() {
        let slow = "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"79\"";
        assert_eq!(left(through_memory(&host(slow, 16))), Some(192));
        let unknown = "arch=\"x86_64\"";
        assert_eq!(left(through_memory(&host(unknown, 16))), Some(240));
    }
}
