//! Faults in what is moved and reduced.

use program::Collective;
use program::verify::VerifyFault;
use program::{Operand, Pieces, Schedule, Transfer};

use super::*;

pub(super) const SEEDS: &[Seed] = &[
    Seed {
        name: "a step dropped at one end",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| drop(body(programs, 2, 0).remove(1)),
        refused: |fault| matches!(fault, VerifyFault::Unbalanced { part: "body", .. }),
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
                VerifyFault::Output {
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
        refused: |fault| matches!(fault, VerifyFault::OtherPieces { .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Output { .. }),
        names: &["of rank 3; expected", "rank 1: block"],
    },
    Seed {
        name: "the wrong chunk, sent",
        case: RING,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 3, 0)[0].pieces = Pieces::one(3),
        refused: |fault| matches!(fault, VerifyFault::OtherPieces { .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Output { piece: 0 | 1, .. }),
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
                VerifyFault::Reduces {
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
        refused: |fault| matches!(fault, VerifyFault::NoBlock { blocks: 4, .. }),
        names: &["block 4 of the own input", "rank 2 has 4 blocks"],
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
                VerifyFault::Reduces {
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
        refused: |fault| {
            matches!(
                fault,
                VerifyFault::Nothing { .. } | VerifyFault::Reduces { .. }
            )
        },
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
        refused: |fault| matches!(fault, VerifyFault::Output { .. }),
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
                VerifyFault::Finishes {
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
                VerifyFault::Finishes {
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
        refused: |fault| matches!(fault, VerifyFault::WritesInput),
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
        refused: |fault| matches!(fault, VerifyFault::InputLost { .. }),
        names: &["rank 4", "no longer the input"],
    },
    Seed {
        name: "the input read as output, without pre-multiplication",
        case: RING_IN_PLACE,
        ranks: 3,
        slots: 8,
        break_it: |programs| body(programs, 0, 0)[0].sources = vec![Operand::output(0)],
        refused: |fault| matches!(fault, VerifyFault::Unscaled { .. }),
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
        refused: |fault| matches!(fault, VerifyFault::Output { .. }),
        names: &["AllToAll by bruck"],
    },
    Seed {
        name: "a piece that nobody reduces",
        case: TWO_PHASE,
        ranks: 4,
        slots: 8,
        break_it: |programs| body(programs, 3, 0).clear(),
        refused: |fault| matches!(fault, VerifyFault::Output { piece: 3, .. }),
        names: &["ends as nothing"],
    },
];
