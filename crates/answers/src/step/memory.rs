//! The memory of a step's communicators on a GPU, and the multicast slots that they take.

use plan::Algorithm;
use planner::Planned;
use planner::memory::{MULTICAST_SLOTS, MemorySettings, MemoryUse, of_node};
use serde::Serialize;

use super::shapes::Alike;
use crate::JsonSchema;
use crate::communicators::{Limit, MOST_NODES};

/// What the communicators of a group take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupMemory {
    /// Bytes on a GPU for its communicator.
    pub device_bytes: u64,
    /// Bytes on the host for it.
    pub host_bytes: u64,
    /// Multicast objects on the first host, or in the first NVLink domain.
    pub multicast_objects: u32,
}

/// Counts what the communicators of a group take: `plans` are those of its shapes.
pub(super) fn of_group(
    alike: &[Alike],
    plans: &[&Planned],
    algorithms: &[Algorithm],
    peers: bool,
) -> Result<GroupMemory, plan::Error> {
    let mut found = GroupMemory::default();
    let usage = MemoryUse {
        algorithms: algorithms.to_vec(),
        peers,
    };
    for (alike, planned) in alike.iter().zip(plans) {
        let settings = planned.settings.as_ref();
        let memory = MemorySettings::of(settings);
        let expansion = planned.plan().expansion()?;
        let layout = expansion.layout();
        let nodes = (0..layout.nodes().min(MOST_NODES)).filter_map(|node| layout.node(node));
        for node in nodes {
            let memory = of_node(expansion, node, &usage, &memory, settings.rules)?;
            if node.node == 0 {
                let objects: u32 = memory.multicast_objects.values().sum();
                found.multicast_objects += objects * alike.near;
            }
            for ledger in memory.ranks.values() {
                let total = ledger.total(|_| true);
                found.device_bytes = found.device_bytes.max(total.device);
                found.host_bytes = found.host_bytes.max(total.host);
            }
        }
    }
    Ok(found)
}

/// What is bounded, of all groups together; that which runs out first is first. `room` is what a
/// GPU has for communicators, bytes; 0: unknown.
pub(super) fn limits(groups: impl Iterator<Item = GroupMemory>, room: u64) -> Vec<Limit> {
    let (mut objects, mut device) = (0u64, 0u64);
    for group in groups {
        objects += u64::from(group.multicast_objects);
        device += group.device_bytes;
    }
    Limit::ordered([
        Limit {
            name: "multicast slots",
            taken: objects,
            room: MULTICAST_SLOTS.into(),
        },
        Limit {
            name: "GPU memory",
            taken: device,
            room,
        },
    ])
}
