//! The topology of a host as the ranks of a job see it: each keeps the part with its GPU and the
//! network ports, and their parts are joined in rank order.
//!
//! The order of siblings decides ties, so it matters which rank's part comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

/// Elements of a topology, by reference, without those that were left out.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    element: &'a Element,
    children: Vec<Part<'a>>,
}

impl<'a> Part<'a> {
    /// Everything below an element.
    pub fn whole(element: &'a Element) -> Self {
        Self {
            element,
            children: element.children.iter().map(Self::whole).collect(),
        }
    }

    /// The rest of a topology after NCCL's trimming: `keeps` says for an element, with its parent,
    /// whether it stays with all below it. CPUs, PCI functions, NICs and ports above none of these
    /// are left out; other elements stay with their parent.
    pub fn trimmed(root: &'a Element, keeps: &impl Fn(&Element, &Element) -> bool) -> Self {
        Self::of(root, None, keeps).0
    }

    /// The part below an element, and whether something in it stays for its own sake.
    fn of(
        element: &'a Element,
        parent: Option<&Element>,
        keeps: &impl Fn(&Element, &Element) -> bool,
    ) -> (Self, bool) {
        if parent.is_some_and(|parent| keeps(element, parent)) {
            return (Self::whole(element), true);
        }
        let mut kept = false;
        let mut children = Vec::with_capacity(element.children.len());
        for child in &element.children {
            let (part, used) = Self::of(child, Some(element), keeps);
            kept |= used;
            let removable = matches!(child.tag, Tag::Cpu | Tag::Pci | Tag::Nic | Tag::Net);
            if used || !removable {
                children.push(part);
            }
        }
        (Self { element, children }, kept)
    }

    /// Joins the part of another rank: equal elements become one, others are appended to their
    /// parent.
    pub fn join(&mut self, other: Self) {
        if self.children.is_empty() {
            self.children = other.children;
            return;
        }
        self.append(other);
    }

    fn append(&mut self, other: Self) {
        for child in other.children {
            let equal = |known: &&mut Part<'_>| is_same(known.element, child.element);
            match self.children.iter_mut().find(equal) {
                Some(known) => known.append(child),
                None => self.children.push(child),
            }
        }
    }

    /// Whether this is the element with everything below it, in its order.
    fn is_whole(&self) -> bool {
        let elements = &self.element.children;
        self.children.len() == elements.len()
            && self
                .children
                .iter()
                .zip(elements)
                .all(|(part, element)| std::ptr::eq(part.element, element) && part.is_whole())
    }

    /// The part as elements of its own.
    pub fn to_element(&self) -> Element {
        Element {
            tag: self.element.tag,
            attributes: self.element.attributes.clone(),
            children: self.children.iter().map(Self::to_element).collect(),
            position: self.element.position,
        }
    }
}

/// Whether two elements have equal names and attributes, in any order.
fn is_same(one: &Element, other: &Element) -> bool {
    std::ptr::eq(one, other)
        || one.tag == other.tag
            && one.attributes.len() == other.attributes.len()
            && one
                .attributes
                .iter()
                .all(|attribute| other.get(&attribute.name) == Some(&attribute.value))
}

/// Returns a topology as the ranks on its GPUs join it; `None` if that is the topology itself.
///
/// `order` has the GPUs in the order of their ranks, as numbers of GPUs counted host after host by
/// device number. Without it that is their order.
pub fn by_ranks(document: &Document, order: Option<&[u32]>) -> Option<Document> {
    let root = &document.root;
    let mut gpus = Vec::new();
    let mut hosts: BTreeMap<u64, usize> = BTreeMap::new();
    for cpu in root.children(Tag::Cpu) {
        let known = hosts.len();
        let host = *hosts.entry(host_hash(cpu)).or_insert(known);
        gpus_below(cpu, host, &mut gpus);
    }
    // Stable, so partitions of one GPU keep their order.
    gpus.sort_by_key(|(host, dev, _)| (*host, *dev));
    let plain: Vec<u32>;
    let order = match order {
        Some(order) => order,
        None => {
            plain = (0..gpus.len() as u32).collect();
            &plain
        }
    };
    let mut joined = Part {
        element: root,
        children: Vec::new(),
    };
    for number in order {
        let Some((host, _, gpu)) = gpus.get(*number as usize) else {
            continue;
        };
        let keeps = |element: &Element, _: &Element| match element.tag {
            Tag::Gpu => std::ptr::eq(element, *gpu),
            Tag::Net => element.get("dev").is_some(),
            _ => false,
        };
        // A rank sees its own host only.
        let cpus = root.children.iter().filter(|cpu| {
            cpu.tag != Tag::Cpu || hosts.get(&host_hash(cpu)) == Some(host) && cpu.is_used()
        });
        let parts = cpus.map(|cpu| Part::of(cpu, Some(root), &keeps));
        let parts = parts.filter(|(_, kept)| *kept).map(|(part, _)| part);
        joined.join(Part {
            element: root,
            children: parts.collect(),
        });
    }
    // Without ranks there is nothing to join.
    if joined.children.is_empty() || joined.is_whole() {
        return None;
    }
    Some(Document {
        file: Arc::clone(&document.file),
        version: document.version,
        root: joined.to_element(),
        warnings: document.warnings.clone(),
    })
}

/// The number of GPUs with a rank of each host, in the order of the hosts.
pub fn gpus_by_host(document: &Document) -> Vec<usize> {
    let mut hosts: Vec<(u64, usize)> = Vec::new();
    for cpu in document.root.children(Tag::Cpu) {
        let mut found = Vec::new();
        gpus_below(cpu, 0, &mut found);
        let hash = host_hash(cpu);
        match hosts.iter_mut().find(|(known, _)| *known == hash) {
            Some((_, gpus)) => *gpus += found.len(),
            None => hosts.push((hash, found.len())),
        }
    }
    hosts.into_iter().map(|(_, gpus)| gpus).collect()
}

fn host_hash(cpu: &Element) -> u64 {
    cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal)
}

/// Returns a topology without ports that have the name of an earlier port of their host; `None` if
/// there are none. NCCL looks for each port of its network by name, and takes the first
/// (`ncclTopoFillNet`).
pub fn without_repeated_ports(document: &Document) -> Option<Document> {
    let repeated = repeated_ports(&document.root);
    (!repeated.is_empty()).then(|| Document {
        file: Arc::clone(&document.file),
        version: document.version,
        root: without(&document.root, &repeated),
        warnings: document.warnings.clone(),
    })
}

/// An element without some of those below it.
fn without(element: &Element, left_out: &[&Element]) -> Element {
    let children = element.children.iter();
    let stays = |child: &&Element| !left_out.iter().any(|it| std::ptr::eq(*it, *child));
    Element {
        tag: element.tag,
        attributes: element.attributes.clone(),
        children: children
            .filter(stays)
            .map(|child| without(child, left_out))
            .collect(),
        position: element.position,
    }
}

/// Ports with the name of an earlier port of their host.
fn repeated_ports(root: &Element) -> Vec<&Element> {
    let mut known = BTreeSet::new();
    let mut repeated = Vec::new();
    for cpu in root.children(Tag::Cpu) {
        let host = host_hash(cpu);
        let mut below: Vec<&Element> = cpu.children.iter().rev().collect();
        while let Some(element) = below.pop() {
            below.extend(element.children.iter().rev());
            let name = element.get("name").filter(|_| element.tag == Tag::Net);
            if name.is_some_and(|name| !known.insert((host, name))) {
                repeated.push(element);
            }
        }
    }
    repeated
}

/// The GPUs with a rank, with host and device number.
fn gpus_below<'a>(element: &'a Element, host: usize, found: &mut Vec<(usize, i32, &'a Element)>) {
    for child in &element.children {
        match child.tag {
            Tag::Gpu if child.get("rank").is_some() => {
                found.push((host, child.get("dev").map_or(0, c_int), child));
            }
            Tag::Pci => gpus_below(child, host, found),
            _ => {}
        }
    }
}
