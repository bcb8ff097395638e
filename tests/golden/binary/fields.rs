//! Compares the fields of an answer, except costs and choices.

use plan::expand::TreePlace;
use plan::{Algorithm, Nvls};
use planner::Planned;
use program::Protocol;
use serde_json::Value;
use topology::{CpuArch, CpuModel, CpuVendor, LinkType};

use super::{Answer, Field, choices};
use crate::compare::{self, Difference, decimal};
use crate::same;

type FieldCheck = Result<(), Difference>;

/// Compares a field; `None` if the answer does not have it.
pub(super) fn check(field: Field, planned: &Planned, answer: &Answer) -> Option<FieldCheck> {
    let value = &answer.value;
    let there = |name: &str| value.get(name);
    Some(match field {
        Field::Outcome => return None,
        Field::System => system(planned, there("system")?),
        Field::Searched => searched(planned, there("searched")?),
        Field::Graph => graph(planned, &answer.graph_file()?),
        Field::Nodes => nodes(planned, there("nodes")?, there("nvlink_domains")),
        Field::Channels => channels(planned, there("channels")?),
        Field::Chunks => chunks(planned, there("p2p_chunk_size")?, there("nvls")),
        Field::Threads => threads(planned, there("thread_thresholds")?),
        Field::Rings => rings(planned, there("rings")?),
        Field::Trees => trees(planned, there("trees")?, there("trees_cut").is_some()),
        Field::Nvls => nvls(planned, there("nvls_heads")?, &value["nvls_trees"]),
        Field::Model => choices::model(planned, there("model")?),
        Field::Costs => choices::costs(planned, there("choices")?),
        Field::Choices => choices::choices(planned, there("choices")?),
        Field::ChoiceChannels => choices::channels(planned, there("choices")?),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn numbers(value: &Value) -> impl Iterator<Item = i64> {
    list(value).iter().filter_map(Value::as_i64)
}

fn or_none(rank: Option<u32>) -> i64 {
    rank.map_or(-1, i64::from)
}

fn system(planned: &Planned, expected: &Value) -> FieldCheck {
    let view = &planned.node(0).view;
    decimal("max_bw", view.max_bw, &expected["max_bw"])?;
    decimal("total_bw", view.total_bw, &expected["total_bw"])?;
    let system = view.system();
    for (node, cpu) in system.cpus() {
        let id = system.node(node).id;
        let name = format!("{:x}-{:x}", id.system(), id.local());
        let arch = match cpu.arch {
            CpuArch::X86 => 1,
            CpuArch::Power => 2,
            CpuArch::Arm => 3,
            CpuArch::Unknown => 0,
        };
        let vendor = match cpu.vendor {
            _ if cpu.arch != CpuArch::X86 => -1,
            CpuVendor::Intel => 1,
            CpuVendor::Amd => 2,
            CpuVendor::Zhaoxin => 3,
            CpuVendor::Unknown => 0,
        };
        let model = match cpu.model {
            CpuModel::IntelBroadwell | CpuModel::AmdRome | CpuModel::ZhaoxinYongfeng => 1,
            CpuModel::IntelSkylake | CpuModel::AmdMilan => 2,
            CpuModel::IntelSapphireRapids | CpuModel::AmdTurin => 3,
            CpuModel::IntelEmeraldRapids => 4,
            _ => -1,
        };
        let theirs = &expected["cpus"][&name];
        same(
            &format!("cpus.{name}"),
            &[arch, vendor, model],
            numbers(theirs),
        )?;
    }
    let mut between: Vec<f32> = system
        .cpus()
        .flat_map(|(cpu, _)| system.links(cpu))
        .map(|link| system.link(link))
        .filter(|link| link.kind == LinkType::Sys)
        .map(|link| link.bw)
        .collect();
    between.sort_by(f32::total_cmp);
    between.dedup();
    let theirs = list(&expected["between_cpus"]);
    if between.len() != theirs.len() {
        let (mine, theirs) = (format!("{between:?}"), format!("{theirs:?}"));
        return Err(Difference::new("between_cpus", mine, theirs));
    }
    for (mine, theirs) in between.iter().zip(theirs) {
        decimal("between_cpus", *mine, theirs)?;
    }
    Ok(())
}

fn searched(planned: &Planned, expected: &Value) -> FieldCheck {
    let graphs = &planned.node(0).graphs;
    let theirs = list(expected);
    compare::integer(
        "searched.length",
        graphs.len() as i64,
        &Value::from(theirs.len()),
    )?;
    for (graph, theirs) in graphs.iter().zip(theirs) {
        let compared = || {
            compare::integer("pattern", graph.pattern as i64, &theirs["pattern"])?;
            compare::integer(
                "cross_nic",
                i64::from(graph.cross_nic),
                &theirs["cross_nic"],
            )?;
            compare::integer("channels", graph.channels.len() as i64, &theirs["channels"])?;
            decimal("bw intra", graph.bw_intra, &theirs["bw"][0])?;
            decimal("bw inter", graph.bw_inter, &theirs["bw"][1])?;
            let types = format!("{}/{}", graph.type_intra, graph.type_inter);
            compare::text("type", &types, &theirs["type"])?;
            let same = i64::from(graph.same_channels);
            compare::integer("same_channels", same, &theirs["same_channels"])
        };
        compared().map_err(|difference: Difference| difference.within(graph.kind.name()))?;
    }
    Ok(())
}

fn graph(planned: &Planned, expected: &str) -> FieldCheck {
    let mine = planned
        .graph_dump()
        .map_err(|error| Difference::new("graph", error.to_string(), "a file"))?;
    let lines = mine.lines().zip(expected.lines()).enumerate();
    for (number, (mine, theirs)) in lines {
        if mine != theirs {
            let name = format!("line {}", number + 1);
            return Err(Difference::new(name, mine.trim(), theirs.trim()));
        }
    }
    let (mine, theirs) = (mine.lines().count(), expected.lines().count());
    compare::integer("lines", mine as i64, &Value::from(theirs))
}

fn nodes(planned: &Planned, nodes: &Value, domains: Option<&Value>) -> FieldCheck {
    let mine = i64::from(planned.job.layout().nodes());
    compare::integer("nodes", mine, nodes)?;
    let Some(domains) = domains else {
        return Ok(());
    };
    let facts = &planned.job.facts;
    let of = |name: &str| format!("nvlink_domains.{name}");
    compare::integer(&of("count"), mine, &domains["count"])?;
    let (least, most) = (facts.min_local_ranks, facts.max_local_ranks);
    compare::integer(
        &of("least_ranks"),
        i64::from(least),
        &domains["least_ranks"],
    )?;
    compare::integer(&of("most_ranks"), i64::from(most), &domains["most_ranks"])
}

fn channels(planned: &Planned, expected: &Value) -> FieldCheck {
    let common = planned.job.common();
    let numbers = [
        ("coll", common.channels.count()),
        ("nvls", common.nvls.map_or(0, |nvls| nvls.channels)),
        ("p2p", common.p2p.channels),
        ("p2p_per_peer", common.p2p.per_peer),
    ];
    for (name, mine) in numbers {
        compare::integer(name, i64::from(mine), &expected[name])?;
    }
    Ok(())
}

fn chunks(planned: &Planned, p2p: &Value, nvls: Option<&Value>) -> FieldCheck {
    let common = planned.job.common();
    compare::integer("p2p_chunk_size", common.p2p.chunk_size, p2p)?;
    let (Some(mine), Some(theirs)) = (common.nvls, nvls) else {
        return Ok(());
    };
    let of = |name: &str| format!("nvls.{name}");
    compare::integer(&of("chunk_size"), mine.chunk_size, &theirs["chunk_size"])?;
    let tree = &theirs["tree_max_chunk_size"];
    compare::integer(&of("tree_max_chunk_size"), mine.tree_max_chunk_size, tree)
}

fn threads(planned: &Planned, expected: &Value) -> FieldCheck {
    let threshold = |algorithm, protocol: Protocol| {
        planned.costs.threads(algorithm).threshold[protocol as usize].to_string()
    };
    let all = |algorithm| {
        Protocol::ALL
            .map(|protocol| threshold(algorithm, protocol))
            .join("/")
    };
    let mine = [
        all(Algorithm::Tree),
        all(Algorithm::Ring),
        threshold(Algorithm::CollNetDirect, Protocol::Simple),
        threshold(Algorithm::CollNetChain, Protocol::Simple),
    ];
    compare::text("thread_thresholds", &mine.join(" | "), expected)
}

fn rings(planned: &Planned, expected: &Value) -> FieldCheck {
    let (job, theirs) = (&planned.job, list(expected));
    let count = job.common().channels.count();
    compare::integer("rings.length", i64::from(count), &Value::from(theirs.len()))?;
    for (channel, theirs) in (0..count).zip(theirs) {
        let ring: Vec<i64> = job.expansion.ring(channel).map(i64::from).collect();
        same(&format!("rings[{channel}]"), &ring, numbers(theirs))?;
    }
    Ok(())
}

fn trees(planned: &Planned, expected: &Value, cut: bool) -> FieldCheck {
    let (job, theirs) = (&planned.job, list(expected));
    let count = job.common().channels.count();
    if !cut {
        compare::integer("trees.length", i64::from(count), &Value::from(theirs.len()))?;
    }
    for (channel, theirs) in (0..count).zip(theirs) {
        let part = |part: &dyn Fn(TreePlace) -> Option<u32>| -> Vec<i64> {
            let place = |rank| job.expansion.tree_place(rank, channel);
            let ranks = 0..job.layout().ranks();
            ranks
                .map(|rank| or_none(place(rank).and_then(part)))
                .collect()
        };
        let name = |what: &str| format!("trees[{channel}].{what}");
        same(
            &name("up"),
            &part(&|place| place.up),
            numbers(&theirs["up"]),
        )?;
        for slot in 0..3 {
            let mine = part(&|place| place.down[slot]);
            let name = name(&format!("down[{slot}]"));
            same(&name, &mine, numbers(&theirs["down"][slot]))?;
        }
    }
    Ok(())
}

fn nvls(planned: &Planned, heads: &Value, trees: &Value) -> FieldCheck {
    let job = &planned.job;
    let ranks = job.layout().ranks();
    let several = job.layout().nodes() > 1;
    let place = |rank| job.expansion.nvls_place(rank);
    let count = job.common().nvls.map_or(0, |nvls| nvls.heads);
    compare::integer(
        "nvls_heads.length",
        i64::from(count),
        &Value::from(list(heads).len()),
    )?;
    for (head, theirs) in (0..count).zip(list(heads)) {
        let is_head = |rank: &u32| place(*rank).is_some_and(|place| place.head == Some(head));
        let mine: Vec<i64> = (0..ranks).filter(is_head).map(i64::from).collect();
        same(&format!("nvls_heads[{head}]"), &mine, numbers(theirs))?;
    }
    for (tree, theirs) in list(trees).iter().enumerate() {
        let name = |what: &str| format!("nvls_trees[{tree}].{what}");
        let up = (0..ranks).map(|rank| or_none(place(rank).and_then(|it| it.tree_up[tree])));
        same(&name("up"), &up.collect::<Vec<_>>(), numbers(&theirs["up"]))?;
        for slot in 0..3 {
            let down = |rank| {
                let place = place(rank)?;
                match slot {
                    0 if several => Some(
                        place
                            .head
                            .map_or(ranks, |head| Nvls::pseudo_rank(ranks, head)),
                    ),
                    0 => None,
                    _ => place.tree_down[tree][slot - 1],
                }
            };
            let mine: Vec<i64> = (0..ranks).map(|rank| or_none(down(rank))).collect();
            let name = name(&format!("down[{slot}]"));
            same(&name, &mine, numbers(&theirs["down"][slot]))?;
        }
    }
    Ok(())
}
