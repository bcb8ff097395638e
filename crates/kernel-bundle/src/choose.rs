//! The way that is taken when the caller names none: a fixed order by size, for no figures of a GPU are known.

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};

/// Largest message that goes by LL, bytes.
const MOST_LL: u64 = 32 << 10;

/// Largest message that goes by LL128, bytes.
const MOST_LL128: u64 = 1 << 20;

/// Bytes per channel from which one more channel pays.
const CHANNEL_BYTES: u64 = 64 << 10;

/// Whether a request can be carried out so.
pub fn serves(request: &Request, schedule: Schedule, transfer: Transfer, ranks: u32) -> bool {
    let collective = request.collective;
    // What is read where it is must not be multiplied first, be overwritten meanwhile, or belong to a group.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll && request.in_place && ranks > 1;
    schedule.serves(collective, transfer)
        && (!collective.reduces() || schedule.reduces(request.element, request.reduction))
        && (transfer == Transfer::Fifo
            || !(multiplies || overwritten || collective == Collective::SendRecv))
}

/// What the transports between ranks allow; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// Whether every rank accesses every other's memory.
    pub direct: bool,
    /// Whether LL128 lines arrive as a whole everywhere.
    pub ll128: bool,
    /// Blocks that each rank can have at the same time.
    pub blocks: u16,
}

/// The way of a request.
pub fn way(request: &Request, place: &CommunicatorShape, means: &Means) -> Choice {
    let most_channels = means.blocks;
    let bytes = request.bytes(place.ranks);
    let direct =
        |schedule| means.direct && serves(request, schedule, Transfer::Direct, place.ranks);
    let (schedule, transfer, protocol) = if bytes <= MOST_LL {
        (Schedule::Mesh, Transfer::Fifo, Protocol::Ll)
    } else if bytes <= MOST_LL128 && means.ll128 {
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
    // Through FIFOs a channel may be two lanes, which are two blocks.
    let most_channels = match transfer {
        Transfer::Direct => most_channels,
        Transfer::Fifo => most_channels / 2,
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
