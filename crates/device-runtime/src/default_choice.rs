//! The default choice on devices: by message size only, since no costs of a GPU are known.

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};

/// Largest message sent with LL, bytes.
const MOST_LL: u64 = 32 << 10;

/// Largest message sent with LL128, bytes.
const MOST_LL128: u64 = 1 << 20;

/// Bytes per channel above which another channel pays off.
const CHANNEL_BYTES: u64 = 64 << 10;

/// Whether a schedule and a transfer can carry out a request.
pub fn serves(request: &Request, schedule: Schedule, transfer: Transfer, ranks: u32) -> bool {
    let collective = request.collective;
    // A direct transfer reads its sources in place: it cannot multiply them first, they must not be
    // overwritten during the transfer, and the peers of a group have no buffer tables.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll && request.in_place && ranks > 1;
    schedule.serves(collective, transfer)
        && (!collective.reduces() || schedule.reduces(request.element, request.reduction))
        && (transfer == Transfer::Fifo
            || !(multiplies || overwritten || collective == Collective::SendRecv))
}

/// What the transports between the ranks support; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether every rank can access every other rank's memory.
    pub direct: bool,
    /// Whether LL128 lines arrive whole on every connection.
    pub ll128: bool,
    /// Thread blocks that each rank can have resident at once.
    pub blocks: u16,
}

/// Chooses schedule, transfer, protocol and channels for a request.
pub fn choose(request: &Request, place: &CommunicatorShape, capabilities: &Capabilities) -> Choice {
    let most_channels = capabilities.blocks;
    let bytes = request.bytes(place.ranks);
    let direct =
        |schedule| capabilities.direct && serves(request, schedule, Transfer::Direct, place.ranks);
    let (schedule, transfer, protocol) = if bytes <= MOST_LL {
        (Schedule::Mesh, Transfer::Fifo, Protocol::Ll)
    } else if bytes <= MOST_LL128 && capabilities.ll128 {
        (Schedule::Mesh, Transfer::Fifo, Protocol::Ll128)
    } else if direct(Schedule::TwoPhaseMesh) {
        (Schedule::TwoPhaseMesh, Transfer::Direct, Protocol::Simple)
    } else if direct(Schedule::Mesh) {
        (Schedule::Mesh, Transfer::Direct, Protocol::Simple)
    } else if Schedule::Ring.serves(request.collective, Transfer::Fifo) {
        (Schedule::Ring, Transfer::Fifo, Protocol::Simple)
    } else {
        (Schedule::Mesh, Transfer::Fifo, Protocol::Simple)
    };
    // With FIFOs a channel can have two lanes, and each lane needs a block.
    let most_channels = match transfer {
        Transfer::Direct => most_channels,
        Transfer::Fifo | Transfer::Hierarchical => most_channels / 2,
    };
    let wanted = u16::try_from(bytes.div_ceil(CHANNEL_BYTES).max(1)).unwrap_or(u16::MAX);
    Choice {
        schedule,
        transfer,
        protocol,
        channels: wanted.min(most_channels).min(place.channels).max(1),
        piece_bytes: 0,
    }
}
