//! Plans. A wrong checksum is corrected, so that the code after the check is reached. Then the plan
//! is used as by all commands.

use arbitrary::Unstructured;
use plan::cost::{Calls, DataType, TunedOperation};
use plan::nccl_graph::{self, GpuAddress};
use plan::{CostTable, Error, Expansion, GraphKind, NcclVersion, Plan, compare};
use planner::cost::{AlphaBeta, CostProfile};
use program::Collective;
use program::lower::{ProgramRequest, SendRecv, lower, send_recv};
use program::verify::verify;
use program::{MessageSize, Program, Schedule, Transfer};

use crate::input::{Depth, below, checked, flag, join, one, split};
use crate::jobs;

/// Most ranks of a job whose programs are written and proved.
const MOST_RANKS: u32 = 16;

/// Most channels of these programs.
const MOST_CHANNELS: usize = 2;

/// Most first ranks with a view.
const MOST_VIEWS: u32 = 4;

/// Most rounds of point-to-point transfers.
const MOST_ROUNDS: usize = 20;

/// Message sizes, bytes.
const SIZES: [u64; 6] = [1, 1 << 10, 1 << 16, 1 << 22, 1 << 32, i64::MAX as u64];

/// Plans of small jobs, without choices and with.
pub fn seeds() -> Vec<Vec<u8>> {
    let jobs = [
        ("workstation-2gpu-nvlink", 1, false),
        ("workstation-2gpu", 2, false),
        ("gh200", 1, false),
        ("gh200", 3, true),
        // The most ranks that NCCL can number, and 2 million.
        ("gh200", i32::MAX as u32, false),
        ("workstation-2gpu", 1 << 20, false),
        ("random-00181", 2, false),
        ("pcie-8gpu-nonet", 1, false),
    ];
    let texts = jobs.map(|(name, hosts, collnet)| {
        let plan = jobs::plan_of(name, hosts, collnet);
        plan.to_json().expect("a plan that was made can be written")
    });
    let mut seeds = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        seeds.push(text.clone().into_bytes());
        let choices: Vec<u8> = (0..24).map(|at| (at * 37 + number * 11) as u8).collect();
        seeds.push(join(text.as_bytes(), &choices));
    }
    seeds
}

/// Reads a plan and uses it.
///
/// # Panics
/// An accepted plan cannot be written or reads back differently, or the proof refuses a written
/// program.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let plan = match Plan::from_json(&text) {
        Err(Error::Changed { stated, found }) => {
            Plan::from_json(&text.replace(&stated.to_string(), &found.to_string()))
        }
        read => read,
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            let _ = error.to_string();
            return match error {
                Error::Inconsistent { .. } | Error::NotJoined => Depth::Inside,
                _ => Depth::Outside,
            };
        }
    };
    let text = plan.to_json().expect("a plan that was read can be written");
    let again = Plan::from_json(&text).expect("what was written can be read");
    assert_eq!(again, plan, "reading changed what was written");
    let _ = plan.rank_count();
    let same = compare::compare(&plan, &again, &SIZES).expect("a plan can be compared");
    assert!(same.is_empty(), "a plan differs from itself: {same:?}");
    if let Some(costs) = &plan.costs {
        price(&plan, costs);
    }
    graphs(&plan);
    if let Some(expansion) = checked(plan.expansion()) {
        views(expansion, &mut choices);
        programs(expansion, &mut choices);
    }
    Depth::Accepted
}

fn price(plan: &Plan, costs: &CostTable) {
    for collective in Collective::ALL {
        for bytes in SIZES {
            let operation = TunedOperation {
                calls: Calls {
                    number: 1 + (bytes % 7) as u32,
                    data_type: match bytes > 1 << 20 {
                        true => DataType::F8E4M3,
                        false => DataType::F32,
                    },
                    ..Calls::ONE
                },
                ..TunedOperation::new(collective, bytes)
            };
            if let Some(choice) = checked(costs.choose_for(&operation)) {
                for registered in [false, true] {
                    checked(costs.chunking(&choice, registered));
                }
            }
        }
    }
    let common = plan.common.as_ref();
    let Some(ring) = common.and_then(|common| common.graph(GraphKind::Ring)) else {
        return;
    };
    let profile = CostProfile::of(NcclVersion::V2_30);
    let model = AlphaBeta::of_ring(costs.job.nodes, &ring.into(), &profile);
    assert!(model.is_none_or(|it| it.bandwidth() > 0.0), "{model:?}");
}

/// Writes the graphs as NCCL's file.
fn graphs(plan: &Plan) {
    for machine in &plan.machines {
        let address = |gpu: &plan::MachineGpu| GpuAddress {
            rank: gpu.rank as i32,
            host: gpu.host,
            dev: gpu.dev,
        };
        let gpus: Vec<GpuAddress> = machine.gpus.iter().map(address).collect();
        for group in &machine.groups {
            checked(nccl_graph::write(&group.graphs, &gpus));
        }
    }
}

/// Makes the views of some ranks.
fn views(expansion: &Expansion, choices: &mut Unstructured<'_>) {
    let ranks = expansion.layout().ranks();
    let any = below(choices, ranks as usize) as u32;
    let last = ranks.saturating_sub(1);
    let firsts = 0..MOST_VIEWS.min(ranks);
    for rank in firsts.chain([any, last, ranks, u32::MAX]) {
        if let Some(view) = checked(expansion.rank_view(rank)) {
            drop(serde_json::to_string(&view).expect("a view can be written"));
        }
        let rounds: Vec<u32> = expansion
            .schedule(rank)
            .take(MOST_ROUNDS)
            .map(|round| round.send)
            .collect();
        for peer in rounds {
            let channel = below(choices, 64) as u32;
            checked(expansion.p2p_connection(rank, peer, channel));
        }
    }
}

/// Writes the programs of one collective. The proof must accept them for all channels.
fn programs(expansion: &Expansion, choices: &mut Unstructured<'_>) {
    let ranks = expansion.layout().ranks();
    if ranks > MOST_RANKS {
        return;
    }
    let Some(channels) = checked(expansion.program_channels()) else {
        return;
    };
    let channels = channels.take(MOST_CHANNELS);
    let collective = one(choices, &Collective::ALL);
    let transfer = one(choices, &Transfer::ALL);
    let root = below(choices, ranks as usize) as u32;
    let in_place = flag(choices);
    let programs: Option<Vec<Program>> = if collective == Collective::SendRecv {
        let to = below(choices, ranks as usize) as u32;
        let bytes = one(choices, &SIZES);
        let Some(planned) = checked(expansion.transfer_channels(root, to, bytes)) else {
            return;
        };
        let request = SendRecv {
            ranks,
            from: root,
            to,
            channels: &planned,
            transfer,
            in_place,
        };
        checked(send_recv(&request))
    } else {
        let request = ProgramRequest {
            collective,
            schedule: one(choices, &Schedule::ALL),
            transfer,
            root: if collective.has_root() { root } else { 0 },
            in_place,
            channels: &channels,
        };
        checked(lower(&request))
    };
    let Some(programs) = programs else { return };
    let slots = one(choices, &[2, 8]);
    let verified = verify(programs, slots).unwrap_or_else(|error| panic!("{error}"));
    let message = MessageSize {
        count: one(choices, &SIZES),
        element_bytes: one(choices, &[0, 1, 2, 4, 8, 3]),
        slot_bytes: one(choices, &[0, 8, 4096, 1 << 20]),
        piece_bytes: one(choices, &[0, 1, 1000, 1 << 20]),
    };
    for program in &verified {
        checked(program.bind(&message));
    }
}
