//! The searched graphs of rank 0.

use plan::nccl_graph::{GpuAddress, GraphFile};
use plan::{Graph, GraphKind, Plan};

use crate::answer::Answer;
use crate::tally::{Tally, list};

/// Relative difference of bandwidths that a rounded text may have.
const ROUNDING: f32 = 1e-4;

pub(super) fn compare(answer: &Answer, plan: &Plan, tally: &mut Tally) {
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
    let machine = plan.machines.first();
    let gpus = machine.iter().flat_map(|machine| &machine.gpus);
    let gpus = gpus.map(|gpu| GpuAddress {
        rank: gpu.rank as i32,
        host: gpu.host,
        dev: gpu.dev,
    });
    let gpus: Vec<GpuAddress> = gpus.collect();
    let groups = machine.map_or(&[][..], |machine| &machine.groups);
    let group = groups.iter().find(|group| group.ranks.contains(&0));
    for kind in GraphKind::IN_SEARCH_ORDER {
        let planned = group.and_then(|group| group.graphs.iter().find(|it| it.kind == kind));
        match file.graph(kind, &gpus, true) {
            Err(error) => tally.differ(format!("{kind} graph"), error, "a graph of these GPUs"),
            Ok(found) => graph(kind, found.graph.as_ref(), planned, tally),
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
