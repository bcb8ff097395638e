//! Checks that need only a topology file.

use std::collections::BTreeMap;

use topology::bandwidth;
use topology::error::Place;
use topology::xml::{Document, Element, Tag, c_int};
use topology::{BusId, NodeType};

use crate::complete::MissingParts;
use crate::finding::{AttributeChange, Effect, Selector};
use crate::finding::{Finding, Rule};

/// Bandwidth up to which a link is implausible in a server, GB/s: one lane of 2.5 GT/s.
pub(crate) const IMPOSSIBLE: f32 = 0.25;

/// Assumed real speed and width of such a link.
const REAL_SPEED: &str = "32.0 GT/s PCIe";
const REAL_WIDTH: &str = "16";

/// Most devices that a finding lists.
const NAMED: usize = 4;

pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut checks = Checks {
        document,
        gpus: BTreeMap::new(),
        texts: BTreeMap::new(),
        impossible: Vec::new(),
        missing: Vec::new(),
        findings: Vec::new(),
    };
    checks.collect(&document.root, None);
    checks.element(&document.root, None);
    checks.missing_attributes();
    checks.impossible_links();
    checks.nvlinks();
    checks.incomplete();
    checks.warnings();
    checks.findings
}

struct Checks<'d> {
    document: &'d Document,
    /// `<gpu>` elements by host and bus id.
    gpus: BTreeMap<(String, BusId), &'d Element>,
    /// All bus ids as written in the file.
    texts: BTreeMap<BusId, &'d str>,
    /// Impossible links: bus id, value, and devices behind it.
    impossible: Vec<(String, String, Vec<String>)>,
    /// Missing attributes, and the elements that lack them.
    missing: Vec<(String, Vec<String>)>,
    findings: Vec<Finding>,
}

impl<'d> Checks<'d> {
    fn collect(&mut self, element: &'d Element, above: Option<&Above<'_>>) {
        let here = Above::enter(element, above);
        if let Some(text) = element.get("busid").filter(|_| element.tag == Tag::Pci) {
            self.texts.insert(BusId::parse(text), text);
        }
        if element.tag == Tag::Gpu {
            self.gpus
                .insert((here.host.to_owned(), BusId::parse(here.bus_id)), element);
        }
        for child in &element.children {
            self.collect(child, Some(&here));
        }
    }

    fn element(&mut self, element: &'d Element, above: Option<&Above<'_>>) {
        let here = Above::enter(element, above);
        self.missing(element, &here);
        match element.tag {
            Tag::Pci => self.link(element, &here),
            Tag::Pcilink => {
                let target = element.get("target").unwrap_or_default();
                if !self.texts.contains_key(&BusId::parse(target)) {
                    self.dangling(&here, "pcilink", target);
                }
            }
            _ => {}
        }
        for child in &element.children {
            self.element(child, Some(&here));
        }
    }

    /// Collects required attributes that an element lacks.
    fn missing(&mut self, element: &Element, here: &Above<'_>) {
        let x86 = element.get("arch") == Some("x86_64");
        let models = x86
            && matches!(
                element.get("vendor"),
                Some("GenuineIntel" | "CentaurHauls" | "  Shanghai  ")
            );
        let required: &[(&str, bool)] = match element.tag {
            Tag::Cpu => &[
                ("numaid", true),
                ("arch", true),
                ("vendor", x86),
                ("familyid", models),
                ("modelid", models),
            ],
            Tag::Pci => &[
                ("busid", true),
                ("class", true),
                ("link_speed", true),
                ("link_width", true),
            ],
            Tag::Gpu => &[("dev", true), ("sm", true), ("gdr", true), ("rank", true)],
            Tag::Nvlink => &[("count", true), ("tclass", true)],
            Tag::Net => &[("dev", true)],
            Tag::Pcilink => &[("target", true)],
            _ => &[],
        };
        let missing: Vec<&str> = required
            .iter()
            .filter(|(name, needed)| *needed && element.get(name).is_none())
            .map(|(name, _)| *name)
            .collect();
        if !missing.is_empty() {
            let seen = format!("<{}> without {}", element.tag.name(), missing.join(", "));
            let place = place(element, here);
            match self.missing.iter_mut().find(|(known, _)| *known == seen) {
                Some((_, places)) => places.push(place),
                None => self.missing.push((seen, vec![place])),
            }
        }
    }

    /// One finding for all elements that lack the same: vendors' files lack it everywhere.
    fn missing_attributes(&mut self) {
        for (seen, places) in std::mem::take(&mut self.missing) {
            self.findings.push(Finding::of_all(
                Rule::MissingAttribute,
                &places,
                seen,
                "all attributes that NCCL requires",
            ));
        }
    }

    /// Collects impossible links, as emulated bridges show them.
    fn link(&mut self, pci: &Element, here: &Above<'_>) {
        let (Some(speed), Some(width)) = (pci.get("link_speed"), pci.get("link_width")) else {
            return;
        };
        let bw = bandwidth::pci(speed, c_int(width));
        if bw > IMPOSSIBLE || !leads_to_device(pci) {
            return;
        }
        let seen = format!("{speed} x{width} ({bw} GB/s)");
        self.impossible
            .push((here.bus_id.to_owned(), seen, devices(pci)));
    }

    /// One finding for all impossible links, because repairing one of them changes nothing.
    fn impossible_links(&mut self) {
        let Some((_, seen, _)) = self.impossible.first() else {
            return;
        };
        let places: Vec<&str> = self
            .impossible
            .iter()
            .map(|(bus_id, ..)| bus_id.as_str())
            .collect();
        let mut behind: Vec<&String> = Vec::new();
        for device in self.impossible.iter().flat_map(|(_, _, devices)| devices) {
            if !behind.contains(&device) {
                behind.push(device);
            }
        }
        let named: Vec<&str> = behind
            .iter()
            .take(NAMED)
            .map(|device| device.as_str())
            .collect();
        let more = if behind.len() > NAMED { " …" } else { "" };
        let finding = Finding::of_all(
            Rule::ImpossibleLink,
            &places,
            format!("{seen} in front of {}{more}", named.join(", ")),
            format!("the link of the hardware, such as {REAL_SPEED} x{REAL_WIDTH}"),
        );
        let edit = |bus_id: &String, attribute, value: &str| AttributeChange {
            at: Selector::Pci(bus_id.clone()),
            attribute,
            value: value.to_owned(),
        };
        let mended = self.impossible.iter().flat_map(|(bus_id, ..)| {
            [
                edit(bus_id, "link_speed", REAL_SPEED),
                edit(bus_id, "link_width", REAL_WIDTH),
            ]
        });
        let effect = Effect {
            mended: mended.collect(),
            ..Effect::default()
        };
        self.findings.push(finding.with_effect(effect));
    }

    fn dangling(&mut self, here: &Above<'_>, kind: &str, target: &str) {
        self.findings.push(Finding::new(
            Rule::Dangling,
            here.bus_id,
            format!("{kind} to {target}"),
            "a device of this file",
        ));
    }

    /// NVLinks between GPUs must be equal on both sides.
    fn nvlinks(&mut self) {
        let mut counts: BTreeMap<(&str, BusId, BusId), i32> = BTreeMap::new();
        let gpus = std::mem::take(&mut self.gpus);
        for ((host, own), gpu) in &gpus {
            for link in gpu.children(Tag::Nvlink) {
                let is_gpu =
                    bandwidth::class_kind(link.get("tclass").unwrap_or_default()) == NodeType::Gpu;
                if !is_gpu || link.get("tclass").is_none() {
                    continue;
                }
                let text = link.get("target").unwrap_or_default();
                let target = BusId::parse(text);
                if gpus.contains_key(&(host.clone(), target)) {
                    *counts.entry((host, *own, target)).or_default() +=
                        link.get("count").map_or(0, c_int);
                } else {
                    self.findings.push(Finding::new(
                        Rule::Dangling,
                        gpu_label(gpu, *own),
                        format!("nvlink to {text}"),
                        "a GPU of this file",
                    ));
                }
            }
        }
        for ((host, own, target), count) in &counts {
            let back = counts.get(&(*host, *target, *own)).copied().unwrap_or(0);
            if own < target && back != *count || own > target && back == 0 {
                let label = |bus_id: &BusId| {
                    gpus.get(&((*host).to_owned(), *bus_id))
                        .map_or_else(|| bus_id.to_string(), |gpu| gpu_label(gpu, *bus_id))
                };
                let finding = Finding::new(
                    Rule::NvlinkAsymmetric,
                    format!("{} and {}", label(own), label(target)),
                    format!("{count} one way, {back} the other"),
                    "the same number both ways",
                );
                let mut mended = Vec::new();
                if back > 0 {
                    for (from, to) in [(own, target), (target, own)] {
                        let texts = self.texts.get(from).zip(self.texts.get(to));
                        mended.extend(texts.map(|(from, to)| AttributeChange {
                            at: Selector::Nvlink((*from).to_owned(), (*to).to_owned()),
                            attribute: "count",
                            value: back.max(*count).to_string(),
                        }));
                    }
                }
                self.findings.push(finding.with_effect(Effect {
                    mended,
                    ..Effect::default()
                }));
            }
        }
        self.gpus = gpus;
    }

    /// Detects vendors' files with only the PCI tree.
    fn incomplete(&mut self) {
        let missing = MissingParts::of(self.document);
        let mut say = |missing: &[String], kind: &str, tag: &str| {
            if !missing.is_empty() {
                self.findings.push(Finding::of_all(
                    Rule::Incomplete,
                    missing,
                    format!("{kind} without <{tag}>"),
                    "a file as NCCL dumps it",
                ));
            }
        };
        say(&missing.gpus, "GPUs", "gpu");
        say(&missing.nics, "NICs", "net");
    }

    /// Warnings of the XML reader that no other finding reports.
    fn warnings(&mut self) {
        for warning in &self.document.warnings {
            let of = |element: &str, attribute: Option<&str>| {
                warning.place.element.as_deref() == Some(element)
                    && warning.place.attribute.as_deref() == attribute
            };
            // The size of the file, links to devices that are not there, and that AMD wrote it.
            let told = of("system", None)
                || of("nvlink", Some("target"))
                || self.document.is_rccl() && of("system", Some("version"));
            if told {
                continue;
            }
            let at = warned_at(&warning.place);
            match self
                .findings
                .iter_mut()
                .find(|it| it.rule == Rule::ReadOtherwise && it.devices == [at.as_str()])
            {
                // The same attribute again.
                Some(known) => known.seen = format!("{}; {}", known.seen, warning.message),
                None => self.findings.push(Finding::new(
                    Rule::ReadOtherwise,
                    at,
                    warning.message.clone(),
                    "a value that NCCL reads as written",
                )),
            }
        }
    }
}

/// A name for an element: its bus id or its line.
fn place(element: &Element, here: &Above<'_>) -> String {
    match (here.bus_id, element.position.line) {
        ("", 0) => element.tag.name().to_owned(),
        ("", line) => format!("line {line}"),
        (bus_id, _) => bus_id.to_owned(),
    }
}

/// The place of a warning, without the file's name.
fn warned_at(place: &Place) -> String {
    let mut parts = Vec::new();
    if place.position.line > 0 {
        parts.push(format!("line {}", place.position.line));
    }
    parts.extend(place.element.as_ref().map(|element| format!("<{element}>")));
    parts.extend(place.attribute.as_ref().map(ToString::to_string));
    if parts.is_empty() {
        parts.push(place.file.to_string());
    }
    parts.join(" ")
}

/// The host and bus id around an element.
struct Above<'e> {
    host: &'e str,
    bus_id: &'e str,
}

impl<'e> Above<'e> {
    fn enter(element: &'e Element, above: Option<&Above<'e>>) -> Self {
        let own =
            |name: &str, from: Option<&'e str>| element.get(name).or(from).unwrap_or_default();
        Self {
            host: own("host_hash", above.map(|above| above.host)),
            bus_id: own("busid", above.map(|above| above.bus_id)),
        }
    }
}

pub(crate) fn is_gpu(pci: &Element) -> bool {
    pci.get("class")
        .is_some_and(|class| class.starts_with("0x03"))
}

fn gpu_label(gpu: &Element, bus_id: BusId) -> String {
    gpu.get("dev")
        .map_or_else(|| bus_id.to_string(), |dev| format!("GPU{dev}"))
}

fn leads_to_device(pci: &Element) -> bool {
    pci.children.iter().any(|child| {
        matches!(child.tag, Tag::Gpu | Tag::Nic)
            || child.tag == Tag::Pci && (is_gpu(child) || leads_to_device(child))
    }) || is_gpu(pci)
}

/// The GPUs and ports at and below a function.
pub(crate) fn devices(pci: &Element) -> Vec<String> {
    let mut names = Vec::new();
    for child in &pci.children {
        match child.tag {
            Tag::Gpu => names.push(
                child
                    .get("dev")
                    .map_or_else(|| "a GPU".to_owned(), |dev| format!("GPU{dev}")),
            ),
            Tag::Net => names.push(child.get("name").unwrap_or("a NIC").to_owned()),
            _ => names.extend(devices(child)),
        }
    }
    if names.is_empty() {
        names.push("a GPU".to_owned());
    }
    names
}
