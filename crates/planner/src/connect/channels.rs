//! The number of channels of a communicator, and the searched channel that each of them repeats.

use plan::{GraphKind, JobChannels, MAX_CHANNELS};

use super::summary::GatheredGraphs;
use crate::settings::ConnectSettings;

/// First compute capability (× 10) that needs four channels for each searched one.
const FOURFOLD_SM: i32 = 90;

/// Bandwidth of a searched channel above which four are needed, GB/s.
const FOURFOLD_BW: f32 = 45.0;

/// With this many channels they are not multiplied further.
const FOURFOLD_LIMIT: u32 = 16;

/// Applies NCCL's rules in their order. `collnet`: the network reduces. `least`: channels that NVLS
/// asks for.
pub(super) fn channels(
    facts: &GatheredGraphs,
    nodes: u32,
    ranks: u32,
    collnet: bool,
    settings: &ConnectSettings,
    least: u32,
) -> JobChannels {
    let searched = facts.graph(GraphKind::Ring).channels;
    let mut channels = JobChannels {
        searched,
        base: (0..(2 * searched).min(MAX_CHANNELS) as u8).collect(),
    };
    let chain = facts.graph(GraphKind::CollnetChain);
    if collnet && chain.bw_intra > chain.bw_inter && ranks > nodes {
        let wanted = channels.count() + channels.count() / 2;
        extend(&mut channels, wanted);
    }
    let ring = facts.graph(GraphKind::Ring);
    if facts.sm_min >= FOURFOLD_SM
        && nodes > 1
        && ring.bw_intra > FOURFOLD_BW
        && channels.count() < FOURFOLD_LIMIT
    {
        let wanted = 2 * channels.count();
        extend(&mut channels, wanted);
    }
    let (min_ctas, max_ctas) = settings.ctas();
    // First the upper bound, then the lower: 2 at most and 4 at least are 4 channels made of 2.
    let most = settings.most_channels().min(max_ctas);
    channels.base.truncate(most as usize);
    extend(&mut channels, settings.fewest_channels().max(min_ctas));
    extend(&mut channels, least);
    channels
}

/// Repeats the channels until there are `wanted`.
fn extend(channels: &mut JobChannels, wanted: u32) {
    let before = channels.base.len();
    if before == 0 {
        return;
    }
    for channel in before..wanted.min(MAX_CHANNELS) as usize {
        channels.base.push(channels.base[channel - before]);
    }
}
