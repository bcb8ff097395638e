//! Faults in waits, and programs beyond the limits.

use program::Collective;
use program::verify::VerifyFault;
use program::{BufferKind, Lane, Operand, Pieces, Schedule, Step, Transfer};

use super::*;

pub(super) const SEEDS: &[Seed] = &[
    Seed {
        name: "the wrong peer",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[1].destinations = vec![fifo(2)],
        refused: |fault| matches!(fault, VerifyFault::Unbalanced { .. }),
        names: &["from rank 0 to rank"],
    },
    Seed {
        name: "a peer that does not exist",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[1].destinations = vec![fifo(4)],
        refused: |fault| matches!(fault, VerifyFault::Limit(_)),
        names: &["rank 0, channel 0, lane 0, turn 0, step 1", "rank 4"],
    },
    Seed {
        name: "one credit too few",
        case: RING,
        ranks: 3,
        slots: 1,
        break_it: |_| (),
        refused: |fault| matches!(fault, VerifyFault::Deadlock { depth: 1, .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Deadlock { depth: 7, .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Deadlock { .. }),
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
                VerifyFault::Deadlock { .. }
                    | VerifyFault::OtherPieces { .. }
                    | VerifyFault::Nothing { .. }
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
        refused: |fault| matches!(fault, VerifyFault::Deadlock { .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Deadlock { .. }),
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
                VerifyFault::SharedEnd {
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
                VerifyFault::Unbalanced {
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
            lane.epilogue[0].waits.push(wait);
        },
        refused: |fault| matches!(fault, VerifyFault::TooEarly { peer: 2, .. }),
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
        refused: |fault| matches!(fault, VerifyFault::TooLate { .. }),
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
        refused: |fault| matches!(fault, VerifyFault::TooLate { peer: 1 }),
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
                VerifyFault::Race {
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
                VerifyFault::Race {
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
            body(programs, 0, 0)[0].sources = vec![Operand::peer(1, BufferKind::Output, 0)];
            body(programs, 0, 0)[0].finish = false;
        },
        refused: |fault| {
            matches!(
                fault,
                VerifyFault::Nothing { .. } | VerifyFault::Race { .. }
            )
        },
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
        refused: |fault| matches!(fault, VerifyFault::Limit(_)),
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
        refused: |fault| matches!(fault, VerifyFault::Limit(_)),
        names: &["2 pieces through a FIFO"],
    },
    Seed {
        name: "another layout of scratch memory at one rank",
        case: BRUCK,
        ranks: 4,
        slots: 8,
        break_it: |programs| programs[2].scratch_blocks += 1,
        refused: |fault| matches!(fault, VerifyFault::Together(_)),
        names: &["rank 2"],
    },
    Seed {
        name: "a rank missing",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| drop(programs.pop()),
        refused: |fault| matches!(fault, VerifyFault::Together(_)),
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
        refused: |fault| matches!(fault, VerifyFault::Limit(_)),
        names: &["prologue, step 0", "signals only"],
    },
];
