//! `lscpu` and `numactl -H`: the processor and its NUMA nodes.

use std::collections::BTreeMap;

use topology::node::nccl_family;

use crate::said_processor::labelled;
use crate::text::{numbers, value};

/// Most processors of a machine.
const MOST: usize = 1 << 14;

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processor {
    /// `x86_64` or `arm64`, as NCCL writes it.
    pub arch: Option<String>,
    /// The vendor, such as `AuthenticAMD`.
    pub vendor: Option<String>,
    /// Family as NCCL counts it, and model.
    pub family: Option<(i32, i32)>,
    /// Processors of each NUMA node.
    pub nodes: BTreeMap<i32, Vec<usize>>,
}

/// The processor of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct ProcessorReader {
    processor: Processor,
    family: Option<i32>,
    model: Option<i32>,
    /// Linux's family and model, by the name.
    named: Option<(i32, i32)>,
}

impl ProcessorReader {
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(arch) = value(line, "Architecture") {
            let arch = if arch == "aarch64" { "arm64" } else { arch };
            let known = ["x86_64", "arm64"].contains(&arch);
            self.processor.arch = known.then(|| arch.to_owned());
        } else if let Some(vendor) = value(line, "Vendor ID") {
            let known = ["AuthenticAMD", "GenuineIntel"].contains(&vendor);
            self.processor.vendor = known.then(|| vendor.to_owned());
        } else if let Some(named) = value(line, "Model name").and_then(labelled) {
            let vendor = &mut self.processor.vendor;
            *vendor = vendor.take().or(Some(named.vendor.to_owned()));
            self.named = named.family;
        } else if let Some(family) = value(line, "CPU family") {
            self.family = family.parse().ok();
        } else if let Some(model) = value(line, "Model") {
            self.model = model.parse().ok();
        } else if let Some((node, list)) = node(line) {
            self.processor.nodes.insert(node, list);
        }
    }

    pub(crate) fn finish(self) -> Processor {
        let family = self.family.zip(self.model).or(self.named);
        Processor {
            family: family.map(|it| (nccl_family(it.0), it.1)),
            ..self.processor
        }
    }
}

/// `NUMA node0 CPU(s): 0-63,128-191` of lscpu, or `node 0 cpus: 0 1 2` of numactl.
fn node(line: &str) -> Option<(i32, Vec<usize>)> {
    let (label, list) = line.trim().split_once(':')?;
    let number = match label.strip_prefix("NUMA node") {
        Some(rest) => rest.strip_suffix(" CPU(s)")?,
        None => label.strip_prefix("node ")?.strip_suffix(" cpus")?,
    };
    let number = number.parse().ok().filter(|it| (0..1024).contains(it))?;
    let list: Vec<&str> = list.split_whitespace().collect();
    Some((number, numbers(&list.join(","), MOST)?))
}

/// The mask of processors as the kernel writes it: groups of 32 bits, the highest first.
pub(crate) fn mask(processors: &[usize]) -> String {
    let groups = processors.iter().max().map_or(1, |last| last / 32 + 1);
    let mut words = vec![0_u32; groups];
    for processor in processors {
        words[processor / 32] |= 1 << (processor % 32);
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

/// The processors of a list such as `0-15,64-79`.
pub(crate) fn listed(list: &str) -> Vec<usize> {
    numbers(list, MOST).unwrap_or_default()
}
