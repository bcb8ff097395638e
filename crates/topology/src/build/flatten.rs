//! Merges the parts of Broadcom switches, one upper and several lower ones, into one node.

use super::draft::{DraftId, DraftLink, Drafts};
use crate::node::{NodeData, NodeType};

/// The low bits of a flattened switch's code, so that it does not match again.
const FLATTENED: u64 = 0xffff;

/// The generation of a Broadcom switch at a level (0 upper, 1 lower), from its device code.
const fn generation(device_code: u64, level: u64) -> Option<u32> {
    match device_code & !0xfff {
        0x1000_c010_1000_a000 => Some(4),
        code if code == 0x1000_c030_1000_0000 | level << 12 => Some(5),
        _ => None,
    }
}

fn device_code(drafts: &Drafts, node: DraftId) -> Option<u64> {
    match drafts.node(node).data {
        NodeData::Pci { device_code } => Some(device_code),
        _ => None,
    }
}

/// Merges every lower switch into its upper one.
pub(super) fn flatten_broadcom_switches(drafts: &mut Drafts) {
    let mut at = 0;
    while let Some(&upper) = drafts.of_kind(NodeType::Pci).get(at) {
        match device_code(drafts, upper).and_then(|code| generation(code, 0)) {
            // Removing lower switches changes the list, so restart; `upper` no longer matches then.
            Some(generation) => {
                absorb_lower_switches(drafts, upper, generation);
                at = 0;
            }
            None => at += 1,
        }
    }
}

fn absorb_lower_switches(drafts: &mut Drafts, upper: DraftId, wanted: u32) {
    let is_lower = |drafts: &Drafts, node| {
        device_code(drafts, node).and_then(|code| generation(code, 1)) == Some(wanted)
    };
    let lower: Vec<DraftId> = drafts
        .links(upper)
        .iter()
        .map(|link| link.to)
        .filter(|node| is_lower(drafts, *node))
        .collect();
    drafts
        .links_mut(upper)
        .retain(|link| !lower.contains(&link.to));
    for switch in lower {
        for link in drafts.links(switch).to_vec() {
            if link.to == upper {
                continue;
            }
            drafts.links_mut(upper).push(link);
            drafts.move_under(link.to, upper);
            if let Some(back) = drafts
                .links_mut(link.to)
                .iter_mut()
                .find(|back| back.to == switch)
            {
                *back = DraftLink {
                    to: upper,
                    link: back.link,
                };
            }
        }
        drafts.remove(switch);
    }
    if let NodeData::Pci { device_code } = &mut drafts.node_mut(upper).data {
        *device_code |= FLATTENED;
    }
}
