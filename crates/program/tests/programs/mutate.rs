//! Small random changes to programs, most of them for the worse.

use super::vocabulary::{BufferKind, ConnectionEnd, Operand, Program, Step};

/// One change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    /// Which program, lane, part and step, and what is done to it; each is taken modulo what there
    /// is.
    pub picks: [usize; 8],
}

/// Applies a change.
pub(crate) fn mutate(programs: &mut [Program], change: Change) {
    let [rank, lane, part, step, what, which, amount, side] = change.picks;
    let ranks = programs.len();
    let program = &mut programs[rank % ranks];
    let (pieces, all) = (program.pieces, program.ranks);
    let lanes = program.lanes.len();
    if lanes == 0 {
        return;
    }
    if what % 16 == 15 {
        let other = program.lanes[(lane + 1) % lanes].body.clone();
        program.lanes[lane % lanes].body.extend(other);
        return;
    }
    let lane = &mut program.lanes[lane % lanes];
    // The body is what matters most.
    let steps = match part % 6 {
        0 => &mut lane.prologue,
        1 => &mut lane.epilogue,
        _ => &mut lane.body,
    };
    if steps.is_empty() {
        return;
    }
    let (count, at) = (steps.len(), step % steps.len());
    match what % 16 {
        0 => drop(steps.remove(at)),
        1 => steps.insert(at, steps[at].clone()),
        2 => steps.swap(at, (at + 1) % count),
        3 => steps.swap(at, amount % count),
        4 => steps.reverse(),
        5 => steps.rotate_left(amount % count),
        _ => change_step(&mut steps[at], what % 16, which, amount, side, pieces, all),
    }
}

fn change_step(
    step: &mut Step,
    what: usize,
    which: usize,
    amount: usize,
    side: usize,
    pieces: u16,
    ranks: u32,
) {
    let small = u16::try_from(amount % 5).unwrap_or(0);
    let peer = u32::from(small) % ranks;
    let operands = if side.is_multiple_of(2) {
        &mut step.sources
    } else {
        &mut step.destinations
    };
    let signals = if side.is_multiple_of(2) {
        &mut step.waits
    } else {
        &mut step.notifies
    };
    match what {
        6 => step.pieces.first = small % pieces.max(1),
        7 => step.finish = !step.finish,
        8 if !operands.is_empty() => drop(operands.remove(which % operands.len())),
        9 if !signals.is_empty() => drop(signals.remove(which % signals.len())),
        10 => signals.push(ConnectionEnd {
            peer,
            channel: 0,
            port: 0,
        }),
        11 => operands.push(Operand::local(buffer(which), peer)),
        12 => operands.push(Operand::peer(peer, buffer(which), peer)),
        13 => operands.reverse(),
        _ => {
            let count = operands.len().max(1);
            let Some(operand) = operands.get_mut(which % count) else {
                return;
            };
            match operand {
                Operand::Local {
                    buffer: memory,
                    block,
                } => {
                    *memory = buffer(amount);
                    *block = u32::from(small) % ranks.min(2);
                }
                Operand::Peer { rank, block, .. } => {
                    (*rank, *block) = (peer, if small > 2 { *block } else { peer });
                }
                Operand::Multicast { block, .. } => *block = peer,
                Operand::Fifo(connection) => connection.peer = peer,
            }
        }
    }
}

fn buffer(number: usize) -> BufferKind {
    [BufferKind::Input, BufferKind::Output, BufferKind::Scratch][number % 3]
}
