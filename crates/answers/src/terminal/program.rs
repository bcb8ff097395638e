//! A program as a page: its lanes, step by step, in NCCL's words.

use pages::Page;
use program::Collective;
use program::verify::VerifiedProgram;
use program::{BufferKind, ConnectionEnd, Lane, Operand, Pieces, Program, Step, Transfer};

use super::{Look, count, group, ranges, wrap};

/// Where the operands of a step begin.
const OPERANDS: usize = 30;

/// The program of one rank.
pub fn page(verified: &VerifiedProgram, transfer: Transfer, look: Look) -> Page {
    let program = verified.program();
    let mut page = head(verified, transfer);
    if program.lanes.is_empty() {
        page.section("", "").lines("\nNothing to do.\n");
    }
    for (lanes, numbers) in alike(program, look) {
        let name = if numbers.len() == 1 {
            "Channel"
        } else {
            "Channels"
        };
        let numbers = ranges(&numbers, " ");
        page.section(format!("{name} {numbers}"), "").lines(lanes);
    }
    page
}

fn head(verified: &VerifiedProgram, transfer: Transfer) -> Page {
    let program = verified.program();
    let of = match program.collective {
        collective if collective.has_root() => format!(", root {}", program.root),
        Collective::SendRecv => format!(", from rank {}", program.root),
        _ => String::new(),
    };
    let title = format!(
        "{} by {} ({transfer}): rank {} of {}{of}",
        program.collective, program.schedule, program.rank, program.ranks
    );
    let mut page = Page::new(title);
    let place = if program.in_place {
        "in place"
    } else {
        "out of place"
    };
    let windows = format!(
        "{place}; each window of a channel's share is cut into {}",
        count(program.pieces.into(), "piece")
    );
    page.field("message", windows);
    if program.scratch_blocks > 0 {
        let scratch = format!(
            "{} of one window per channel",
            count(program.scratch_blocks as usize, "block")
        );
        page.field("scratch", scratch);
    }
    let proved = format!(
        "data flow, deadlock and races, of all ranks together, for any message, with FIFOs of {} slots or more",
        verified.fifo_slots()
    );
    page.field("proved", proved);
    page
}

/// The lanes of each channel, channels that read alike together.
fn alike(program: &Program, look: Look) -> Vec<(String, Vec<i32>)> {
    group((0..program.channels).filter_map(|channel| {
        let own = program.lanes.iter().filter(|lane| lane.channel == channel);
        let lanes: Vec<&Lane> = own.collect();
        if lanes.is_empty() {
            return None;
        }
        let mut text = String::new();
        for (number, lane) in lanes.iter().enumerate() {
            if lanes.len() > 1 {
                text.push_str(&format!("  lane {number}\n"));
            }
            text.push_str(&lane_text(program, lane, lanes.len() > 1, look));
        }
        Some((text, i32::from(channel)))
    }))
}

fn lane_text(program: &Program, lane: &Lane, nested: bool, look: Look) -> String {
    let indent = if nested { "    " } else { "  " };
    let mut text = String::new();
    for (part, steps) in [
        ("before the turns", &lane.prologue),
        ("in each turn", &lane.body),
        ("after the turns", &lane.epilogue),
    ] {
        if steps.is_empty() {
            continue;
        }
        text.push_str(&format!("{indent}{}\n", look.faint(part)));
        for step in steps {
            let name = format!("{indent}  {}", step.primitive());
            let words = step_text(program, lane.channel, step);
            let first = format!("{name:<width$}", width = OPERANDS + indent.len());
            let later = " ".repeat(OPERANDS + indent.len() + 2);
            text.push_str(&wrap(&words, &first, &later, look.width));
        }
    }
    text
}

/// ` piece 3   recv 2 + input → output, send 4; final`.
fn step_text(program: &Program, channel: u16, step: &Step) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !step.waits.is_empty() {
        parts.push(format!("awaits {}", signals(&step.waits)));
    }
    if !step.sources.is_empty() {
        let words = |operands: &[Operand], separator| {
            let words = operands
                .iter()
                .map(|operand| operand_text(program, channel, operand));
            words.collect::<Vec<_>>().join(separator)
        };
        let pieces = match step.pieces {
            _ if program.pieces == 1 => String::new(),
            Pieces { first, count: 1 } => format!(" piece {first}: "),
            Pieces { first, count } => format!(" pieces {first}-{}: ", first + count - 1),
        };
        let (from, to) = (words(&step.sources, " + "), words(&step.destinations, ", "));
        let last = if step.finish { " (final)" } else { "" };
        parts.push(format!("{pieces}{from} → {to}{last}"));
    }
    if !step.notifies.is_empty() {
        parts.push(format!("signals {}", signals(&step.notifies)));
    }
    format!(" {}", parts.join("; "))
}

fn signals(signals: &[ConnectionEnd]) -> String {
    let names: Vec<String> = signals
        .iter()
        .map(|signal| format!("rank {}", signal.peer))
        .collect();
    names.join(", ")
}

fn operand_text(program: &Program, channel: u16, operand: &Operand) -> String {
    let block = |buffer: BufferKind, block: u32| {
        let name = match buffer {
            BufferKind::Input => "input",
            BufferKind::Output => "output",
            BufferKind::Scratch => "scratch",
        };
        // A single block needs no number.
        let single = match buffer {
            BufferKind::Scratch => program.scratch_blocks < 2,
            BufferKind::Input => matches!(
                program.collective,
                Collective::AllGather | Collective::Gather
            ),
            BufferKind::Output => {
                matches!(
                    program.collective,
                    Collective::ReduceScatter | Collective::Scatter
                )
            }
        } || (buffer != BufferKind::Scratch && !program.collective.splits_message());
        if single {
            name.to_owned()
        } else {
            format!("{name}[{block}]")
        }
    };
    match operand {
        Operand::Local { buffer, block: at } => block(*buffer, *at),
        Operand::Peer {
            rank,
            buffer,
            block: at,
        } => format!("rank {rank}'s {}", block(*buffer, *at)),
        Operand::Multicast { buffer, block: at } => {
            format!("all ranks' {}", block(*buffer, *at))
        }
        Operand::Fifo(there) => {
            let mut name = format!("FIFO {}", there.peer);
            if there.port > 0 && program.collective != Collective::SendRecv {
                name.push_str(&format!(" (port {})", there.port));
            }
            if there.channel != channel {
                name.push_str(&format!(" (channel {})", there.channel));
            }
            name
        }
    }
}
