//! Checks of a topology file's links and places: NVLinks, NICs behind narrow links, NUMA nodes.

use std::collections::BTreeMap;

use topology::bandwidth;
use topology::xml::{Document, Element, NCCL_FILE_ELEMENTS, Tag, c_int, c_unsigned_hexadecimal};

use crate::complete::{Assumptions, MissingParts, complete, without_links};
use crate::finding::{AttributeChange, Effect, Finding, Rule, Selector};
use topology::bandwidth::GENERATIONS;

use crate::document::{IMPOSSIBLE, devices, is_gpu};

/// The share of a NIC's speed that a PCI link must have: NCCL counts less than the nominal speed.
const ENOUGH: f32 = 0.9;

/// The lanes that links have.
const LANES: [i32; 5] = [1, 2, 4, 8, MOST_LANES];

/// Lanes of the widest slot, and those that NCCL counts for 0.
const MOST_LANES: i32 = 16;

/// Bandwidth of a Mb/s of a port, GB/s.
const GBPS: f32 = 1.0 / 8000.0;

pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::from_iter(numa(document));
    findings.extend(fewer_nvlinks(document));
    findings.extend(no_nvlinks(document));
    findings.extend(narrow(document));
    findings.extend(no_gpu(document));
    findings.extend(too_large(document));
    findings
}

/// Finds NUMA nodes without a number.
fn numa(document: &Document) -> Option<Finding> {
    let cpus: Vec<&Element> = document.root.children(Tag::Cpu).collect();
    let is_unknown = |cpu: &Element| cpu.get("numaid").map(c_int) == Some(-1);
    let below: Vec<String> = cpus
        .iter()
        .filter(|cpu| is_unknown(cpu))
        .flat_map(|cpu| devices(cpu))
        .collect();
    if below.is_empty() {
        return None;
    }
    let others = cpus.iter().filter(|cpu| !is_unknown(cpu)).count();
    let seen = match others {
        0 => "numaid=\"-1\": NCCL places no threads near its devices",
        _ => "numaid=\"-1\": NCCL takes it for another processor, far from the others (SYS)",
    };
    let finding = Finding::of_all(Rule::Numa, &below, seen, "the number of a NUMA node");
    // With one other processor there is no doubt where the devices belong.
    if others != 1 {
        return Some(finding);
    }
    let mut root = document.root.clone();
    let (unknown, mut known): (Vec<Element>, Vec<Element>) =
        root.children.into_iter().partition(is_unknown);
    let cpu = known.iter_mut().find(|child| child.tag == Tag::Cpu)?;
    cpu.children
        .extend(unknown.into_iter().flat_map(|cpu| cpu.children));
    root.children = known;
    Some(finding.with_effect(mended(root)))
}

pub(crate) fn mended(root: Element) -> Effect {
    Effect {
        mended_root: Some(Box::new(root)),
        ..Effect::default()
    }
}

/// The NVLinks of a GPU in use.
struct NvlinkGpu {
    host: u64,
    bus_id: String,
    label: String,
    sm: i32,
    count: i32,
    /// Target and count of each element.
    links: Vec<(String, i32)>,
}

fn linked(element: &Element, host: u64, found: &mut Vec<NvlinkGpu>) {
    let host = element
        .get("host_hash")
        .map_or(host, c_unsigned_hexadecimal);
    for child in &element.children {
        if child.tag == Tag::Gpu && child.get("rank").is_some() {
            let bus_id = element.get("busid").unwrap_or_default();
            let count = |link: &Element| link.get("count").map_or(0, c_int).max(0);
            let target = |link: &Element| link.get("target").unwrap_or_default().to_owned();
            let links: Vec<(String, i32)> = child
                .children(Tag::Nvlink)
                .map(|link| (target(link), count(link)))
                .collect();
            found.push(NvlinkGpu {
                host,
                bus_id: bus_id.to_owned(),
                label: child
                    .get("dev")
                    .map_or_else(|| bus_id.to_owned(), |dev| format!("GPU{dev}")),
                sm: child.get("sm").map_or(0, c_int),
                count: links
                    .iter()
                    .fold(0i32, |sum, (_, count)| sum.saturating_add(*count)),
                links,
            });
        }
        linked(child, host, found);
    }
}

/// Finds GPUs with fewer NVLinks than most of their kind.
fn fewer_nvlinks(document: &Document) -> Vec<Finding> {
    let mut gpus = Vec::new();
    linked(&document.root, 0, &mut gpus);
    // How many GPUs of a kind have a count of links.
    let mut counts: BTreeMap<(i32, i32), usize> = BTreeMap::new();
    for gpu in &gpus {
        *counts.entry((gpu.sm, gpu.count)).or_default() += 1;
    }
    let finding = |gpu: &NvlinkGpu| {
        let of_kind = counts.iter().filter(|((sm, _), _)| *sm == gpu.sm);
        let ((_, usual), _) = of_kind.max_by_key(|((_, count), gpus)| (**gpus, *count))?;
        let is_usual = |other: &&NvlinkGpu| other.sm == gpu.sm && other.count == *usual;
        let best = gpus.iter().find(is_usual).filter(|_| gpu.count < *usual)?;
        let number = |count: i32| match count {
            0 => "no NVLinks".to_owned(),
            1 => "1 NVLink".to_owned(),
            _ => format!("{count} NVLinks"),
        };
        let finding = Finding::new(
            Rule::NvlinkMissing,
            gpu.label.clone(),
            number(gpu.count),
            format!("{}, as {} has", number(*usual), best.label),
        );
        Some(finding.with_effect(as_best(document, gpu, best, &gpus)))
    };
    gpus.iter().filter_map(finding).collect()
}

/// The repair of a GPU whose twin has one kind of link: to the same NVSwitches.
fn as_best(document: &Document, gpu: &NvlinkGpu, best: &NvlinkGpu, gpus: &[NvlinkGpu]) -> Effect {
    let to_gpu = |(target, _): &(String, i32)| gpus.iter().any(|gpu| gpu.bus_id == *target);
    if best.links.iter().any(to_gpu) || gpu.host != best.host {
        return Effect::default();
    }
    let mut root = document.root.clone();
    let links = element_of(&document.root, &best.bus_id)
        .map(|pci| pci.children(Tag::Gpu).next())
        .map(|gpu| gpu.map_or_else(Vec::new, |gpu| gpu.children(Tag::Nvlink).cloned().collect()));
    let Some((links, pci)) = links.zip(element_of_mut(&mut root, &gpu.bus_id)) else {
        return Effect::default();
    };
    for gpu in pci
        .children
        .iter_mut()
        .filter(|child| child.tag == Tag::Gpu)
    {
        gpu.children.retain(|child| child.tag != Tag::Nvlink);
        gpu.children.extend(links.iter().cloned());
    }
    mended(root)
}

fn element_of<'e>(element: &'e Element, bus_id: &str) -> Option<&'e Element> {
    if element.tag == Tag::Pci && element.get("busid") == Some(bus_id) {
        return Some(element);
    }
    let mut children = element.children.iter();
    children.find_map(|child| element_of(child, bus_id))
}

fn element_of_mut<'e>(element: &'e mut Element, bus_id: &str) -> Option<&'e mut Element> {
    if element.tag == Tag::Pci && element.get("busid") == Some(bus_id) {
        return Some(element);
    }
    let mut children = element.children.iter_mut();
    children.find_map(|child| element_of_mut(child, bus_id))
}

/// Finds files whose GPUs usually have NVLinks, but have none there.
fn no_nvlinks(document: &Document) -> Option<Finding> {
    // GPUs of AMD have xGMI links.
    if document.is_rccl() {
        return None;
    }
    let missing = MissingParts::of(document).nvlinks;
    let first = missing.first()?;
    let (_, kinds) = without_links(document);
    let sm = *kinds.first()?;
    let label = element_of(&document.root, first)
        .map(devices)
        .and_then(|devices| devices.into_iter().next())
        .unwrap_or_else(|| first.clone());
    let mut named = missing.clone();
    named[0] = label;
    let (preset, assumed) = Assumptions::with_nvswitch(sm)?;
    let finding = Finding::of_all(
        Rule::NoNvlink,
        &named,
        format!("sm {sm} without <nvlink>"),
        format!("NVLinks; costs: as on {preset}"),
    );
    let links = Assumptions {
        nic: None,
        ..assumed
    };
    Some(finding.with_effect(mended(complete(document, &links).root)))
}

/// A PCI link that is slower than the NICs that need it.
struct Narrow<'e> {
    pci: &'e Element,
    nics: Vec<String>,
    /// Speed of the fastest port behind it, GB/s.
    needed: f32,
    bandwidth: f32,
}

/// Finds NICs that are faster than the PCI links between them and the nearest GPU.
pub(crate) fn narrow(document: &Document) -> Option<Finding> {
    let mut links: Vec<Narrow<'_>> = Vec::new();
    for cpu in document.root.children(Tag::Cpu) {
        nics_below(cpu, &mut Vec::new(), &mut links);
    }
    let mut seen: Vec<String> = Vec::new();
    for link in &links {
        let text = link.text();
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    narrow_finding(&seen, &links)
}

impl Narrow<'_> {
    fn text(&self) -> String {
        let width = lanes(self.pci);
        let (speed, unread) = match self.pci.get("link_speed").unwrap_or_default() {
            "" => ("empty link_speed,", ", as NCCL reads it"),
            speed if bandwidth::is_known_link_speed(speed) => (speed, ""),
            speed => (speed, ", as NCCL reads it"),
        };
        format!(
            "{} GB/s behind {} GB/s ({speed} x{width}{unread})",
            short(self.needed),
            short(self.bandwidth)
        )
    }
}

/// One finding for all narrow links, because repairing one of them seldom changes anything.
fn narrow_finding(seen: &[String], links: &[Narrow<'_>]) -> Option<Finding> {
    let more = match seen.len() {
        0 => return None,
        1 => String::new(),
        count => format!(", and {} other pairs", count - 1),
    };
    let mut nics: Vec<&String> = Vec::new();
    for nic in links.iter().flat_map(|link| &link.nics) {
        if !nics.contains(&nic) {
            nics.push(nic);
        }
    }
    let fix = |link: &Narrow<'_>| {
        let (speed, width) = wide_enough(link)?;
        let bus_id = link.pci.get("busid").unwrap_or_default().to_owned();
        Some((bus_id, speed, width))
    };
    let fixes: Vec<(String, &str, i32)> = links.iter().filter_map(fix).collect();
    let expected = fixes.first().map_or_else(
        || "a link as fast as the NIC".to_owned(),
        |(_, speed, width)| format!("such as {speed} x{width}"),
    );
    let change = |(bus_id, speed, width): &(String, &str, i32)| {
        let edit = |attribute, value| AttributeChange {
            at: Selector::Pci(bus_id.clone()),
            attribute,
            value,
        };
        [
            edit("link_speed", (*speed).to_owned()),
            edit("link_width", width.to_string()),
        ]
    };
    let effect = Effect {
        mended: fixes.iter().flat_map(change).collect(),
        ..Effect::default()
    };
    let seen = format!("{}{more}", seen[0]);
    Some(Finding::of_all(Rule::NarrowNic, &nics, seen, expected).with_effect(effect))
}

/// The least change that makes a link fast enough: more lanes, else a later generation with 16.
fn wide_enough(link: &Narrow<'_>) -> Option<(&'static str, i32)> {
    let now = link.pci.get("link_speed").unwrap_or_default();
    let of_now = |speed: &&str| bandwidth::pci(speed, 1) == bandwidth::pci(now, 1);
    let generation = GENERATIONS.iter().position(of_now)?;
    let more = LANES.into_iter().filter(|more| *more > lanes(link.pci));
    let wider = more.map(|lanes| (GENERATIONS[generation], lanes));
    let later = GENERATIONS[generation + 1..].iter();
    let mut all = wider.chain(later.map(|speed| (*speed, MOST_LANES)));
    all.find(|(speed, lanes)| bandwidth::pci(speed, *lanes) >= ENOUGH * link.needed)
}

/// The lanes of a link, as NCCL counts them.
pub(crate) fn lanes(pci: &Element) -> i32 {
    match pci.get("link_width").map_or(0, c_int) {
        0 => MOST_LANES,
        lanes => lanes,
    }
}

/// Walks down to the NICs; `above` are the functions from the CPU down.
fn nics_below<'e>(element: &'e Element, above: &mut Vec<&'e Element>, links: &mut Vec<Narrow<'e>>) {
    for child in element
        .children
        .iter()
        .filter(|child| child.tag == Tag::Pci)
    {
        above.push(child);
        let ports = child
            .children(Tag::Nic)
            .flat_map(|nic| nic.children(Tag::Net));
        let speeds = ports.map(|net| net.get("speed").map_or(0, c_int));
        let needed = speeds.max().unwrap_or(0) as f32 * GBPS;
        if needed > 0.0 {
            check_above(above, needed, links);
        }
        nics_below(child, above, links);
        above.pop();
    }
}

/// Checks the links from a NIC up to the first switch with a GPU.
fn check_above<'e>(above: &[&'e Element], needed: f32, links: &mut Vec<Narrow<'e>>) {
    let Some(nic) = above.last() else { return };
    for pci in above.iter().rev() {
        if holds_gpu(pci) {
            return;
        }
        let (Some(speed), Some(width)) = (pci.get("link_speed"), pci.get("link_width")) else {
            continue;
        };
        let bandwidth = bandwidth::pci(speed, c_int(width));
        // Impossible links are another finding.
        if bandwidth <= IMPOSSIBLE || bandwidth >= ENOUGH * needed {
            continue;
        }
        match links.iter_mut().find(|link| std::ptr::eq(link.pci, *pci)) {
            Some(link) => {
                link.needed = link.needed.max(needed);
                link.nics.extend(devices(nic));
            }
            None => links.push(Narrow {
                pci,
                nics: devices(nic),
                needed,
                bandwidth,
            }),
        }
    }
}

pub(crate) fn holds_gpu(pci: &Element) -> bool {
    pci.children
        .iter()
        .any(|child| child.tag == Tag::Gpu || holds_gpu(child))
}

/// A bandwidth with as many digits as matter.
fn short(gbps: f32) -> String {
    match gbps {
        10.0.. => format!("{gbps:.0}"),
        _ => format!("{gbps:.1}"),
    }
}

/// Finds files without any GPU, and without a PCI function that is one.
fn no_gpu(document: &Document) -> Option<Finding> {
    fn has_gpu(element: &Element) -> bool {
        element.tag == Tag::Gpu
            || element.tag == Tag::Pci && is_gpu(element)
            || element.children.iter().any(has_gpu)
    }
    if document.version != 1 || has_gpu(&document.root) {
        return None;
    }
    Some(Finding::new(
        Rule::NoGpu,
        "the file",
        "no GPU, and no PCI function with the class of one",
        "GPUs, or <pci class=\"0x030200\" …> from which they can be completed",
    ))
}

/// Finds files that NCCL refuses for their size.
fn too_large(document: &Document) -> Option<Finding> {
    let elements = document.root.count();
    (elements > NCCL_FILE_ELEMENTS).then(|| {
        Finding::new(
            Rule::TooLarge,
            "the file",
            format!("{elements} elements"),
            format!("at most {NCCL_FILE_ELEMENTS} elements"),
        )
    })
}
