//! Compares the decisions about the whole job.

use plan::expand::{Above, TreePlace};
use plan::{Gdr, Nvls};
use planner::JobPlan;
use serde_json::Value;
use topology::{NcclId, NodeType};

use super::compare::{self, Difference};

pub(super) fn check(
    joined: &JobPlan,
    nvlink_domain: bool,
    expected: &Value,
) -> Result<(), Difference> {
    check_counts(joined, nvlink_domain, expected)?;
    check_graphs(joined, &expected["graphInfo"])
        .map_err(|difference| difference.within("graphInfo"))?;
    check_rings(joined, &expected["rings"])?;
    check_trees(joined, expected)?;
    check_nvls(joined, &expected["nvls"])?;
    check_collnet(joined, expected)?;
    check_ring_nets(joined, &expected["ringNets"])?;
    check_schedule(joined, &expected["p2pScheduleRank0"])
}

fn check_counts(joined: &JobPlan, nvlink_domain: bool, expected: &Value) -> Result<(), Difference> {
    let (layout, facts, p2p) = (joined.layout(), &joined.facts, joined.common().p2p);
    let nvls = joined.common().nvls;
    let numbers = [
        ("nRanks", i64::from(layout.ranks())),
        ("nNodes", i64::from(layout.nodes())),
        ("nChannels", i64::from(joined.common().channels.count())),
        ("collChannels", i64::from(joined.common().channels.count())),
        ("nvlsSupport", i64::from(nvls.is_some())),
        (
            "nvlsChannels",
            nvls.map_or(0, |nvls| i64::from(nvls.channels)),
        ),
        ("nvlsChunkSize", nvls.map_or(0, |nvls| nvls.chunk_size)),
        (
            "nvlsTreeMaxChunkSize",
            nvls.map_or(0, |nvls| nvls.tree_max_chunk_size),
        ),
        ("p2pnChannels", i64::from(p2p.channels)),
        ("p2pnChannelsPerPeer", i64::from(p2p.per_peer)),
        ("p2pChunkSize", p2p.chunk_size),
        ("isAllNvlink", i64::from(facts.all_nvlink)),
        ("maxTreePattern", facts.max_tree_pattern as i64),
        ("minCompCap", i64::from(facts.sm_min)),
        ("maxCompCap", i64::from(facts.sm_max)),
        ("minNetCount", i64::from(facts.min_net_count)),
        ("MNNVL", i64::from(nvlink_domain)),
    ];
    for (name, mine) in numbers {
        compare::integer(name, mine, &expected[name])?;
    }
    compare::float("minNetBw", facts.min_net_bw, &expected["minNetBw"])?;
    let buffers = joined.common().buffers;
    integers(
        "buffSizes",
        [buffers.ll, buffers.ll128, buffers.simple],
        &expected["buffSizes"],
    )?;
    let nodes = (0..layout.ranks()).map(|rank| {
        layout
            .rank(rank)
            .map_or(-1, |place| i64::from(place.node.node))
    });
    integers("rankToNode", nodes, &expected["rankToNode"])
}

fn integers(
    name: &str,
    mine: impl IntoIterator<Item = i64>,
    expected: &Value,
) -> Result<(), Difference> {
    let mine: Vec<i64> = mine.into_iter().collect();
    let theirs = expected.as_array().map(|theirs| {
        theirs
            .iter()
            .map(|value| value.as_i64().unwrap_or(i64::MIN))
    });
    if theirs.is_some_and(|theirs| theirs.eq(mine.iter().copied())) {
        return Ok(());
    }
    Err(Difference::new(
        name,
        format!("{mine:?}"),
        expected.to_string(),
    ))
}

fn or_none(rank: Option<u32>) -> i64 {
    rank.map_or(-1, i64::from)
}

/// Compares the number of entries of a list per channel.
fn check_length(name: &str, mine: u32, expected: &Value) -> Result<(), Difference> {
    compare::integer(
        &format!("{name}.length"),
        i64::from(mine),
        &Value::from(expected.as_array().map_or(0, Vec::len)),
    )
}

fn check_graphs(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    for (kind, key) in compare::GRAPHS {
        let (graph, theirs) = (joined.facts.graph(kind), &expected[key]);
        let compared = compare::graph!(graph, graph.channels, theirs);
        compared.map_err(|difference: Difference| difference.within(key))?;
    }
    Ok(())
}

fn check_rings(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    let channels = joined.common().channels.count();
    check_length("rings", channels, expected)?;
    for channel in 0..channels {
        let name = format!("rings[{channel}]");
        integers(
            &name,
            joined.expansion.ring(channel).map(i64::from),
            &expected[channel as usize],
        )?;
        // A single rank's place must agree with the whole ring.
        let ring: Vec<u32> = joined.expansion.ring(channel).collect();
        for (index, rank) in ring.iter().enumerate() {
            let place = joined
                .expansion
                .ring_place(*rank, channel)
                .map(|place| (place.previous, place.next, place.index));
            let around = |step: usize| ring[(index + step) % ring.len()];
            if place != Some((around(ring.len() - 1), around(1), index as u32)) {
                return Err(Difference::new(
                    format!("{name} at rank {rank}"),
                    format!("{place:?}"),
                    "the ring's own",
                ));
            }
        }
    }
    Ok(())
}

fn check_trees(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    type Part = (&'static str, fn(TreePlace) -> Option<u32>);
    let parts: [Part; 4] = [
        ("treeUp", |place| place.up),
        ("treeDown0", |place| place.down[0]),
        ("treeDown1", |place| place.down[1]),
        ("treeDown2", |place| place.down[2]),
    ];
    let channels = joined.common().channels.count();
    for (name, part) in parts {
        check_length(name, channels, &expected[name])?;
        for channel in 0..channels {
            let ranks = 0..joined.layout().ranks();
            let mine = ranks
                .map(|rank| or_none(joined.expansion.tree_place(rank, channel).and_then(part)));
            integers(
                &format!("{name}[{channel}]"),
                mine,
                &expected[name][channel as usize],
            )?;
        }
    }
    let depths = (0..channels).map(|_| i64::from(joined.expansion.tree_depth()));
    integers("treeDepth", depths, &expected["treeDepth"])
}

fn check_nvls(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    let theirs = expected.as_array().map_or(&[][..], Vec::as_slice);
    let ranks = joined.layout().ranks();
    let mine = joined
        .common()
        .nvls
        .filter(|nvls| nvls.channels > 0)
        .map_or(0, |_| ranks);
    check_length("nvls", mine, expected)?;
    for theirs in theirs {
        let rank = theirs["rank"].as_u64().unwrap_or(u64::MAX) as u32;
        let (Some(nvls), Some(place)) = (joined.common().nvls, joined.expansion.nvls_place(rank))
        else {
            return Err(Difference::new(
                format!("nvls of rank {rank}"),
                "none",
                theirs.to_string(),
            ));
        };
        let compared = || {
            compare::integer("nHeads", i64::from(nvls.heads), &theirs["nHeads"])?;
            compare::integer("headRank", or_none(place.head), &theirs["headRank"])?;
            let out = if joined.common().collnet && place.head.is_some() {
                i64::from(ranks)
            } else {
                -1
            };
            compare::integer("out", out, &theirs["out"])?;
            integers("treeUp", place.tree_up.map(or_none), &theirs["treeUp"])?;
            for tree in 0..2 {
                // The first entry is the switch, if there is a tree.
                let switch = place
                    .head
                    .map_or(ranks, |head| Nvls::pseudo_rank(ranks, head));
                let first = if joined.layout().nodes() > 1 {
                    i64::from(switch)
                } else {
                    -1
                };
                let [left, right] = place.tree_down[tree].map(or_none);
                integers("treeDown", [first, left, right], &theirs["treeDown"][tree])?;
            }
            Ok(())
        };
        compared()
            .map_err(|difference: Difference| difference.within(&format!("nvls of rank {rank}")))?;
    }
    Ok(())
}

fn check_collnet(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    compare::integer(
        "collnetEnable",
        i64::from(joined.common().collnet),
        &expected["collnetEnable"],
    )?;
    compare::integer(
        "collNetChainSupport",
        i64::from(joined.expansion.chains_reach_network(0)),
        &expected["collNetChainSupport"],
    )?;
    if !joined.common().collnet {
        return Ok(());
    }
    let ranks = joined.layout().ranks();
    for channel in 0..joined.common().channels.count() {
        let place = |rank| joined.expansion.chain_place(rank, channel);
        let up = |rank| match place(rank).and_then(|place| place.up) {
            None => -1,
            Some(Above::Network) => i64::from(ranks),
            Some(Above::Rank(rank)) => i64::from(rank),
        };
        let down = |rank| or_none(place(rank).and_then(|place| place.down));
        let of = |name: &str| format!("{name}[{channel}]");
        integers(
            &of("collnetChainUp"),
            (0..ranks).map(up),
            &expected["collnetChainUp"][channel as usize],
        )?;
        integers(
            &of("collnetChainDown0"),
            (0..ranks).map(down),
            &expected["collnetChainDown0"][channel as usize],
        )?;
    }
    integers(
        "collnetHeads",
        joined.expansion.collnet_heads(0).into_iter().map(i64::from),
        &expected["collnetHeads"],
    )
}

fn check_ring_nets(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    let theirs = expected.as_array().map_or(&[][..], Vec::as_slice);
    let members: Vec<u32> = joined
        .layout()
        .node(0)
        .map(|node| joined.layout().ranks_of(node))
        .unwrap_or_default();
    let system = joined
        .layout()
        .node(0)
        .map(|node| joined.node_plan(node).view.system());
    let dev = |id: i64| {
        let net =
            system.and_then(|system| system.net(system.find(NodeType::Net, NcclId(id as u64))?));
        net.map_or(-1, |net| i64::from(net.dev))
    };
    let mut index = 0;
    for rank in members {
        let edges = joined.expansion.ring_edges(rank).map_err(|error| {
            Difference::new(
                format!("ringNets of rank {rank}"),
                error.to_string(),
                "ports",
            )
        })?;
        for edge in edges {
            let Some(theirs) = theirs.get(index) else {
                return Err(Difference::new("ringNets", format!("{edge:?}"), "no more"));
            };
            let compared = || {
                compare::integer("rank", i64::from(rank), &theirs["rank"])?;
                compare::integer("channel", i64::from(edge.channel), &theirs["channel"])?;
                compare::integer("peer", i64::from(edge.peer), &theirs["peer"])?;
                compare::text(
                    "dir",
                    if edge.sends { "send" } else { "recv" },
                    &theirs["dir"],
                )?;
                compare::text("netId", &format!("{:#x}", edge.net.net), &theirs["netId"])?;
                compare::integer("netDev", dev(edge.net.net), &theirs["netDev"])?;
                compare::integer("proxyRank", i64::from(edge.net.proxy), &theirs["proxyRank"])?;
                let gdr = match edge.net.gdr {
                    Gdr::Host(_) => 0,
                    Gdr::Direct => 1,
                    Gdr::Pci => 2,
                };
                compare::integer("gdr", gdr, &theirs["gdr"])
            };
            compared().map_err(|difference| difference.within(&format!("ringNets[{index}]")))?;
            index += 1;
        }
    }
    check_length("ringNets", index as u32, expected)
}

fn check_schedule(joined: &JobPlan, expected: &Value) -> Result<(), Difference> {
    let theirs = expected.as_array().map_or(&[][..], Vec::as_slice);
    let mine: Vec<_> = joined.expansion.schedule(0).collect();
    check_length("p2pScheduleRank0", mine.len() as u32, expected)?;
    for (index, (round, theirs)) in mine.iter().zip(theirs).enumerate() {
        let name = format!("p2pScheduleRank0[{index}]");
        integers(
            &name,
            [i64::from(round.send), i64::from(round.receive)],
            theirs,
        )?;
    }
    Ok(())
}
