//! Seeded faults: each is one change to programs that are right, and each must be refused for the right reason.

use plan::Collective;
use plan::program::{
    Buffer, Channels, Connection, Lane, Operand, Pieces, Program, Schedule, Step, Transfer,
};
use plan::verify::{Fault, verify};

use crate::cases::Case;

/// One fault.
struct Seed {
    name: &'static str,
    case: Case,
    ranks: u32,
    /// Slots of a FIFO.
    slots: u32,
    break_it: fn(&mut Vec<Program>),
    /// Whether the reason is the right one.
    refused: fn(&Fault) -> bool,
    /// What the text names, too.
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

const fn signal(peer: u32) -> Connection {
    Connection {
        peer,
        channel: 0,
        port: 0,
    }
}

const SEEDS: &[Seed] = &[
    Seed {
        name: "a step dropped at one end",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| drop(body(programs, 2, 0).remove(1)),
        refused: |fault| matches!(fault, Fault::Unbalanced { part: "body", .. }),
        names: &[
            "AllReduce by ring with 4 ranks",
            "channel 0, lane 0",
            "from rank",
        ],
    },
    Seed {
        name: "a step dropped that has no other end",
        case: EXCHANGE,
        ranks: 3,
        slots: 8,
        break_it: |programs| {
            body(programs, 1, 0).retain(|step| step.sources != [Operand::input(1)])
        },
        refused: |fault| {
            matches!(
                fault,
                Fault::Output {
                    block: 1,
                    turn: 0,
                    ..
                }
            )
        },
        names: &[
            "rank 1: block 1, piece 0",
            "ends as nothing",
            "expected block 1",
        ],
    },
    Seed {
        name: "two steps swapped",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 1, 0).swap(1, 2),
        refused: |fault| matches!(fault, Fault::OtherPieces { .. }),
        names: &[
            "rank 1, channel 0, lane 0, turn 0, step 1",
            "expected piece",
        ],
    },
    Seed {
        name: "two blocks swapped on the way",
        case: GATHER_RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            let body = body(programs, 1, 0);
            let (first, second) = (body[1].destinations[0], body[2].destinations[0]);
            (body[1].destinations[0], body[2].destinations[0]) = (second, first);
        },
        refused: |fault| matches!(fault, Fault::Output { .. }),
        names: &["of rank 3; expected", "rank 1: block"],
    },
    Seed {
        name: "the wrong peer",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[1].destinations = vec![fifo(2)],
        refused: |fault| matches!(fault, Fault::Unbalanced { .. }),
        names: &["from rank 0 to rank"],
    },
    Seed {
        name: "a peer that does not exist",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[1].destinations = vec![fifo(4)],
        refused: |fault| matches!(fault, Fault::Limit(_)),
        names: &["rank 0, channel 0, lane 0, turn 0, step 1", "rank 4"],
    },
    Seed {
        name: "the wrong chunk, sent",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 3, 0)[0].pieces = Pieces::one(3),
        refused: |fault| matches!(fault, Fault::OtherPieces { .. }),
        names: &["rank 0", "holds piece 3"],
    },
    Seed {
        name: "the wrong chunk, at both ends",
        case: case(
            Collective::AllReduce,
            Schedule::TwoPhaseMesh,
            Transfer::Fifo,
            false,
        ),
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            body(programs, 0, 0)[0].pieces = Pieces::one(0);
            body(programs, 1, 0)[1].pieces = Pieces::one(0);
            body(programs, 0, 0)[2].pieces = Pieces::one(0);
        },
        refused: |fault| matches!(fault, Fault::Output { piece: 0 | 1, .. }),
        names: &["of the output ends as"],
    },
    Seed {
        name: "the wrong block of the input",
        case: SCATTER_RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 2, 0)[1].sources[1] = Operand::input(3),
        refused: |fault| {
            matches!(
                fault,
                Fault::Reduces {
                    expected: "the same block, piece and turn",
                    ..
                }
            )
        },
        names: &["ReduceScatter", "rank 2, channel 0, lane 0, turn 0, step 1"],
    },
    Seed {
        name: "a block that does not exist",
        case: SCATTER_RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 2, 0)[1].sources[1] = Operand::input(4),
        refused: |fault| matches!(fault, Fault::NoBlock { blocks: 4, .. }),
        names: &["block 4 of the own input", "rank 2 has 4 blocks"],
    },
    Seed {
        name: "one credit too few",
        case: RING,
        ranks: 3,
        slots: 1,
        break_it: |_| (),
        refused: |fault| matches!(fault, Fault::Deadlock { depth: 1, .. }),
        names: &["waits for room in the FIFO from rank 0 to rank 1"],
    },
    Seed {
        name: "more sent ahead than there are credits",
        case: case(
            Collective::AllGather,
            Schedule::RecursiveDoubling,
            Transfer::Fifo,
            false,
        ),
        ranks: 16,
        slots: 7,
        break_it: |programs| {
            // The last exchange: first everything is given, then everything taken.
            for program in programs {
                let body = &mut program.lanes[0].body;
                body[14..].sort_by_key(|step| step.sources[0].is_fifo());
            }
        },
        refused: |fault| matches!(fault, Fault::Deadlock { depth: 7, .. }),
        names: &["waits for room", "rank 8"],
    },
    Seed {
        name: "the order of a lane reversed",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            for program in programs {
                program.lanes[0].body.reverse();
            }
        },
        refused: |fault| matches!(fault, Fault::Deadlock { .. }),
        names: &["waits for a slot of the FIFO"],
    },
    Seed {
        name: "the order of one lane of two reversed",
        case: HALVING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 1, 0).reverse(),
        refused: |fault| {
            matches!(
                fault,
                Fault::Deadlock { .. } | Fault::OtherPieces { .. } | Fault::Nothing { .. }
            )
        },
        names: &["AllReduce by halving-doubling"],
    },
    Seed {
        name: "receiving before sending, everywhere",
        case: MESH,
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            for program in programs {
                program.lanes[0].body.swap(0, 1);
            }
        },
        refused: |fault| matches!(fault, Fault::Deadlock { .. }),
        names: &[
            "rank 0, lane 0, turn 0, step 0 waits for a slot",
            "rank 1, lane 0",
        ],
    },
    Seed {
        name: "two lanes joined into one, downward first",
        case: TREE,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            let up = programs[2].lanes.remove(0);
            programs[2].lanes[0].body.extend(up.body);
        },
        refused: |fault| matches!(fault, Fault::Deadlock { .. }),
        names: &["rank 2", "rank 0"],
    },
    Seed {
        name: "two lanes at one end of a FIFO",
        case: TREE,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            let lanes = &mut programs[2].lanes;
            let split: Vec<Step> = vec![lanes[1].body[0].clone()];
            lanes.push(Lane {
                channel: 0,
                prologue: Vec::new(),
                body: split,
                epilogue: Vec::new(),
            });
        },
        refused: |fault| {
            matches!(
                fault,
                Fault::SharedEnd {
                    other: 1,
                    end: "receiving",
                    ..
                }
            )
        },
        names: &["rank 2, channel 0, lane 2"],
    },
    Seed {
        name: "a signal missing before the turns",
        case: DIRECT,
        ranks: 3,
        slots: 8,
        break_it: |programs| programs[1].lanes[0].prologue[0].notifies.truncate(1),
        refused: |fault| {
            matches!(
                fault,
                Fault::Unbalanced {
                    what: "signal",
                    part: "prologue",
                    ..
                }
            )
        },
        names: &["signal from rank 1 to rank 0"],
    },
    Seed {
        name: "a wait missing before the turns",
        case: DIRECT,
        ranks: 3,
        slots: 8,
        break_it: |programs| {
            // The signal is taken in the end instead, so that the numbers fit.
            let lane = &mut programs[1].lanes[0];
            let wait = lane.prologue[1].waits.remove(0);
            lane.epilogue[1].waits.push(wait);
        },
        refused: |fault| matches!(fault, Fault::TooEarly { peer: 2, .. }),
        names: &["rank 1", "block 0 of rank 2's input"],
    },
    Seed {
        name: "no epilogue",
        case: DIRECT,
        ranks: 3,
        slots: 8,
        break_it: |programs| {
            for program in programs {
                program.lanes[0].epilogue.clear();
            }
        },
        refused: |fault| matches!(fault, Fault::TooLate { .. }),
        names: &["turn 0, step 0", "whose launch may end before that"],
    },
    Seed {
        name: "a signal missing in the epilogue, at both ends",
        case: TWO_PHASE,
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            programs[0].lanes[0]
                .epilogue
                .retain(|step| step.notifies.is_empty());
            programs[1].lanes[0]
                .epilogue
                .retain(|step| step.waits.is_empty());
        },
        refused: |fault| matches!(fault, Fault::TooLate { peer: 1 }),
        names: &["rank 0, channel 0, lane 0"],
    },
    Seed {
        name: "scratch memory used again too early",
        case: DIRECT_IN_PLACE,
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            for program in programs {
                let lane = &mut program.lanes[0];
                // The signal that a turn is done goes after all turns.
                let notifies = std::mem::take(&mut lane.body[1].notifies);
                let waits = lane.body.pop().expect("the wait").waits;
                lane.epilogue.push(step(vec![], notifies));
                lane.epilogue.push(step(waits, vec![]));
            }
        },
        refused: |fault| {
            matches!(
                fault,
                Fault::Race {
                    access: "reads",
                    other_access: "write",
                    ..
                }
            )
        },
        names: &[
            "rank 1, lane 0, turn 1, step 0 may write",
            "block 0 of rank 1's scratch",
        ],
    },
    Seed {
        name: "an extra reduction",
        case: MESH,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            let body = body(programs, 2, 0);
            let mut again = body[1].clone();
            again.sources = vec![Operand::output(0), Operand::input(0)];
            body[1].finish = false;
            body.push(again);
        },
        refused: |fault| {
            matches!(
                fault,
                Fault::Reduces {
                    expected: "each rank's input only once",
                    ..
                }
            )
        },
        names: &[
            "rank 2, channel 0, lane 0, turn 0, step 2",
            "all ranks with",
        ],
    },
    Seed {
        name: "a reduction in a collective that reduces nothing",
        case: CHAIN,
        ranks: 3,
        slots: 8,
        break_it: |programs| body(programs, 1, 0)[0].sources.push(Operand::output(0)),
        refused: |fault| matches!(fault, Fault::Nothing { .. } | Fault::Reduces { .. }),
        names: &["Broadcast", "rank 1"],
    },
    Seed {
        name: "a missing finish",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            for step in body(programs, 1, 0) {
                step.finish = false;
            }
        },
        refused: |fault| matches!(fault, Fault::Output { .. }),
        names: &["expected final"],
    },
    Seed {
        name: "a finish too early",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 1, 0)[1].finish = true,
        refused: |fault| {
            matches!(
                fault,
                Fault::Finishes {
                    expected: "the reduction of all ranks",
                    ..
                }
            )
        },
        names: &["rank 1, channel 0, lane 0, turn 0, step 1"],
    },
    Seed {
        name: "finished twice",
        case: TREE,
        ranks: 2,
        slots: 8,
        break_it: |programs| body(programs, 1, 1)[0].finish = true,
        refused: |fault| {
            matches!(
                fault,
                Fault::Finishes {
                    expected: "that it is done once",
                    ..
                }
            )
        },
        names: &["rank 1, channel 0, lane 1"],
    },
    Seed {
        name: "the input written",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 1, 0)[5].destinations[0] = Operand::input(0),
        refused: |fault| matches!(fault, Fault::WritesInput),
        names: &["rank 1", "step 5"],
    },
    Seed {
        name: "the input overwritten in place before it is read",
        case: case(Collective::AllReduce, Schedule::Mesh, Transfer::Fifo, true),
        ranks: 5,
        slots: 8,
        break_it: |programs| {
            for step in body(programs, 4, 0) {
                for operand in step.sources.iter_mut().chain(&mut step.destinations) {
                    if *operand == Operand::scratch(0) {
                        *operand = Operand::output(0);
                    }
                }
            }
        },
        refused: |fault| matches!(fault, Fault::InputLost { .. }),
        names: &["rank 4", "no longer the input"],
    },
    Seed {
        name: "the input read as output, without pre-multiplication",
        case: RING_IN_PLACE,
        ranks: 3,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[0].sources = vec![Operand::output(0)],
        refused: |fault| matches!(fault, Fault::Unscaled { .. }),
        names: &["rank 0", "step 0"],
    },
    Seed {
        name: "scratch memory overwritten before it is sent on",
        case: BRUCK,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            for step in body(programs, 0, 0) {
                for operand in step.sources.iter_mut().chain(&mut step.destinations) {
                    if *operand == Operand::scratch(2) {
                        *operand = Operand::scratch(0);
                    }
                }
            }
        },
        refused: |fault| matches!(fault, Fault::Output { .. }),
        names: &["AllToAll by bruck"],
    },
    Seed {
        name: "a piece that nobody reduces",
        case: TWO_PHASE,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 3, 0).clear(),
        refused: |fault| matches!(fault, Fault::Output { piece: 3, .. }),
        names: &["ends as nothing"],
    },
    Seed {
        name: "a piece that two ranks write",
        case: TWO_PHASE,
        ranks: 3,
        slots: 8,
        break_it: |programs| {
            let mut again = programs[1].lanes[0].body[0].clone();
            again.pieces = Pieces::one(2);
            programs[1].lanes[0].body.push(again);
        },
        refused: |fault| {
            matches!(
                fault,
                Fault::Race {
                    other_access: "write",
                    ..
                }
            )
        },
        names: &["piece 2", "at the same time"],
    },
    Seed {
        name: "a peer's output read while it is written",
        case: DIRECT,
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            body(programs, 0, 0)[0].sources = vec![Operand::peer(1, Buffer::Output, 0)];
            body(programs, 0, 0)[0].finish = false;
        },
        refused: |fault| matches!(fault, Fault::Nothing { .. } | Fault::Race { .. }),
        names: &["rank 1"],
    },
    Seed {
        name: "too many FIFOs in a step",
        case: MESH,
        ranks: 5,
        slots: 8,
        break_it: |programs| {
            let body = body(programs, 0, 0);
            let more = body.remove(1);
            body[0].destinations.extend(more.destinations);
        },
        refused: |fault| matches!(fault, Fault::Limit(_)),
        names: &["1 sources, 4 destinations", "at most 3 of each from FIFOs"],
    },
    Seed {
        name: "more pieces in a slot than the program says",
        case: HALVING,
        ranks: 4,
        slots: 8,
        break_it: |programs| {
            for program in programs {
                program.fifo_pieces = 1;
            }
        },
        refused: |fault| matches!(fault, Fault::Limit(_)),
        names: &["2 pieces through a FIFO"],
    },
    Seed {
        name: "another layout of scratch memory at one rank",
        case: BRUCK,
        ranks: 4,
        slots: 8,
        break_it: |programs| programs[2].scratch_blocks += 1,
        refused: |fault| matches!(fault, Fault::Together(_)),
        names: &["rank 2"],
    },
    Seed {
        name: "a rank missing",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| drop(programs.pop()),
        refused: |fault| matches!(fault, Fault::Together(_)),
        names: &["3 programs; expected 4"],
    },
    Seed {
        name: "data outside of the turns",
        case: MESH,
        ranks: 2,
        slots: 8,
        break_it: |programs| {
            let lane = &mut programs[0].lanes[0];
            let step = lane.body.remove(0);
            lane.prologue.push(step);
        },
        refused: |fault| matches!(fault, Fault::Limit(_)),
        names: &["prologue, step 0", "signals only"],
    },
];

fn step(waits: Vec<Connection>, notifies: Vec<Connection>) -> Step {
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
    for seed in SEEDS {
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
