//! The searched graphs of rank 0.

use plan::nccl_graph::{GpuAddress, GraphFile};
use plan::{Expansion, Graph, GraphKind, Plan, PlannedMachine};

use crate::nccl_log::compare::answer::Answer;
use crate::nccl_log::compare::tally::{Tally, list};

/// Relative difference of bandwidths that a rounded text may have.
const ROUNDING: f32 = 1e-4;

pub(super) fn compare(answer: &Answer, plan: &Plan, expansion: &Expansion, tally: &mut Tally) {
    let Some(text) = &answer.graphs else {
        tally.absent("this NCCL cannot write them: it has no word for a path in them");
        return;
    };
    let file = match GraphFile::parse("NCCL's graphs", text) {
        Ok(file) => file,
        Err(error) => {
            tally.lacking(&error.to_string());
            return;
        }
    };
    let layout = expansion.layout();
    let Some(node) = layout.rank(0).map(|first| first.node) else {
        return;
    };
    let machine = plan.machines.get(node.machine as usize);
    let group = machine.and_then(|machine| machine.groups.get(node.index as usize));
    // Graphs of a plan name a GPU by its number in the machine, NCCL by its rank.
    let number_of = |rank: i32| {
        let place = u32::try_from(rank).ok().and_then(|rank| layout.rank(rank));
        let place = place.filter(|place| place.node == node);
        place.map_or(-1, |place| place.local as i32)
    };
    let gpus = machine.map(PlannedMachine::gpu_addresses);
    let gpus = gpus.unwrap_or_default().into_iter();
    let gpus = gpus.map(|gpu| GpuAddress {
        rank: layout.rank_at(node, gpu.rank as u32) as i32,
        ..gpu
    });
    let gpus: Vec<GpuAddress> = gpus.collect();
    for kind in GraphKind::IN_SEARCH_ORDER {
        let planned = group.and_then(|group| group.graphs.iter().find(|it| it.kind == kind));
        match file.graph(kind, &gpus, true) {
            Err(error) => tally.differ(format!("{kind} graph"), error, "a graph of these GPUs"),
            Ok(mut found) => {
                let channels = found.graph.iter_mut().flat_map(|it| &mut it.channels);
                for rank in channels.flat_map(|channel| &mut channel.ranks) {
                    *rank = number_of(*rank);
                }
                graph(kind, found.graph.as_ref(), planned, tally);
            }
        }
    }
}

fn channels(graph: Option<&Graph>) -> usize {
    graph.map_or(0, |graph| graph.channels.len())
}

fn graph(kind: GraphKind, said: Option<&Graph>, planned: Option<&Graph>, tally: &mut Tally) {
    let counts = (channels(said), channels(planned));
    let what = format!("{kind} channels");
    tally.compare(what, &counts.0, &counts.1, usize::to_string);
    let (Some(said), Some(planned)) = (said, planned) else {
        return;
    };
    if counts.0 == 0 || counts.1 == 0 {
        return;
    }
    let what = |what: &str| format!("{kind} {what}");
    let numbers = [
        ("bandwidth inside, GB/s", said.bw_intra, planned.bw_intra),
        ("bandwidth outside, GB/s", said.bw_inter, planned.bw_inter),
    ];
    for (name, said, planned) in numbers {
        match (said - planned).abs() <= ROUNDING * planned.abs() {
            true => tally.agree(),
            false => tally.differ(what(name), said, planned),
        }
    }
    let types = [
        ("worst path inside", said.type_intra, planned.type_intra),
        ("worst path outside", said.type_inter, planned.type_inter),
    ];
    for (name, said, planned) in types {
        tally.compare(what(name), &said, &planned, |it| it.name().to_owned());
    }
    let patterns = (said.pattern, planned.pattern);
    tally.compare(what("pattern"), &patterns.0, &patterns.1, |it| {
        it.name().to_owned()
    });
    let crossing = (said.cross_nic, planned.cross_nic);
    tally.compare(
        what("NIC crossing"),
        &crossing.0,
        &crossing.1,
        i32::to_string,
    );
    let same = (said.same_channels, planned.same_channels);
    tally.compare(what("equal channels"), &same.0, &same.1, bool::to_string);
    // Of a channel of NVLink SHARP only the head has a meaning.
    let most = match kind {
        GraphKind::Nvls => 1,
        _ => usize::MAX,
    };
    for (at, (said, planned)) in said.channels.iter().zip(&planned.channels).enumerate() {
        let ranks = |ranks: &[i32]| ranks[..ranks.len().min(most)].to_vec();
        let ranks = (ranks(&said.ranks), ranks(&planned.ranks));
        let order = what(&format!("channel {at}, ranks"));
        tally.compare(order, &ranks.0[..], &ranks.1[..], list);
        let nets = (said.nets, planned.nets);
        tally.compare(
            what(&format!("channel {at}, ports")),
            &nets.0,
            &nets.1,
            |it| it.map_or_else(|| "none".to_owned(), |nets| list(&nets)),
        );
    }
}
