//! How many channels a single operation really uses: a message is cut into cells, and cells into
//! channels (NCCL's scheduler of collectives).

use plan::cost::OperationChoice;
use plan::{Algorithm, CostTable};
use program::{Collective, Protocol};

use crate::rules::Rules;

/// Traffic of a channel below which fewer channels are used, bytes: 32 KiB, and 16 KiB before NCCL
/// 2.29.
const CHANNEL_TRAFFIC: [u64; 2] = [32 << 10, 16 << 10];

/// Cells are multiples of this, bytes.
const GRAIN: u64 = 16;

/// LL sends each byte with a flag, in lines that count as so many times the data.
const LL_TRAFFIC: u64 = 4;

/// The channels that a single operation uses of those that were chosen for it.
pub fn used_channels(table: &CostTable, rules: Rules, choice: &OperationChoice) -> u32 {
    let (collective, bytes) = (choice.operation.collective, choice.operation.bytes);
    let job = &table.job;
    let ranks = u64::from(job.ranks);
    if ranks <= 1 || bytes == 0 || choice.channels == 0 || choice.algorithm.is_collnet() {
        return choice.channels;
    }
    let per_byte = match collective {
        Collective::AllReduce => 2,
        Collective::AllGather | Collective::ReduceScatter => ranks,
        _ => 1,
    };
    let per_byte = match choice.protocol {
        Protocol::Ll => per_byte * LL_TRAFFIC,
        _ => per_byte,
    };
    // The part of the message that one rank gives or gets.
    let own = if collective.splits_message() {
        bytes / ranks
    } else {
        bytes
    };
    let all = match choice.algorithm {
        Algorithm::Nvls | Algorithm::NvlsTree => job.nvls.as_ref().map_or(0, |nvls| nvls.channels),
        _ => job.channels,
    };
    let least = CHANNEL_TRAFFIC[usize::from(!rules.wider_channels)];
    let share = least.max(own * per_byte) / u64::from(choice.channels.min(all).max(1));
    let per_channel = if rules.wider_channels {
        share.next_multiple_of(GRAIN)
    } else {
        share.max(least)
    };
    let cell = least.div_ceil(per_byte).next_multiple_of(GRAIN);
    let cells = own.div_ceil(cell).max(1);
    let cells_per_channel = per_channel.div_ceil(cell * per_byte).clamp(1, cells);
    if all <= 1 {
        return 1;
    }
    let used = cells.div_ceil(cells_per_channel);
    used.min(u64::from(all)) as u32
}
