//! The default choice on devices: by message size only, since no costs of a GPU are known.

use executor::backend::CommunicatorShape;
use executor::{Choice, Request};
use program::{Collective, Protocol, Reduction, Schedule, Transfer};

use crate::layout::MOST_OPERANDS;
/// Largest message sent with LL, bytes.
const MOST_LL: u64 = 32 << 10;

/// Largest message sent with LL128, bytes.
const MOST_LL128: u64 = 1 << 20;

/// Most ranks with LL128 where peers' memory can be accessed: if all send, and if one does. With
/// more, a rank sends to one after the other for longer than a direct transfer takes
/// (docs/gpu.md).
const MOST_LL128_RANKS: u32 = 2;
const MOST_LL128_RECEIVERS: u32 = 4;

/// Bytes per channel above which another channel pays off, by protocol. A line of LL takes longer
/// to be seen than to be stored, so blocks with few lines are soonest done.
const fn channel_bytes(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Ll => 4 << 10,
        Protocol::Ll128 => 32 << 10,
        Protocol::Simple => 64 << 10,
    }
}

/// Bytes of a piece whose partial sums stay in the cache of a GPU (L2): 64 channels of it, and of
/// eight inputs, are less than the 40 MB of an A100.
const CACHED_PIECE: u32 = 64 << 10;

/// Bytes that a channel of NVLS copies to scratch memory before the switch reduces them. Those of
/// 64 channels are 16 MiB, which stay in the cache of a GPU with multicast (50 MB).
const NVLS_TURN: u32 = 256 << 10;

/// Bytes of the smallest piece of NVLS.
const NVLS_LEAST_PIECE: u32 = 4 << 10;

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

/// Bytes of the longest piece for a schedule and a transfer; 0: any. With more ranks than a step
/// has operands, partial sums are read again and should still be in a cache. NVLS copies all data
/// through scratch memory.
pub fn piece_bytes(schedule: Schedule, transfer: Transfer, ranks: u32) -> u32 {
    match (schedule, transfer) {
        (Schedule::Nvls, _) => (NVLS_TURN / ranks.max(1)).max(NVLS_LEAST_PIECE),
        (Schedule::Mesh | Schedule::TwoPhaseMesh, Transfer::Direct)
            if ranks as usize > MOST_OPERANDS =>
        {
            CACHED_PIECE
        }
        _ => 0,
    }
}

/// The capabilities of the transports between the ranks; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether every rank can access every other rank's memory.
    pub direct: bool,
    /// Whether LL128 lines arrive whole on every connection.
    pub ll128: bool,
    /// Thread blocks of each rank, resident at once.
    pub blocks: u16,
    /// Bytes of a message from which a switch reduces and multicasts (NVLS); `None`: never.
    pub nvls_from: Option<u64>,
}

/// Chooses schedule, transfer, protocol and channels for a request.
pub fn choose(request: &Request, place: &CommunicatorShape, capabilities: &Capabilities) -> Choice {
    let most_channels = capabilities.blocks;
    let bytes = request.bytes(place.ranks);
    let direct =
        |schedule| capabilities.direct && serves(request, schedule, Transfer::Direct, place.ranks);
    let by_switch = capabilities.nvls_from.is_some_and(|from| bytes >= from)
        && serves(request, Schedule::Nvls, Transfer::Direct, place.ranks);
    let one_sends = matches!(
        request.collective,
        Collective::Broadcast | Collective::Scatter
    );
    let most_ranks = match one_sends {
        true => MOST_LL128_RECEIVERS,
        false => MOST_LL128_RANKS,
    };
    let is_late = place.ranks > most_ranks && direct(Schedule::Mesh);
    let (schedule, transfer, protocol) = if by_switch {
        (Schedule::Nvls, Transfer::Direct, Protocol::Simple)
    } else if bytes <= MOST_LL {
        (Schedule::Mesh, Transfer::Fifo, Protocol::Ll)
    } else if bytes <= MOST_LL128 && capabilities.ll128 && !is_late {
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
        Transfer::Direct | Transfer::Staged => most_channels,
        Transfer::Fifo | Transfer::Hierarchical => most_channels / 2,
    };
    let wanted = u16::try_from(bytes.div_ceil(channel_bytes(protocol)).max(1)).unwrap_or(u16::MAX);
    Choice {
        schedule,
        transfer,
        protocol,
        channels: wanted.min(most_channels).min(place.channels).max(1),
        piece_bytes: piece_bytes(schedule, transfer, place.ranks),
    }
}

#[cfg(test)]
mod tests {
    use executor::BufferAccess;
    use executor::bootstrap::Crowd;
    use program::ElementType;

    use super::*;

    fn chosen(bytes: u64, ranks: u32, nvls_from: Option<u64>) -> Choice {
        let request = Request {
            collective: Collective::AllReduce,
            element: ElementType::F32,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count: bytes / 4,
            choice: None,
        };
        let shape = CommunicatorShape {
            ranks,
            one_process: true,
            hosts: 1,
            even_hosts: true,
            channels: 64,
            crowd: Crowd { ranks: 8, cores: 8 },
            buffers: BufferAccess::Mapped,
        };
        let capabilities = Capabilities {
            direct: true,
            ll128: true,
            blocks: 64,
            nvls_from,
        };
        choose(&request, &shape, &capabilities)
    }

    #[test]
    fn short_messages_have_a_block_for_4_kib() {
        let channels = |bytes| chosen(bytes, 8, None).channels;
        assert_eq!([4 << 10, 8 << 10, 32 << 10].map(channels), [1, 2, 8]);
    }

    #[test]
    fn switches_reduce_from_where_the_plan_says() {
        let schedule = |bytes, from| chosen(bytes, 8, from).schedule;
        assert_eq!(schedule(64 << 20, None), Schedule::TwoPhaseMesh);
        assert_eq!(schedule(64 << 20, Some(2 << 20)), Schedule::Nvls);
        assert_eq!(schedule(2 << 20, Some(2 << 20)), Schedule::Nvls);
        assert_eq!(schedule(1 << 10, Some(2 << 20)), Schedule::Mesh);
    }

    #[test]
    fn many_ranks_access_memory_from_where_lines_are_slower() {
        let transfer = |bytes, ranks| chosen(bytes, ranks, None).transfer;
        assert_eq!(transfer(32 << 10, 8), Transfer::Fifo);
        assert_eq!(transfer(64 << 10, 8), Transfer::Direct);
        assert_eq!(transfer(1 << 20, 2), Transfer::Fifo);
    }

    #[test]
    fn pieces_are_limited_where_data_is_read_again() {
        let piece = |ranks, from| chosen(64 << 20, ranks, from).piece_bytes;
        assert_eq!((piece(8, None), piece(16, None)), (0, CACHED_PIECE));
        assert_eq!(piece(8, Some(0)), 32 << 10);
    }
}
