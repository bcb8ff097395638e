//! The processor and the NUMA nodes.

use crate::JsonSchema;
use serde::Serialize;
use topology::node::nccl_family;

use crate::sysfs::Sysfs;

/// The folder of NUMA nodes.
const NODES: &str = "sys/devices/system/node";

/// The processor, in NCCL's terms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Processor {
    /// `x86_64`, `arm64` or `ppc64`; else the kernel's name.
    pub arch: String,
    /// The vendor, on x86.
    pub vendor: Option<String>,
    /// NCCL's family number, on x86.
    pub family: Option<i32>,
    /// NCCL's model number, on x86.
    pub model: Option<i32>,
    /// Whether the machine is virtual.
    pub hypervisor: bool,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NumaNode {
    /// Its number.
    pub number: i32,
    /// The kernel's mask of its processors.
    pub cpumap: String,
}

impl NumaNode {
    /// Whether the node has processors; nodes of GPU memory have none.
    pub fn has_processors(&self) -> bool {
        self.cpumap
            .chars()
            .any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    }
}

/// The NUMA nodes, by number.
pub fn numa_nodes(sysfs: &Sysfs) -> Vec<NumaNode> {
    let names = sysfs.names(NODES);
    let numbers = names
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse::<u16>().ok())
        .filter(|number| sysfs.exists(&format!("{NODES}/node{number}")));
    let mut nodes: Vec<NumaNode> = numbers
        .map(|number| NumaNode {
            number: i32::from(number),
            cpumap: sysfs
                .text(&format!("{NODES}/node{number}/cpumap"))
                .unwrap_or_default(),
        })
        .collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

/// Reads the first processor of `/proc/cpuinfo`.
pub fn processor(sysfs: &Sysfs) -> Processor {
    let text = sysfs.text("proc/cpuinfo").unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| {
        first.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    // Twelve letters, possibly with blanks.
    let vendor = first.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "vendor_id").then(|| value.strip_prefix(' ').unwrap_or(value).to_owned())
    });
    let arch = match (&vendor, field("CPU implementer"), field("cpu")) {
        (Some(_), ..) => "x86_64".to_owned(),
        (_, Some(_), _) => "arm64".to_owned(),
        (_, _, Some(cpu)) if cpu.starts_with("POWER") => "ppc64".to_owned(),
        _ if !sysfs.is_live() => String::new(),
        _ => nccl_arch(std::env::consts::ARCH).to_owned(),
    };
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    Processor {
        hypervisor: field("flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        family: number("cpu family").map(nccl_family),
        model: number("model"),
        arch,
        vendor,
    }
}

fn nccl_arch(rust: &str) -> &str {
    match rust {
        "aarch64" => "arm64",
        "powerpc64" => "ppc64",
        other => other,
    }
}
