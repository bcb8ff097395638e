//! How many channels a communicator has, and which searched channel each of them repeats.

use plan::GraphKind;

use super::summary::Facts;
use crate::settings::{ConnectSettings, MAX_CHANNELS};

/// First compute capability (× 10) that needs four channels for each searched one.
const FOURFOLD_SM: i32 = 90;

/// Bandwidth of a searched channel (GB/s) above which that holds.
const FOURFOLD_BW: f32 = 45.0;

/// Channels with which that is enough.
const FOURFOLD_LIMIT: u32 = 16;

/// The channels of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels {
    /// Channels of the search, the same number for rings and trees.
    pub searched: u32,
    /// For each channel the base channel that it repeats: `searched` channels with the first tree of each pair, then
    /// `searched` with the second. Rings of both halves are the same.
    base: Vec<u8>,
}

/// Which searched channel a channel is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// The searched channel.
    pub searched: u32,
    /// The channel has the second tree of the pair.
    pub second_tree: bool,
}

impl Channels {
    /// Applies NCCL's rules in their order. `collnet`: the network reduces.
    pub(super) fn new(
        facts: &Facts,
        nodes: u32,
        ranks: u32,
        collnet: bool,
        settings: &ConnectSettings,
    ) -> Self {
        let searched = facts.graph(GraphKind::Ring).channels;
        let mut channels = Self {
            searched,
            base: (0..(2 * searched).min(MAX_CHANNELS) as u8).collect(),
        };
        let chain = facts.graph(GraphKind::CollnetChain);
        if collnet && chain.bw_intra > chain.bw_inter && ranks > nodes {
            channels.extend(channels.count() + channels.count() / 2);
        }
        let ring = facts.graph(GraphKind::Ring);
        if facts.sm_min >= FOURFOLD_SM
            && nodes > 1
            && ring.bw_intra > FOURFOLD_BW
            && channels.count() < FOURFOLD_LIMIT
        {
            channels.extend(2 * channels.count());
        }
        let (min_ctas, max_ctas) = settings.ctas();
        // First the upper bound, then the lower: 2 at most and 4 at least are 4 channels made of 2.
        channels
            .base
            .truncate(settings.most_channels().min(max_ctas) as usize);
        channels.extend(settings.fewest_channels().max(min_ctas));
        channels
    }

    /// Repeats the channels that there are until there are so many.
    fn extend(&mut self, wanted: u32) {
        let before = self.base.len();
        if before == 0 {
            return;
        }
        for channel in before..wanted.min(MAX_CHANNELS) as usize {
            self.base.push(self.base[channel - before]);
        }
    }

    /// Number of channels.
    pub const fn count(&self) -> u32 {
        self.base.len() as u32
    }

    /// What a channel is made of; `None` beyond the last.
    pub fn base(&self, channel: u32) -> Option<Base> {
        let base = u32::from(*self.base.get(channel as usize)?);
        let second_tree = base >= self.searched;
        Some(Base {
            searched: if second_tree {
                base - self.searched
            } else {
                base
            },
            second_tree,
        })
    }
}
