//! Point-to-point transfers: channels, chunk sizes, and how many ranks of a node meet in a round.

use plan::{Buffers, JobLayout, MAX_CHANNELS, P2pChannels, PeerOrder};
use topology::CpuArch;

use super::summary::GatheredGraphs;
use crate::rules::{NetPeerChannels, Rules};
use crate::settings::ConnectSettings;

/// Peers that one batch of work serves.
const PEERS_PER_BATCH: u32 = 8;

/// Chunks in a connection's buffer.
const STEPS: i64 = 8;

/// First compute capability (× 10) whose Arm hosts have few GPUs each, so that chunks are doubled.
const GRACE_SM: i32 = 100;

/// `first` is what rank 0 finds out by itself.
pub(super) fn p2p_channels(
    facts: &GatheredGraphs,
    first: &GatheredGraphs,
    layout: &JobLayout,
    channels: u32,
    buffers: Buffers,
    settings: &ConnectSettings,
    rules: Rules,
) -> P2pChannels {
    let nodes = layout.nodes();
    let total = total(channels, settings);
    let per_peer = if rules.net_peer_channels == NetPeerChannels::Halved {
        halved(first, layout, channels, settings)
    } else {
        by_bandwidth(facts, layout, total, settings)
    };
    let wanted = if nodes > 1 {
        let doubled = rules.doubles_grace_chunks
            && facts.cpu_arch == Some(CpuArch::Arm)
            && facts.sm_min >= GRACE_SM;
        settings
            .p2p_net_chunk_size
            .saturating_mul(if doubled { 2 } else { 1 })
    } else if facts.all_nvlink {
        settings.p2p_nvl_chunk_size
    } else {
        settings.p2p_pci_chunk_size
    };
    let chunk_size = if wanted.saturating_mul(STEPS) > buffers.simple {
        buffers.simple / STEPS
    } else {
        wanted
    };
    P2pChannels {
        channels: total,
        per_peer,
        chunk_size,
        group: group_size(facts, layout, settings, rules),
        order: match rules.groups_peers {
            true => PeerOrder::Counting,
            false => PeerOrder::Triangular,
        },
        ll_bytes: settings.p2p_ll_threshold,
        network_ll: settings.p2p_network_ll,
        given_chunk: Some(settings.p2p_given_chunk).filter(|bytes| *bytes != 0),
    }
}

/// The channels that the settings leave, before their number becomes a power of two.
fn wanted(channels: u32, settings: &ConnectSettings) -> u32 {
    let most = settings.max_p2p_channels.clamp(1, i64::from(MAX_CHANNELS)) as u32;
    let least = settings.min_p2p_channels.clamp(1, i64::from(MAX_CHANNELS)) as u32;
    channels.min(most).max(least)
}

/// Channels of point-to-point transfers.
fn total(channels: u32, settings: &ConnectSettings) -> u32 {
    let room = settings.channels_in_arguments().max(1);
    let wanted = wanted(channels, settings);
    wanted.next_power_of_two().min(1 << room.ilog2())
}

/// Parallel channels between two ranks as NCCL decides since 2.29.
fn by_bandwidth(
    facts: &GatheredGraphs,
    layout: &JobLayout,
    total: u32,
    settings: &ConnectSettings,
) -> u32 {
    let mut per_peer = facts.p2p_parts.min(1 << 30).next_power_of_two();
    let ranks = layout.ranks();
    let peers = settings
        .p2p_max_peers
        .map_or(ranks, |peers| peers.min(i64::from(ranks)) as u32);
    if layout.nodes() > 1 && settings.channels_per_net_peer.is_none() {
        let batches = u64::from(peers.div_ceil(PEERS_PER_BATCH));
        while u64::from(per_peer) * batches > u64::from(total) && per_peer > 1 {
            per_peer /= 2;
        }
        per_peer
    } else {
        per_peer.min(total)
    }
}

/// Parallel channels between two ranks as NCCL decided before 2.29: two to other nodes, fewer while
/// ranks share channels by four, but one for each port that a GPU keeps busy. Each rank counts over
/// the GPUs of its own node, which `own` is about.
pub(super) fn halved(
    own: &GatheredGraphs,
    layout: &JobLayout,
    channels: u32,
    settings: &ConnectSettings,
) -> u32 {
    let total = total(channels, settings);
    let channels = wanted(channels, settings);
    let mut parts = own.p2p_parts.min(channels);
    if own.inter {
        let given = settings.channels_per_net_peer;
        let given = given.map(|given| u32::try_from(given).unwrap_or(u32::MAX));
        parts = parts.min(given.unwrap_or_else(|| {
            let ranks = u64::from(layout.ranks());
            let crowded = 2 * ranks > u64::from(channels) * 4;
            own.min_net_count.max(if crowded { 1 } else { 2 })
        }));
    }
    parts.min(1 << 30).next_power_of_two().min(total)
}

/// The largest size not above the wanted one that divides every node. Before 2.28, the ranks of a
/// node, or all ranks where nodes are unequal.
fn group_size(
    facts: &GatheredGraphs,
    layout: &JobLayout,
    settings: &ConnectSettings,
    rules: Rules,
) -> u32 {
    if !rules.groups_peers {
        let most = facts.max_local_ranks.max(1);
        return match layout.sizes().all(|size| size == most) {
            true => most,
            false => layout.ranks(),
        };
    }
    let wanted = if layout.nodes() > 1 {
        u32::try_from(settings.p2p_schedule_group_size).unwrap_or(u32::MAX)
    } else {
        facts.max_local_ranks
    };
    layout.sizes().fold(wanted, gcd).max(1)
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
