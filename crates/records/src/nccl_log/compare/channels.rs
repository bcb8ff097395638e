//! Numbers of channels, rings, trees, NVLink SHARP.

use plan::Expansion;

use crate::nccl_log::compare::answer::{Answer, Neighbors};
use crate::nccl_log::compare::tally::{Tally, list, rank};

pub(super) fn counts(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    let common = expansion.common();
    let show = |number: &u32| number.to_string();
    if let Some(nodes) = answer.nodes {
        tally.compare("nodes", &nodes, &expansion.layout().nodes(), show);
    }
    let Some(counts) = answer.channels else {
        tally.lacking("NCCL does not say its channels");
        return;
    };
    tally.compare(
        "collectives",
        &counts.collectives,
        &expansion.channels(),
        show,
    );
    tally.compare("point to point", &counts.p2p, &common.p2p.channels, show);
    let per_peer = "point to point per peer";
    tally.compare(per_peer, &counts.per_peer, &common.p2p.per_peer, show);
    if let Some(chunk) = answer.p2p_chunk {
        let what = "chunk of point-to-point transfers, bytes";
        tally.compare(what, &chunk, &common.p2p.chunk_size, i64::to_string);
    }
    if let Some(nvls) = common.nvls {
        tally.compare("NVLS", &counts.nvls, &nvls.channels, show);
        if let Some(said) = answer.nvls {
            let planned = [
                i64::from(nvls.channels),
                nvls.chunk_size,
                nvls.tree_max_chunk_size,
            ];
            let what = "NVLS channels, chunk, largest chunk of trees";
            tally.compare(what, &said[..], &planned[..], list);
        }
    }
}

pub(super) fn rings(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    if answer.rings.is_empty() {
        return;
    }
    let said = answer.rings.len();
    let planned = expansion.channels() as usize;
    // The numbers of channels say the same, where a line of a ring may be lost.
    if !(answer.is_partial && answer.channels.is_some()) {
        tally.compare("number of rings", &said, &planned, usize::to_string);
    }
    for (channel, said) in &answer.rings {
        let mut planned: Vec<u32> = expansion.ring(*channel).collect();
        if answer.cut_rings.contains(channel) {
            planned.truncate(said.len());
        }
        let what = format!("ring of channel {channel}");
        tally.compare(what, said.as_slice(), &planned, list);
    }
    if !answer.cut_rings.is_empty() {
        tally.absent("NCCL logs the first ranks of a ring only");
    }
}

fn show(neighbors: &Neighbors) -> String {
    let down = neighbors.down.map(rank);
    format!("above {}, below {}", rank(neighbors.up), list(&down))
}

pub(super) fn trees(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    for ((channel, of), said) in &answer.trees {
        let what = format!("tree of channel {channel} at rank {of}");
        match expansion.tree_place(*of, *channel) {
            Some(place) => {
                let planned = Neighbors {
                    up: place.up,
                    down: place.down,
                };
                tally.compare(what, said, &planned, show);
            }
            None => tally.differ(what, show(said), "no such channel"),
        }
    }
    if answer.trees_cut {
        tally.absent("NCCL's log line is too short for the last channels");
    }
}

pub(super) fn nvls(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    let layout = expansion.layout();
    let planned = expansion.common().nvls.filter(|nvls| nvls.heads > 0);
    if planned.is_none() && answer.nvls_heads.is_empty() {
        tally.absent("the job has no NVLink SHARP over nodes");
        return;
    }
    if layout.nodes() == 1 {
        tally.absent("NCCL names no heads of a single node");
        return;
    }
    if answer.is_partial && answer.nvls_heads.is_empty() {
        return;
    }
    let heads = planned.map_or(0, |nvls| nvls.heads as usize);
    let said = answer.nvls_heads.len();
    tally.compare("number of heads", &said, &heads, usize::to_string);
    for (head, said) in &answer.nvls_heads {
        let is_head = |rank: &u32| {
            let place = expansion.nvls_place(*rank);
            place.is_some_and(|place| place.head == Some(*head))
        };
        let planned: Vec<u32> = (0..layout.ranks()).filter(is_head).collect();
        tally.compare(format!("head {head}"), said.as_slice(), &planned, list);
    }
    for (of, said) in &answer.nvls_trees {
        let Some(place) = expansion.nvls_place(*of).filter(|it| it.head.is_some()) else {
            continue;
        };
        for (tree, said) in said.iter().enumerate() {
            // The first one below is the switch.
            let [left, right] = place.tree_down[tree];
            let planned = Neighbors {
                up: place.tree_up[tree],
                down: [said.down[0], left, right],
            };
            let what = format!("NVLS tree {tree} at rank {of}");
            tally.compare(what, said, &planned, show);
        }
    }
}
