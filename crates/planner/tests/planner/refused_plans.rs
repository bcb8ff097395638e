//! Plans with a contradiction in any part are refused.

use crate::common::equal;
use plan::{Error, GpuTransport, Plan, PlanContent, RankOrder};

fn sound() -> PlanContent {
    let planned = crate::common::plan(&equal("dgx-h100", 4), &[]);
    PlanContent::clone(planned.expect("NCCL plans it").plan())
}

/// Changes a plan and returns why it is refused.
fn refusal(change: impl FnOnce(&mut PlanContent)) -> String {
    let mut plan = sound();
    change(&mut plan);
    let Err(error @ Error::Inconsistent { .. }) = Plan::new(plan) else {
        panic!("taken as it is");
    };
    error.to_string()
}

macro_rules! common {
    ($plan:ident) => {
        $plan.common.as_mut().expect("joined")
    };
}

macro_rules! transports {
    ($plan:ident) => {
        $plan.machines[0].groups[0]
            .transports
            .as_mut()
            .expect("transports")
    };
}

/// A part of the reason, and the change that is refused for it.
type Contradiction = (&'static str, fn(&mut PlanContent));

const CONTRADICTIONS: &[Contradiction] = &[
    ("common.channels.base: there is no channel 200", |plan| {
        common!(plan).channels.base[0] = 200
    }),
    ("common.channels.base: there are 65 channels", |plan| {
        common!(plan).channels.base.resize(65, 0)
    }),
    ("common.channels.searched: it is 3", |plan| {
        common!(plan).channels.searched = 3
    }),
    ("common.p2p.channels: it is 3", |plan| {
        common!(plan).p2p.channels = 3
    }),
    ("common.p2p.per_peer: it is 0", |plan| {
        common!(plan).p2p.per_peer = 0
    }),
    ("do not fall into rounds of 0", |plan| {
        common!(plan).p2p.group = 0
    }),
    ("do not fall into rounds of 3", |plan| {
        common!(plan).p2p.group = 3
    }),
    ("8 NVLS heads, but all nodes have 9", |plan| {
        common!(plan).nvls.as_mut().expect("NVLS").heads = 9
    }),
    ("common.nvls.channels: it is 65", |plan| {
        common!(plan).nvls.as_mut().expect("NVLS").channels = 65
    }),
    (
        "its ring graph has 8 channels, but all nodes have 9",
        |plan| common!(plan).graphs[0].channels = 9,
    ),
    ("common.graphs[ring].bw_intra: inf", |plan| {
        common!(plan).graphs[0].bw_intra = f32::INFINITY
    }),
    ("machines[0].groups[0]: it has no transports", |plan| {
        plan.machines[0].groups[0].transports = None
    }),
    ("machines[0].groups: they hold 0 of 8 GPUs", |plan| {
        plan.machines[0].groups.clear()
    }),
    ("transports.between: there is no way 7", |plan| {
        transports!(plan).between[0][1] = 7
    }),
    ("transports.between: expected 8 rows of 8 GPUs", |plan| {
        transports!(plan).between[3].truncate(2)
    }),
    ("transports.ways[0]: the GPU in between", |plan| {
        let distinct = &mut transports!(plan).distinct;
        let GpuTransport::Direct { via, .. } = &mut distinct[0] else {
            panic!("NVLink")
        };
        *via = Some(8);
    }),
    ("transports.ports[0]: a GPU is not in the group", |plan| {
        transports!(plan).ports[0].net = 99
    }),
    ("ports are not in the order", |plan| {
        transports!(plan).ports.swap(0, 1)
    }),
    ("transports.p2p[0]: it names no port", |plan| {
        transports!(plan).p2p[0].own.clear()
    }),
    ("transports.p2p[0]: it names no port", |plan| {
        transports!(plan).p2p[0].rails[0].ports[0].net = 99
    }),
    ("transports.per_peer: it is 3", |plan| {
        transports!(plan).per_peer = Some(3)
    }),
    ("does not hold each of the 8 GPUs once", |plan| {
        let group = &mut plan.machines[0].groups[0];
        group.graphs[0].channels[0].ranks[1] = 0;
        group.paths.clear();
    }),
    ("rank_order: the rank order has 3 entries", |plan| {
        plan.rank_order = Some(RankOrder::new(0..3))
    }),
    ("rank_order: the rank order names GPU 1 twice", |plan| {
        plan.rank_order = Some(RankOrder::new((0..31).chain([1])));
    }),
    ("costs.job.ranks: it is 7, but should be 32", |plan| {
        plan.costs.as_mut().expect("costs").job.ranks = 7;
    }),
    ("is listed twice", |plan| {
        let entries = &mut plan.costs.as_mut().expect("costs").entries;
        entries.push(entries[0]);
    }),
];

#[test]
fn contradictions_are_refused_with_their_place() {
    for (expected, change) in CONTRADICTIONS {
        let found = refusal(change);
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn a_plan_of_machines_alone_has_no_ranks_to_show() {
    let mut plan = sound();
    plan.common = None;
    let plan = Plan::new(plan).expect("machines are a plan");
    let read = Plan::from_json(&plan.to_json().expect("text")).expect("a plan");
    assert_eq!(read.expansion().err(), Some(Error::NotJoined));
    let sound = Plan::new(sound()).expect("a plan");
    assert!(matches!(
        sound.expansion().expect("joined").rank_view(32),
        Err(Error::NoSuchRank {
            rank: 32,
            ranks: 32
        })
    ));
}
