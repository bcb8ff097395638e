//! Seeded faults: each is one change to programs that are right, and each must be refused for the
//! right reason.

use program::Collective;
use program::verify::{VerifyFault, verify};
use program::{Channels, ConnectionEnd, Operand, Pieces, Program, Schedule, Step, Transfer};

use crate::cases::Case;

mod data;
mod order;

/// One fault.
struct Seed {
    name: &'static str,
    case: Case,
    ranks: u32,
    /// Slots of a FIFO.
    slots: u32,
    break_it: fn(&mut Vec<Program>),
    /// Whether the reason is the right one.
    refused: fn(&VerifyFault) -> bool,
    /// The other words of the text.
    names: &'static [&'static str],
}

const fn case(
    collective: Collective,
    schedule: Schedule,
    transfer: Transfer,
    in_place: bool,
) -> Case {
    Case {
        collective,
        schedule,
        transfer,
        root: 0,
        in_place,
        registered: false,
    }
}

const RING: Case = case(Collective::AllReduce, Schedule::Ring, Transfer::Fifo, false);
const RING_IN_PLACE: Case = case(Collective::AllReduce, Schedule::Ring, Transfer::Fifo, true);
const SCATTER_RING: Case = case(
    Collective::ReduceScatter,
    Schedule::Ring,
    Transfer::Fifo,
    false,
);
const GATHER_RING: Case = case(Collective::AllGather, Schedule::Ring, Transfer::Fifo, false);
const TREE: Case = case(Collective::AllReduce, Schedule::Tree, Transfer::Fifo, false);
const MESH: Case = case(Collective::AllReduce, Schedule::Mesh, Transfer::Fifo, false);
const DIRECT: Case = case(
    Collective::AllReduce,
    Schedule::Mesh,
    Transfer::Direct,
    false,
);
const DIRECT_IN_PLACE: Case = case(
    Collective::AllReduce,
    Schedule::Mesh,
    Transfer::Direct,
    true,
);
const TWO_PHASE: Case = case(
    Collective::AllReduce,
    Schedule::TwoPhaseMesh,
    Transfer::Direct,
    false,
);
const EXCHANGE: Case = case(Collective::AllToAll, Schedule::Mesh, Transfer::Fifo, false);
const BRUCK: Case = case(Collective::AllToAll, Schedule::Bruck, Transfer::Fifo, true);
const HALVING: Case = case(
    Collective::AllReduce,
    Schedule::HalvingDoubling,
    Transfer::Fifo,
    false,
);
const CHAIN: Case = case(Collective::Broadcast, Schedule::Ring, Transfer::Fifo, false);

fn body(programs: &mut [Program], rank: usize, lane: usize) -> &mut Vec<Step> {
    &mut programs[rank].lanes[lane].body
}

fn fifo(peer: u32) -> Operand {
    Operand::Fifo(signal(peer))
}

const fn signal(peer: u32) -> ConnectionEnd {
    ConnectionEnd {
        peer,
        channel: 0,
        port: 0,
    }
}

fn step(waits: Vec<ConnectionEnd>, notifies: Vec<ConnectionEnd>) -> Step {
    Step {
        waits,
        pieces: Pieces::one(0),
        sources: Vec::new(),
        finish: false,
        destinations: Vec::new(),
        notifies,
    }
}

#[test]
fn every_seeded_fault_is_refused() {
    let mut problems = Vec::new();
    for seed in data::SEEDS.iter().chain(order::SEEDS) {
        let channels = Channels::plain(seed.ranks, 1).expect("few ranks");
        let mut programs = seed.case.lower(&channels).expect("served");
        let right = verify(programs.clone(), 8);
        assert!(right.is_ok(), "{}: not right before", seed.name);
        (seed.break_it)(&mut programs);
        let Err(error) = verify(programs, seed.slots) else {
            problems.push(format!("{}: not refused", seed.name));
            continue;
        };
        let text = error.to_string();
        let lacking: Vec<_> = seed
            .names
            .iter()
            .filter(|name| !text.contains(**name))
            .collect();
        if !(seed.refused)(&error.fault) || !lacking.is_empty() {
            problems.push(format!("{}: {text} (lacks {lacking:?})", seed.name));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
