//! The place of a virtual device in the tree, and what that changes above it.

use crate::xml::{Element, Tag, c_int};

use super::devices::{at, at_mut, bus_number};
use super::distance;
use super::error::MergeError;
use super::options::{MergeLevel, MergeOptions, Widths};

/// The class of a PCI bridge. Others hold a virtual device as they are.
const BRIDGE: &str = "0x060400";

/// Bus ids that are tried for a new PCI function.
const TRIES: u64 = 100;

/// Adds a virtual device. Returns whether it is lost: NCCL does not look where it is.
pub(super) fn place(
    root: &mut Element,
    members: &[&Vec<usize>],
    name: &str,
    net: Element,
    options: &MergeOptions,
) -> Result<bool, MergeError> {
    let no_place = |why| MergeError::NoPlace {
        name: name.to_owned(),
        why,
    };
    let distance = distance::between(root, members);
    let Some(first) = members.first() else {
        return Err(no_place("there are none"));
    };
    let shared = first[..distance.shared].to_vec();
    let adds_up = matches!(
        distance.level,
        MergeLevel::Phb | MergeLevel::Pxb | MergeLevel::Pix
    );
    let width = match options.widths {
        Widths::Kept => None,
        _ if !adds_up => None,
        _ => Some(width_below(root, &shared, members).ok_or_else(|| {
            no_place("a PCI function above them has no `link_width`; expected the number of lanes")
        })?),
    };
    if options.widths == Widths::EveryLink
        && let Some(width) = width
    {
        widen_all(root, &shared, members, width);
    }
    let element = at(root, &shared);
    let inserts = match element.tag {
        Tag::System => {
            return Err(MergeError::DifferentCpus {
                name: name.to_owned(),
            });
        }
        Tag::Pci => element.get("class") == Some(BRIDGE),
        Tag::Cpu => options.inserts_below_cpus,
        _ => false,
    };
    let parent = match inserts {
        true => insert(root, &shared, first, name)?,
        false => shared.clone(),
    };
    if let Some(width) = width.filter(|width| options.widths == Widths::Shared && *width > 0) {
        for path in [&parent, &shared] {
            let element = at_mut(root, path);
            if element.tag == Tag::Pci {
                element.set("link_width", width.to_string());
            }
        }
    }
    let parent = at_mut(root, &parent);
    let lost = parent.tag == Tag::Nic;
    let nic = parent
        .children
        .iter()
        .position(|child| child.tag == Tag::Nic);
    let nic = nic.unwrap_or_else(|| {
        parent.children.push(Element::new(Tag::Nic));
        parent.children.len() - 1
    });
    parent.children[nic].children.push(net);
    Ok(lost)
}

/// The lanes to the ports that a CPU or PCI function has below it.
fn width_below(root: &Element, path: &[usize], members: &[&Vec<usize>]) -> Option<i32> {
    let count = at(root, path).children.len();
    (0..count).try_fold(0i32, |sum, child| {
        let child = [path, &[child]].concat();
        Some(sum.saturating_add(width(root, &child, members)?))
    })
}

/// The lanes of an element to the ports below it; `None` if a PCI function does not say.
fn width(root: &Element, path: &[usize], members: &[&Vec<usize>]) -> Option<i32> {
    let element = at(root, path);
    let own = match element.tag {
        Tag::Pci => c_int(element.get("link_width")?),
        _ => 0,
    };
    let below = width_below(root, path, members)?;
    if !members.iter().any(|member| member.starts_with(path)) {
        return Some(0);
    }
    Some(match (own, below) {
        (own, 0) => own,
        (own, below) if own > 0 => own.min(below),
        (_, below) => below,
    })
}

/// Gives all PCI functions from the ports to the one that they share this width.
fn widen_all(root: &mut Element, shared: &[usize], members: &[&Vec<usize>], width: i32) {
    for member in members {
        for length in shared.len()..member.len() {
            let element = at_mut(root, &member[..length]);
            if element.tag == Tag::Pci {
                element.set("link_width", width.to_string());
            }
        }
    }
}

/// Adds a PCI function like that of the first port, and returns its path.
fn insert(
    root: &mut Element,
    above: &[usize],
    first: &[usize],
    name: &str,
) -> Result<Vec<usize>, MergeError> {
    let no_place = |why| MergeError::NoPlace {
        name: name.to_owned(),
        why,
    };
    // The port's NIC is below it.
    let like = at(root, &first[..first.len().saturating_sub(2)]);
    if like.tag != Tag::Pci {
        return Err(no_place("the first of them is not below a PCI function"));
    }
    let number = bus_number(like.get("busid").unwrap_or_default());
    let bus_id = (1..=TRIES).map(|more| bus_id(number + more));
    let free = bus_id.into_iter().find(|bus_id| !has_bus_id(root, bus_id));
    let bus_id = free.ok_or_else(|| no_place("the 100 bus ids after the first one's are taken"))?;
    let mut new = Element::new(Tag::Pci);
    new.attributes.clone_from(&like.attributes);
    new.set("busid", bus_id);
    let parent = at_mut(root, above);
    parent.children.push(new);
    Ok([above, &[parent.children.len() - 1]].concat())
}

fn bus_id(number: u64) -> String {
    let (domain, bus) = (number >> 20, number >> 12 & 0xff);
    let (device, function) = (number >> 4 & 0xff, number & 0xf);
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
}

fn has_bus_id(element: &Element, bus_id: &str) -> bool {
    element.tag == Tag::Pci && element.get("busid") == Some(bus_id)
        || element
            .children
            .iter()
            .any(|child| has_bus_id(child, bus_id))
}
