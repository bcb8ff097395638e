//! The memory of a communicator: what NCCL allocates on each GPU and host, for which purpose, and
//! with which first call.
//!
//! A communicator allocates tables at its start, and the buffers of an algorithm's connections when
//! a collective first takes that algorithm ([`Stage`]). Source: NCCL's public source of 2.27 to
//! 2.31; the binaries of 2.27 to 2.32 allocate the same bytes.
//!
//! In reading order: `settings`, this file, `ledger` (what is counted), `connect` (the buffers of
//! a connection).

mod connect;
mod ledger;
mod settings;

use std::collections::BTreeMap;

use plan::{Algorithm, Connection, Error, Expansion, GraphKind, NcclVersion, NodePlace};

use crate::rules::Rules;
use connect::Builder;

pub use ledger::{Bytes, Ledger, Part, Purpose, Stage};
pub use settings::MemorySettings;

/// Bytes of one connection in a GPU's table of peers: two each way.
const PEER_BYTES: u64 = 4 * 152;

/// Bytes of a pointer in the same table.
const POINTER_BYTES: u64 = 8;

/// Bytes of a rank's number.
const RANK_BYTES: u64 = 4;

/// Bytes of the description of a communicator and its channels; equal in all versions (binary).
const COMMUNICATOR_BYTES: u64 = 23_648;

/// Granularity of multicast objects, bytes. Memory of NVLink SHARP is virtual memory also where
/// nothing else is.
const MULTICAST_GRANULARITY: u64 = 2 << 20;

/// Bytes of host memory for a profiler's counters, and for the flag that aborts kernels. 2.31 also
/// counts phases and kernels for windows (source), 2.32 fewer of them (binary).
const fn counter_bytes(version: NcclVersion) -> u64 {
    let kibibytes = match version {
        NcclVersion::V2_27 | NcclVersion::V2_28 | NcclVersion::V2_29 | NcclVersion::V2_30 => 132,
        NcclVersion::V2_31 => 580,
        NcclVersion::V2_32 | NcclVersion::V2_32_6 => 420,
    };
    kibibytes << 10
}

/// Bytes of a credit of NVLink SHARP, two for each channel and head.
const CREDIT_BYTES: u64 = 64;

/// Chunks in a buffer.
const STEPS: u64 = 8;

/// Multicast objects that one NVSwitch domain has room for (128 slots in NVSwitches of Hopper's
/// generation; source: Fabric Manager's log).
pub const MULTICAST_SLOTS: u32 = 128;

/// What a job calls on a communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The algorithms that its collectives take.
    pub algorithms: Vec<Algorithm>,
    /// All ranks send to each other.
    pub peers: bool,
}

/// The memory of the ranks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMemory {
    /// By rank what is allocated on its GPU, and on its host for it.
    pub ranks: BTreeMap<u32, Ledger>,
    /// Multicast objects that the node makes at each stage.
    pub multicast_objects: BTreeMap<Stage, u32>,
    /// Channels that are set up.
    pub channels: u32,
}

/// The memory of a node's ranks.
///
/// # Errors
/// A connection has no port, or the node is of another job.
pub fn of_node(
    expansion: &Expansion,
    node: NodePlace,
    usage: &MemoryUse,
    settings: &MemorySettings,
    rules: Rules,
) -> Result<NodeMemory, Error> {
    let common = expansion.common();
    let nvls = common.nvls.filter(|nvls| nvls.heads > 0);
    let nvls_channels = nvls.map_or(0, |nvls| nvls.channels);
    let channels = common
        .channels
        .count()
        .max(common.p2p.channels)
        .max(nvls_channels);
    let mut builder = Builder::new(expansion, *settings);
    let ranks = expansion.layout().ranks_of(node);
    let mut multicast_objects = BTreeMap::new();
    // NCCL 2.27 gives all channels credits of NVLink SHARP.
    let credited = match nvls {
        Some(_) if !rules.separates_nvls_channels => common.channels.count(),
        _ => nvls_channels,
    };
    for rank in &ranks {
        tables(
            &mut builder,
            *rank,
            [channels, credited],
            ranks.len(),
            rules,
        );
    }
    let takes = |algorithm| !settings.connects_late || usage.algorithms.contains(&algorithm);
    if let Some(nvls) = nvls {
        let buffers = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        let rows = 2 * u64::from(nvls.channels) * u64::from(nvls.heads);
        let credits = 2 * u64::from(credited) * u64::from(nvls.heads);
        let mut stages = vec![(Stage::Start, CREDIT_BYTES * credits)];
        // PAT of several ranks of a node takes the buffers, too (2.31, source).
        let by_heads = rules.gathers_by_heads && ranks.len() > 1;
        let stage = if takes(Algorithm::Nvls) || takes(Algorithm::NvlsTree) {
            Some(Stage::Nvls)
        } else {
            (by_heads && takes(Algorithm::Pat)).then_some(Stage::Pat)
        };
        let bytes = buffers(nvls.chunk_size) * STEPS * rows;
        stages.extend(stage.map(|stage| (stage, bytes)));
        for (stage, bytes) in stages {
            // NCCL 2.32 binds all memory of a communicator to one object (binary).
            if stage == Stage::Start || rules.version() < NcclVersion::V2_32 {
                *multicast_objects.entry(stage).or_default() += 1;
            }
            for rank in &ranks {
                let bytes = bytes.next_multiple_of(MULTICAST_GRANULARITY);
                builder.allocate(*rank, stage, Purpose::Switches, bytes);
            }
        }
    }
    for rank in &ranks {
        for algorithm in [
            Algorithm::Ring,
            Algorithm::Tree,
            Algorithm::Pat,
            Algorithm::NvlsTree,
        ] {
            if takes(algorithm) {
                let is_called = usage.algorithms.contains(&algorithm);
                neighbors(&mut builder, *rank, algorithm, is_called, rules)?;
            }
        }
        if !settings.connects_late {
            builder.pools_at_start(*rank);
        }
        if !settings.connects_late && settings.connects_relays {
            let is_relayed = |connection: &Connection| {
                matches!(connection, Connection::Direct { via: Some(_), .. })
            };
            peers(&mut builder, *rank, Stage::Start, is_relayed)?;
        }
    }
    if usage.peers {
        for rank in &ranks {
            peers(&mut builder, *rank, Stage::Peers, |_| true)?;
        }
    }
    Ok(NodeMemory {
        ranks: builder.finish(),
        multicast_objects,
        channels,
    })
}

/// What a rank allocates when its communicator starts.
fn tables(
    builder: &mut Builder<'_>,
    rank: u32,
    [channels, nvls_channels]: [u32; 2],
    local: usize,
    rules: Rules,
) {
    let all = u64::from(builder.expansion.layout().ranks());
    let local = local as u64;
    let mut add = |bytes| builder.allocate(rank, Stage::Start, Purpose::Tables, bytes);
    for channel in 0..channels {
        add(all * PEER_BYTES);
        add((all + 1 + local) * POINTER_BYTES);
        add(all * RANK_BYTES);
        if channel < nvls_channels {
            add(local * PEER_BYTES);
        }
    }
    add(COMMUNICATOR_BYTES);
    add(all * RANK_BYTES);
    // The order of ranks by heads of NVLink SHARP (2.31, source).
    if nvls_channels > 0 && rules.version() >= NcclVersion::V2_31 {
        add(all * RANK_BYTES);
    }
    let host = counter_bytes(rules.version()) + builder.settings.work_fifo_bytes;
    builder.allocate_host(rank, Stage::Start, Purpose::Work, host);
}

/// The connections of a rank for an algorithm. Those that another algorithm has made are used.
/// `is_called`: a collective takes it, otherwise it connects only because all do.
fn neighbors(
    builder: &mut Builder<'_>,
    rank: u32,
    algorithm: Algorithm,
    is_called: bool,
    rules: Rules,
) -> Result<(), Error> {
    let expansion = builder.expansion;
    let mut found: Vec<(u32, u32)> = Vec::new();
    let (stage, kind) = match algorithm {
        Algorithm::Ring => {
            for channel in 0..expansion.channels() {
                if let Some(place) = expansion.ring_place(rank, channel) {
                    builder.connect(
                        Stage::Ring,
                        GraphKind::Ring,
                        rank,
                        place.next,
                        channel,
                        true,
                    )?;
                    let previous = place.previous;
                    builder.connect(
                        Stage::Ring,
                        GraphKind::Ring,
                        rank,
                        previous,
                        channel,
                        false,
                    )?;
                }
            }
            return Ok(());
        }
        Algorithm::Tree => {
            for channel in 0..expansion.channels() {
                let place = expansion.tree_place(rank, channel).unwrap_or_default();
                let peers = place.up.into_iter().chain(place.down.into_iter().flatten());
                found.extend(peers.map(|peer| (channel, peer)));
            }
            (Stage::Tree, GraphKind::Tree)
        }
        Algorithm::NvlsTree => {
            if let (Some(place), Some(nvls)) = (expansion.nvls_place(rank), expansion.common().nvls)
            {
                // NCCL 2.27 connects the trees on all channels (source).
                let channels = match rules.separates_nvls_channels {
                    true => nvls.channels,
                    false => expansion.channels(),
                };
                for channel in 0..channels {
                    let tree = channel as usize % 2;
                    let peers = place.tree_up[tree].into_iter();
                    let peers = peers.chain(place.tree_down[tree].into_iter().flatten());
                    found.extend(peers.map(|peer| (channel, peer)));
                }
            }
            (Stage::NvlsTree, GraphKind::Nvls)
        }
        Algorithm::Pat => {
            let peers = binomial_peers(expansion, rank, is_called, rules)?;
            // From NCCL 2.32 on over NVLink SHARP's channels and ports (binary).
            let (kind, channels) = match expansion.common().nvls {
                Some(nvls) if rules.version() >= NcclVersion::V2_32 => {
                    (GraphKind::Nvls, nvls.channels)
                }
                _ => (GraphKind::Tree, expansion.channels()),
            };
            let channels = 0..channels;
            found.extend(channels.flat_map(|channel| peers.iter().map(move |it| (channel, *it))));
            (Stage::Pat, kind)
        }
        Algorithm::CollNetDirect | Algorithm::CollNetChain | Algorithm::Nvls => return Ok(()),
    };
    for (channel, peer) in found {
        builder.connect(stage, kind, rank, peer, channel, true)?;
        builder.connect(stage, kind, rank, peer, channel, false)?;
    }
    Ok(())
}

/// The ranks with which PAT exchanges: those of nodes at distances of powers of two. Where nodes
/// have several ranks, NVLink SHARP's heads of the same number; before 2.31, where only
/// `NCCL_PAT_ENABLE=1` leads to a call, the ranks at such distances (source).
fn binomial_peers(
    expansion: &Expansion,
    rank: u32,
    is_called: bool,
    rules: Rules,
) -> Result<Vec<u32>, Error> {
    let layout = expansion.layout();
    let place = expansion.place(rank)?;
    let nodes = layout.nodes();
    let one_each = layout.sizes().all(|size| size == 1);
    let head = |rank: u32| expansion.nvls_place(rank)?.head;
    let mut peers = Vec::new();
    let mut own = layout.ranks_of(place.node).into_iter();
    let by_heads = rules.gathers_by_heads && own.all(|it| head(it).is_some());
    if !one_each && !by_heads {
        let ranks = layout.ranks();
        let distances = std::iter::successors(Some(1), |distance: &u32| distance.checked_mul(2));
        let distances = distances.take_while(|distance| *distance < ranks);
        if is_called && !rules.gathers_by_heads {
            let at = |distance| [(rank + distance) % ranks, (rank + ranks - distance) % ranks];
            peers.extend(distances.flat_map(at));
        }
        return Ok(peers);
    }
    let mut distance = 1;
    while distance < nodes {
        for node in [
            place.node.node + distance,
            place.node.node + nodes - distance,
        ] {
            let ranks = layout.node(node % nodes).map(|node| layout.ranks_of(node));
            let mut ranks = ranks.unwrap_or_default().into_iter();
            peers.extend(ranks.find(|other| one_each || head(*other) == head(rank)));
        }
        distance *= 2;
    }
    Ok(peers)
}

/// The connections for transfers to and from other ranks, if a function takes how they are reached.
fn peers(
    builder: &mut Builder<'_>,
    rank: u32,
    stage: Stage,
    takes: impl Fn(&Connection) -> bool,
) -> Result<(), Error> {
    let expansion = builder.expansion;
    let per_peer = expansion.per_peer(expansion.place(rank)?.node);
    for (round, pair) in (0..).zip(expansion.schedule(rank)) {
        for (peer, sends) in [(pair.send, true), (pair.receive, false)] {
            if peer == rank {
                continue;
            }
            for part in 0..per_peer {
                let channel = expansion.peer_channel(round, part);
                if takes(&expansion.p2p_connection(rank, peer, channel)?) {
                    builder.connect_peer(stage, rank, peer, channel, sends)?;
                }
            }
        }
    }
    Ok(())
}
