//! Finds the element of a device, and creates missing elements above it.

use topology::xml::{Element, Tag, c_int};

use super::{TreeParts, attributes};

/// Most functions from a device up to its CPU.
const DEEPEST: usize = 32;

/// Finds or creates the `<pci>` of a bus id with all its ancestors, and adds attributes that the
/// machine knows.
pub fn pci<'r>(root: &'r mut Element, parts: &TreeParts<'_>, bus_id: &str) -> &'r mut Element {
    let (chain, numa) = chain_up(parts, bus_id);
    let known = chain.iter().position(|bus_id| holds(root, bus_id));
    let missing = &chain[..known.unwrap_or(chain.len())];
    let mut element = match known {
        Some(at) => stored(root, parts, &chain[at]),
        None => cpu(root, &numa.to_string(), || {
            attributes::cpu(parts.machine, numa)
        }),
    };
    for bus_id in missing.iter().rev() {
        element = child(element, bus_id, || parts.pci_element(bus_id));
    }
    element
}

fn is_pci(element: &Element, bus_id: &str) -> bool {
    element.tag == Tag::Pci
        && element
            .get("busid")
            .is_some_and(|own| own.eq_ignore_ascii_case(bus_id))
}

fn holds(element: &Element, bus_id: &str) -> bool {
    is_pci(element, bus_id) || element.children.iter().any(|child| holds(child, bus_id))
}

/// Finds an existing `<pci>` and completes it and its ancestors.
fn stored<'r>(element: &'r mut Element, parts: &TreeParts<'_>, bus_id: &str) -> &'r mut Element {
    match element.tag {
        Tag::Cpu => {
            let numa = element.get("numaid").map_or(-1, c_int);
            fill(element, &attributes::cpu(parts.machine, numa));
        }
        Tag::Pci => {
            let own = element.get("busid").unwrap_or_default().to_owned();
            let known = parts.pci_element(&own.to_lowercase());
            fill(element, &known);
            if parts.machine.pci.get(&own).is_some() {
                element.set("class", known.get("class").unwrap_or_default());
            }
        }
        _ => {}
    }
    if is_pci(element, bus_id) {
        return element;
    }
    let below = element
        .children
        .iter()
        .position(|child| holds(child, bus_id));
    // `holds` found it.
    stored(
        &mut element.children[below.unwrap_or_default()],
        parts,
        bus_id,
    )
}

/// Sets missing attributes.
pub fn fill(element: &mut Element, known: &Element) {
    for attribute in &known.attributes {
        if element.get(&attribute.name).is_none() {
            element.set(attribute.name.clone(), attribute.value.clone());
        }
    }
}

/// The functions from a device up to its CPU, and the CPU's NUMA node.
fn chain_up(parts: &TreeParts<'_>, bus_id: &str) -> (Vec<String>, i32) {
    let mut chain = vec![bus_id.to_owned()];
    let mut numa = -1;
    let mut at = parts.machine.pci.get(bus_id);
    while let Some(function) = at {
        numa = function.numa();
        let Some(parent) = function.parent().filter(|_| chain.len() < DEEPEST) else {
            break;
        };
        chain.push(parent.to_owned());
        at = parts.machine.pci.get(parent);
    }
    (chain, numa)
}

/// Finds or creates a child, sorted by bus id.
fn child<'r>(
    parent: &'r mut Element,
    bus_id: &str,
    make: impl FnOnce() -> Element,
) -> &'r mut Element {
    let own = |child: &Element| is_pci(child, bus_id);
    let at = parent.children.iter().position(own).unwrap_or_else(|| {
        let greater = |child: &Element| child.get("busid").is_some_and(|other| other > bus_id);
        let at = parent
            .children
            .iter()
            .position(greater)
            .unwrap_or(parent.children.len());
        parent.children.insert(at, make());
        at
    });
    &mut parent.children[at]
}

/// Finds or creates the `<cpu>` of a NUMA node.
pub fn cpu<'r>(
    root: &'r mut Element,
    numa: &str,
    make: impl FnOnce() -> Element,
) -> &'r mut Element {
    let own = |child: &Element| child.get("numaid") == Some(numa);
    let at = root.children.iter().position(own).unwrap_or_else(|| {
        root.children.push(make());
        root.children.len() - 1
    });
    &mut root.children[at]
}

/// The first `<cpu>`, for devices without a place.
pub fn first_cpu(root: &mut Element, make: impl FnOnce() -> Element) -> &mut Element {
    if root.children.is_empty() {
        root.children.push(make());
    }
    &mut root.children[0]
}
