//! NVLinks of GPUs that have none in the file. NCCL asks the driver for them, GPU by GPU.

use std::collections::BTreeMap;

use topology::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

use super::Assumptions;

/// The target and class that NCCL writes for NVLinks to NVSwitches that it cannot see.
const NVSWITCH: (&str, &str) = ("fffffff:ffff:ff", "0x068000");

/// Compute capabilities × 10 of GPUs that come with NVLinks in most machines: H100 and H200, B200,
/// B300.
const LINKED: [i32; 3] = [90, 100, 103];

/// PCI ids of cards of these kinds whose NVLinks are optional bridges: H100 PCIe and NVL, H200 NVL.
const BRIDGED: [&str; 4] = ["0x2331", "0x2321", "0x233a", "0x233b"];

/// Class of a GPU whose `<pci>` does not tell it.
const GPU_CLASS: &str = "0x030200";

/// A GPU in use.
struct Gpu<'e> {
    pci: &'e Element,
    gpu: &'e Element,
}

fn gpus(document: &Document) -> Vec<Gpu<'_>> {
    fn enter<'e>(pci: &'e Element, found: &mut Vec<Gpu<'e>>) {
        for gpu in &pci.children {
            if gpu.tag == Tag::Gpu && gpu.get("rank").is_some() {
                found.push(Gpu { pci, gpu });
            }
            enter(gpu, found);
        }
    }
    let mut found = Vec::new();
    enter(&document.root, &mut found);
    found
}

fn has_links(gpu: &Element) -> bool {
    gpu.children(Tag::Nvlink).next().is_some()
}

fn sm(gpu: &Element) -> i32 {
    gpu.get("sm").map_or(0, c_int)
}

/// Bus ids of GPUs that NCCL would find NVLinks for: no GPU of the file has any.
pub(super) fn missing(document: &Document) -> Vec<String> {
    let gpus = gpus(document);
    let bridged = |gpu: &Gpu<'_>| {
        let device = gpu.pci.get("device").unwrap_or_default();
        BRIDGED.contains(&device.to_ascii_lowercase().as_str())
    };
    let expected = |gpu: &Gpu<'_>| LINKED.contains(&sm(gpu.gpu)) && !bridged(gpu);
    if gpus.len() < 2 || gpus.iter().any(|gpu| has_links(gpu.gpu)) || !gpus.iter().all(expected) {
        return Vec::new();
    }
    let bus_id = |gpu: &Gpu<'_>| gpu.pci.get("busid").unwrap_or_default().to_owned();
    gpus.iter().map(bus_id).collect()
}

/// The numbers (`dev`) of the GPUs in use.
pub fn devices(document: &Document) -> Vec<i32> {
    let gpus = gpus(document);
    let mut devices: Vec<i32> = gpus
        .iter()
        .filter_map(|gpu| Some(c_int(gpu.gpu.get("dev")?)))
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Number of GPUs in use without NVLinks, and their compute capabilities × 10.
pub fn without_links(document: &Document) -> (usize, Vec<i32>) {
    let all = gpus(document);
    let without: Vec<&Gpu<'_>> = all.iter().filter(|gpu| !has_links(gpu.gpu)).collect();
    let mut kinds: Vec<i32> = without.iter().map(|gpu| sm(gpu.gpu)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    (without.len(), kinds)
}

/// Adds the assumed NVLinks to each GPU that has none.
pub(super) fn add(root: &mut Element, assumptions: &Assumptions) {
    let mut ends = BTreeMap::new();
    collect(root, 0, &mut ends);
    enter(root, 0, assumptions, &ends);
}

/// Bus id and class of each GPU in use, by host and `dev`.
type Ends = BTreeMap<(u64, i32), (String, String)>;

fn collect(element: &Element, host: u64, ends: &mut Ends) {
    let host = element
        .get("host_hash")
        .map_or(host, c_unsigned_hexadecimal);
    for child in &element.children {
        if let (Tag::Gpu, Some(dev)) = (child.tag, child.get("dev")) {
            let text = |name, other| element.get(name).unwrap_or(other).to_owned();
            let end = (text("busid", ""), text("class", GPU_CLASS));
            ends.insert((host, c_int(dev)), end);
        }
        collect(child, host, ends);
    }
}

fn enter(element: &mut Element, host: u64, assumptions: &Assumptions, ends: &Ends) {
    let host = element
        .get("host_hash")
        .map_or(host, c_unsigned_hexadecimal);
    if element.tag == Tag::Gpu && element.get("rank").is_some() && !has_links(element) {
        element
            .children
            .extend(links_of(element, host, assumptions, ends));
    }
    for child in &mut element.children {
        enter(child, host, assumptions, ends);
    }
}

/// The links that a GPU without any is assumed to have.
fn links_of(gpu: &Element, host: u64, assumptions: &Assumptions, ends: &Ends) -> Vec<Element> {
    // Links of another kind of GPU would have another bandwidth.
    if assumptions.gpu.is_some_and(|assumed| assumed.sm != sm(gpu)) {
        return Vec::new();
    }
    if assumptions.nvlinks.is_empty() {
        let count = assumptions.gpu.map_or(0, |assumed| assumed.nvswitch_links);
        let link = (count > 0).then(|| link(NVSWITCH.0, NVSWITCH.1, count));
        return link.into_iter().collect();
    }
    let Some(dev) = gpu.get("dev").map(c_int) else {
        return Vec::new();
    };
    let direct = assumptions.nvlinks.iter().filter_map(|assumed| {
        let peer = match assumed.between {
            [from, to] if from == dev => to,
            [from, to] if to == dev => from,
            _ => return None,
        };
        let (bus_id, class) = ends.get(&(host, peer))?;
        Some(link(bus_id, class, assumed.count))
    });
    direct.collect()
}

fn link(target: &str, class: &str, count: i32) -> Element {
    let mut link = Element::new(Tag::Nvlink);
    link.set("target", target);
    link.set("count", count.to_string());
    link.set("tclass", class);
    link
}
