//! Facts about the whole job: channels, trees, point-to-point transfers.

use plan::Expansion;

use pages::Section;
use pages::numbers::count;

/// Adds channels, trees and point-to-point transfers, a line each.
pub fn facts(section: &mut Section, job: &Expansion) {
    let (nodes, channels) = (job.layout().nodes() as usize, &job.common().channels);
    let repeated = if channels.count() == channels.searched {
        String::new()
    } else {
        format!(", made of the {} that were searched", channels.searched)
    };
    section.field(
        "channels",
        format!("{} for collectives{repeated}", channels.count()),
    );
    if nodes > 1 {
        section.field(
            "rings",
            format!(
                "through {} in order, in at one GPU and out at another",
                count(nodes, "node")
            ),
        );
    }
    section.field(
        "trees",
        format!(
            "{} deep{}",
            job.tree_depth(),
            if nodes > 1 {
                ", a double binary tree over the nodes"
            } else {
                ""
            }
        ),
    );
    if let Some(nvls) = job.common().nvls {
        section.field(
            "nvls",
            format!(
                "{}, {}, chunks of {} KiB",
                count(nvls.channels as usize, "channel"),
                count(nvls.heads as usize, "head"),
                nvls.chunk_size / 1024
            ),
        );
    }
    section.field(
        "p2p",
        format!(
            "{}, {} per peer, chunks of {} KiB",
            count(job.common().p2p.channels as usize, "channel"),
            per_peer(job),
            job.common().p2p.chunk_size / 1024
        ),
    );
}

/// Channels per peer; where nodes count their own, from the fewest to the most.
fn per_peer(job: &Expansion) -> String {
    let nodes = job.machines().iter().flatten();
    let own = nodes.map(|node| node.transports().per_peer);
    let own = own.map(|own| own.unwrap_or(job.common().p2p.per_peer));
    let range = own
        .map(|own| (own, own))
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    match range {
        Some((least, most)) if least < most => format!("{least} to {most}"),
        _ => job.common().p2p.per_peer.to_string(),
    }
}
