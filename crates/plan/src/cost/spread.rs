//! The channels that a call really uses: a message is cut into cells, and cells into channels
//! (NCCL's scheduler of collectives). Calls of a group share the channels.

use std::ops::RangeInclusive;

use program::{Collective, Protocol};

use crate::algorithm::Algorithm;
use crate::cost::choose::OperationChoice;
use crate::cost::table::{CHANNEL_TRAFFIC, CostTable};

/// Cells are multiples of this, bytes.
const GRAIN: u64 = 16;

/// LL sends each byte with a flag, in lines that count as so many times the data.
const LL_TRAFFIC: u64 = 4;

/// Most calls of a group.
pub const MOST_CALLS: u32 = 4096;

impl CostTable {
    /// The channels of each call of a chosen operation. NCCL cuts groups whose description is long
    /// into several kernels; here they are one.
    pub fn spread(&self, choice: &OperationChoice) -> Vec<RangeInclusive<u32>> {
        let (collective, bytes) = (choice.operation.collective, choice.operation.bytes);
        let calls = choice.operation.calls.number.clamp(1, MOST_CALLS);
        let job = &self.job;
        let ranks = u64::from(job.ranks);
        if choice.channels == 0 {
            return Vec::new();
        }
        if ranks <= 1 || bytes == 0 || choice.algorithm.is_collnet() {
            return vec![0..=choice.channels - 1; calls as usize];
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
            Algorithm::Nvls | Algorithm::NvlsTree => {
                job.nvls.as_ref().map_or(0, |nvls| nvls.channels)
            }
            _ => job.channels,
        };
        let all = u64::from(all.max(1));
        let least = job.calls.channel_traffic.max(1);
        let traffic = u64::from(calls).saturating_mul(least.max(own.saturating_mul(per_byte)));
        let channels = choice.channels.max(job.calls.fewest_channels);
        let allowed = u64::from(channels) * u64::from(calls);
        let share = traffic / allowed.min(all);
        let per_channel = if least >= CHANNEL_TRAFFIC {
            share.checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
        } else {
            share.max(least)
        };
        let cell = least.div_ceil(per_byte).next_multiple_of(GRAIN);
        let cells = Cells {
            number: own.div_ceil(cell).max(1),
            traffic: cell * per_byte,
            per_channel,
            channels: all,
        };
        let mut place = Place::default();
        let ranges = (0..calls).map(|_| place.next(&cells));
        let narrow = |channel: u64| u32::try_from(channel).unwrap_or(u32::MAX);
        let ranges = ranges.map(|(first, last)| narrow(first)..=narrow(last));
        ranges.collect()
    }
}

/// How a call is cut.
struct Cells {
    /// Cells of a call.
    number: u64,
    /// Traffic of one, bytes.
    traffic: u64,
    /// Traffic of a channel, bytes.
    per_channel: u64,
    /// All channels.
    channels: u64,
}

/// Where the next call begins.
#[derive(Default)]
struct Place {
    channel: u64,
    /// Traffic that the channel carries already, bytes.
    filled: u64,
}

impl Place {
    /// The first and the last channel of the next call.
    fn next(&mut self, cells: &Cells) -> (u64, u64) {
        let last_channel = cells.channels - 1;
        let room = match self.channel == last_channel {
            true => cells.number,
            false => {
                let left = cells.per_channel.saturating_sub(self.filled);
                left.div_ceil(cells.traffic).min(cells.number)
            }
        };
        let rest = cells.number - room;
        let each = cells.per_channel.div_ceil(cells.traffic).max(1);
        let mut further = rest.div_ceil(each);
        let mut last = rest - further.saturating_sub(1).saturating_mul(each);
        if self.channel + further > last_channel {
            // Fewer channels carry more each, the last what is left over.
            further = last_channel - self.channel;
            last = rest / further + rest % further;
        }
        let first = self.channel;
        self.channel += further;
        match further {
            0 => {
                self.filled = self
                    .filled
                    .saturating_add(room.saturating_mul(cells.traffic))
            }
            _ => self.filled = last.saturating_mul(cells.traffic),
        }
        let end = self.channel;
        if self.filled >= cells.per_channel && self.channel != last_channel {
            *self = Self {
                channel: self.channel + 1,
                filled: 0,
            };
        }
        (first, end)
    }
}
