//! Transfers between two ranks.

use super::write::{copy, notify, wait};
use super::{LowerError, agree};
use crate::{
    BoundProgram, BufferKind, Channels, Collective, ConnectionEnd, Lane, Operand, Pieces, Program,
    Schedule, Transfer,
};

/// A transfer. In a group of transfers, lanes that share a connection must run one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRecv<'a> {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The sender.
    pub from: u32,
    /// The receiver; may be the sender.
    pub to: u32,
    /// The channels, each with a share of the message.
    pub channels: &'a [u16],
    /// How data moves; [`Transfer::Direct`] means that the receiver reads the sender's input.
    pub transfer: Transfer,
    /// Whether the output is the input; matters only if the receiver is the sender.
    pub in_place: bool,
}

/// The port of transfers with tag 0; other tags have the ports after it. No collective uses these,
/// so that transfers run beside collectives.
pub(super) const TRANSFER_PORT: u32 = u8::MAX as u32;

impl ConnectionEnd {
    /// Whether only transfers use it.
    pub const fn is_transfer(&self) -> bool {
        self.port >= TRANSFER_PORT
    }

    /// Whether only messages with a tag other than 0 use it.
    pub const fn is_tagged(&self) -> bool {
        self.port > TRANSFER_PORT && self.port != TRANSFER_PORT + BoundProgram::COLLECTIVE_TAG
    }
}

impl BoundProgram {
    /// The most that the tag of a message can be.
    pub const MOST_TAG: u32 = i32::MAX as u32;

    /// The tag of transfers that are parts of a collective, which match no message.
    pub const COLLECTIVE_TAG: u32 = Self::MOST_TAG + 1;

    /// The same transfer over the connections of a tag, at most [`Self::COLLECTIVE_TAG`].
    #[must_use]
    pub fn with_tag(mut self, tag: u32) -> Self {
        let Self {
            receives,
            sends,
            waits,
            notifies,
            ..
        } = &mut self;
        for ends in [receives, sends, waits, notifies] {
            for end in ends {
                end.port = end.port.saturating_add(tag);
            }
        }
        self
    }
}

/// Writes the programs of the sender and of the receiver; a single one if these are the same rank.
///
/// # Errors
/// There is no such rank, or no channel.
pub fn send_recv(request: &SendRecv<'_>) -> Result<Vec<Program>, LowerError> {
    let SendRecv {
        ranks, from, to, ..
    } = *request;
    let refused = |problem| LowerError::Transfer {
        from,
        to,
        channels: request.channels.len(),
        problem,
    };
    if ranks > Channels::MOST_RANKS || from >= ranks || to >= ranks {
        return Err(refused("expected ranks of the communicator"));
    }
    if request.transfer == Transfer::Hierarchical {
        return Err(refused("expected the transfer fifo or direct"));
    }
    let channels = u16::try_from(request.channels.len()).ok();
    let channels =
        channels.filter(|count| (1..=Channels::MOST_CHANNELS).contains(&(*count).into()));
    let channels = channels.ok_or_else(|| refused("expected 1 to 256 channels"))?;
    let mut sorted = request.channels.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(refused("expected each channel once"));
    }
    let program = |rank| Program {
        collective: Collective::SendRecv,
        schedule: Schedule::Mesh,
        ranks,
        rank,
        root: from,
        in_place: request.in_place && from == to,
        channels,
        shares: Vec::new(),
        pieces: 1,
        fifo_pieces: 0,
        scratch_blocks: 0,
        lanes: Vec::new(),
    };
    let mut programs: Vec<Program> = [Some(from), Some(to).filter(|to| *to != from)]
        .into_iter()
        .flatten()
        .map(program)
        .collect();
    for (share, channel) in (0..channels).zip(request.channels) {
        for program in &mut programs {
            let rank = program.rank;
            program.lanes.extend(lane(request, rank, share, *channel));
        }
    }
    agree(&mut programs);
    Ok(programs)
}

fn lane(request: &SendRecv<'_>, rank: u32, share: u16, channel: u16) -> Option<Lane> {
    let SendRecv { from, to, .. } = *request;
    let whole = Pieces::one(0);
    let (input, output) = (Operand::input(0), Operand::output(0));
    let peer = if rank == from { to } else { from };
    let connection = ConnectionEnd {
        peer,
        channel,
        port: TRANSFER_PORT,
    };
    let mut lane = Lane {
        channel: share,
        prologue: Vec::new(),
        body: Vec::new(),
        epilogue: Vec::new(),
    };
    match (from == to, request.transfer) {
        (true, _) if request.in_place => return None,
        (true, _) => lane.body.push(copy(whole, input, [output])),
        (false, Transfer::Direct) if rank == from => {
            lane.prologue = notify(&[connection]);
            lane.epilogue = wait(&[connection]);
        }
        (false, Transfer::Direct) => {
            lane.prologue = wait(&[connection]);
            let theirs = Operand::peer(from, BufferKind::Input, 0);
            lane.body.push(copy(whole, theirs, [output]));
            lane.epilogue = notify(&[connection]);
        }
        (false, _) if rank == from => {
            lane.body
                .push(copy(whole, input, [Operand::Fifo(connection)]));
        }
        (false, _) => {
            lane.body
                .push(copy(whole, Operand::Fifo(connection), [output]));
        }
    }
    Some(lane)
}
