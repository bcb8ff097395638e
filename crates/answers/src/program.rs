//! A rank's program.

use crate::JsonSchema;
use program::verify::VerifiedProgram;
use program::{BufferKind, Collective, ConnectionEnd, Lane, Operand, Step, Transfer};
use serde::Serialize;

use crate::report::Report;

/// The steps of one rank for a collective, proved together with the programs of all other ranks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProgramReport {
    /// The collective.
    collective: Collective,
    /// The algorithm.
    algorithm: &'static str,
    /// How data moves between ranks.
    transfer: &'static str,
    /// Ranks of the communicator.
    ranks: u32,
    /// The rank that runs the program.
    rank: u32,
    /// The root, or the sender of send-recv; 0 if the collective has no root.
    root: u32,
    /// The output is the input, or a block of it.
    in_place: bool,
    /// Channels that share each block of the message.
    channels: u16,
    /// Pieces into which each window of a channel's share is cut.
    pieces: u16,
    /// Scratch blocks of each channel, one window each.
    scratch_blocks: u32,
    /// Least slots of each FIFO for which the program is proved.
    fifo_slots: u32,
    /// They run concurrently.
    lanes: Vec<ShownLane>,
}

/// Steps that run one after the other.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownLane {
    /// Its channel.
    channel: u16,
    /// Steps before the turns.
    prologue: Vec<ShownStep>,
    /// Steps of each turn, which moves one window.
    body: Vec<ShownStep>,
    /// Steps after the turns.
    epilogue: Vec<ShownStep>,
}

/// A step: sources are reduced, and the result is stored in the destinations.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownStep {
    /// NCCL's name, such as `recvReduceSend`.
    primitive: String,
    /// Signals that the step awaits.
    awaits: Vec<End>,
    /// The first piece that it moves.
    first_piece: u16,
    /// Number of pieces.
    pieces: u16,
    /// The sources that it reduces, in this order.
    sources: Vec<Place>,
    /// Where it stores the result.
    destinations: Vec<Place>,
    /// The result is final: an average is divided.
    r#final: bool,
    /// Signals that it sends after the data is stored.
    signals: Vec<End>,
}

/// One end of a connection.
#[derive(Debug, Serialize, JsonSchema)]
struct End {
    /// The rank at the other end.
    peer: u32,
    /// The channel.
    channel: u16,
    /// Distinguishes connections to the same rank on a channel.
    port: u32,
}

/// Where data is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "in", rename_all = "lowercase")]
enum Place {
    /// A buffer of the rank.
    Local {
        /// `input`, `output` or `scratch`.
        buffer: &'static str,
        /// Number of the block.
        block: u32,
    },
    /// A buffer of another rank.
    Peer {
        /// The other rank.
        peer: u32,
        /// `input`, `output` or `scratch`.
        buffer: &'static str,
        /// Number of the block.
        block: u32,
    },
    /// The scratch buffers of all ranks, by NVLink SHARP.
    Multicast {
        /// Number of the block.
        block: u32,
    },
    /// A FIFO.
    Fifo(End),
}

impl Report for ProgramReport {
    const FORMAT: &'static str = "topo-program";
    const VERSION: u32 = 1;
}

impl ProgramReport {
    /// The report of a program that was proved.
    pub fn of(verified: &VerifiedProgram, transfer: Transfer) -> Self {
        let program = verified.program();
        Self {
            collective: program.collective,
            algorithm: program.schedule.name(),
            transfer: transfer.name(),
            ranks: program.ranks,
            rank: program.rank,
            root: program.root,
            in_place: program.in_place,
            channels: program.channels,
            pieces: program.pieces,
            scratch_blocks: program.scratch_blocks,
            fifo_slots: verified.fifo_slots(),
            lanes: program.lanes.iter().map(ShownLane::of).collect(),
        }
    }
}

impl ShownLane {
    fn of(lane: &Lane) -> Self {
        let steps = |steps: &[Step]| steps.iter().map(ShownStep::of).collect();
        Self {
            channel: lane.channel,
            prologue: steps(&lane.prologue),
            body: steps(&lane.body),
            epilogue: steps(&lane.epilogue),
        }
    }
}

impl ShownStep {
    fn of(step: &Step) -> Self {
        let ends = |ends: &[ConnectionEnd]| ends.iter().map(End::of).collect();
        let places = |operands: &[Operand]| operands.iter().map(Place::of).collect();
        Self {
            primitive: step.primitive(),
            awaits: ends(&step.waits),
            first_piece: step.pieces.first,
            pieces: step.pieces.count,
            sources: places(&step.sources),
            destinations: places(&step.destinations),
            r#final: step.finish,
            signals: ends(&step.notifies),
        }
    }
}

impl End {
    const fn of(end: &ConnectionEnd) -> Self {
        Self {
            peer: end.peer,
            channel: end.channel,
            port: end.port,
        }
    }
}

impl Place {
    const fn of(operand: &Operand) -> Self {
        match operand {
            Operand::Local { buffer, block } => Self::Local {
                buffer: name(*buffer),
                block: *block,
            },
            Operand::Peer {
                rank,
                buffer,
                block,
            } => Self::Peer {
                peer: *rank,
                buffer: name(*buffer),
                block: *block,
            },
            Operand::Multicast { block, .. } => Self::Multicast { block: *block },
            Operand::Fifo(end) => Self::Fifo(End::of(end)),
        }
    }
}

const fn name(buffer: BufferKind) -> &'static str {
    match buffer {
        BufferKind::Input => "input",
        BufferKind::Output => "output",
        BufferKind::Scratch => "scratch",
    }
}
