//! What holds for the whole job once its hosts are joined.

use planner::JobPlan;

use super::{Look, count};

/// Channels, trees and point-to-point transfers, a line each.
pub fn facts(joined: &JobPlan, look: Look) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text.push_str(&look.field(name, value));
    let (nodes, channels) = (joined.layout().nodes() as usize, &joined.common().channels);
    let repeated = if channels.count() == channels.searched {
        String::new()
    } else {
        format!(", made of the {} that were searched", channels.searched)
    };
    line(
        "channels",
        &format!("{} for collectives{repeated}", channels.count()),
    );
    if nodes > 1 {
        line(
            "rings",
            &format!(
                "through {} in order, in at one GPU and out at another",
                count(nodes, "node")
            ),
        );
    }
    line(
        "trees",
        &format!(
            "{} deep{}",
            joined.expansion.tree_depth(),
            if nodes > 1 {
                ", a double binary tree over the nodes"
            } else {
                ""
            }
        ),
    );
    if let Some(nvls) = joined.common().nvls {
        line(
            "nvls",
            &format!(
                "{}, {}, chunks of {} KiB",
                count(nvls.channels as usize, "channel"),
                count(nvls.heads as usize, "head"),
                nvls.chunk_size / 1024
            ),
        );
    }
    line(
        "p2p",
        &format!(
            "{}, {} per peer, chunks of {} KiB",
            count(joined.common().p2p.channels as usize, "channel"),
            joined.common().p2p.per_peer,
            joined.common().p2p.chunk_size / 1024
        ),
    );
    text
}
