//! Point-to-point transfers in NCCL: channels, chunks and protocol of each pair, the
//! order in which ranks meet, and an estimate of the time.
//!
//! NCCL has no model for the time. The estimate takes the bandwidth of its rings.

use std::fmt;

use plan::{Common, Connection, Error, GraphKind, NcclVersion, Plan};
use planner::cost::AlphaBeta;
use program::size::short;
use program::{Collective, Protocol};
use serde::{Serialize, Serializer};

use crate::JsonSchema;

/// Chunks of a buffer.
const STEPS: u64 = 8;

/// Peers that one batch of work serves.
const PEERS_PER_BATCH: u32 = 8;

/// Point-to-point transfers of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Transfers {
    /// Channels.
    pub channels: u32,
    /// Channels between two ranks.
    pub per_peer: u32,
    /// The ranks to which rank 0 sends, in its order.
    pub order: Vec<u32>,
    /// Above so many ranks two ranks have fewer channels between them, and how many; `None` if they
    /// do not get fewer by ranks.
    #[serde(
        rename = "fewer_beyond_ranks",
        serialize_with = "ranks_alone",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub fewer_beyond: Option<(u32, u32)>,
    /// What is taken for each size.
    pub sizes: Vec<TransferSize>,
}

/// Transfers of one size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TransferSize {
    /// Size of the whole message of a rank, bytes.
    pub bytes: u64,
    /// Bytes for one peer.
    pub pair_bytes: u64,
    /// To a rank of the same node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<PairTransfer>,
    /// To a rank of another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<PairTransfer>,
    /// The expected time, µs; `None` without rings.
    pub time_us: Option<f64>,
}

/// A transfer between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PairTransfer {
    /// Channels that it uses.
    pub channels: u32,
    /// LL or Simple.
    pub protocol: Protocol,
    /// Bytes of a chunk in the buffer.
    #[serde(rename = "chunk_bytes")]
    pub chunk: u64,
}

impl fmt::Display for PairTransfer {
    /// `4 × Simple, 512K`: channels, protocol and chunk.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (channels, protocol) = (self.channels, self.protocol);
        write!(f, "{channels} × {protocol}, {}", short(self.chunk))
    }
}

impl Transfers {
    /// What is taken for these sizes; `None` for collectives that are not made of transfers.
    ///
    /// # Errors
    /// The plan contradicts itself.
    pub fn of(
        plan: &Plan,
        model: Option<&AlphaBeta>,
        collective: Collective,
        sizes: &[u64],
    ) -> Result<Option<Self>, Error> {
        if !matches!(collective, Collective::AllToAll | Collective::SendRecv) {
            return Ok(None);
        }
        let expansion = plan.expansion()?;
        let layout = expansion.layout();
        let place = expansion.place(0)?;
        let is_beside = |rank: &u32| {
            layout
                .rank(*rank)
                .is_some_and(|it| it.node.node == place.node.node)
        };
        let (mut inside, mut outside) = (None, None);
        for round in expansion.schedule(0).filter(|round| round.send != 0) {
            match is_beside(&round.send) {
                true => inside = inside.or(Some(round.send)),
                false => outside = outside.or(Some(round.send)),
            }
        }
        let pieces = match collective {
            Collective::AllToAll => u64::from(layout.ranks().max(1)),
            _ => 1,
        };
        let pair = |peer: Option<u32>, bytes| match peer {
            Some(peer) => PairTransfer::of(plan, peer, bytes).map(Some),
            None => Ok(None),
        };
        let beside = layout.ranks_of(place.node).len() as u32;
        let mut found = Vec::with_capacity(sizes.len());
        for bytes in sizes {
            let pair_bytes = bytes / pieces;
            let size = TransferSize {
                bytes: *bytes,
                pair_bytes,
                local: pair(inside, pair_bytes)?,
                remote: pair(outside, pair_bytes)?,
                time_us: None,
            };
            let time_us = model.and_then(|model| {
                size.estimate(
                    expansion.common(),
                    model,
                    collective,
                    [beside, layout.ranks()],
                )
            });
            found.push(TransferSize { time_us, ..size });
        }
        let p2p = expansion.common().p2p;
        Ok(Some(Self {
            channels: p2p.channels,
            per_peer: expansion.per_peer(place.node),
            order: expansion.schedule(0).map(|round| round.send).collect(),
            fewer_beyond: fewer_beyond(plan, expansion.per_peer(place.node), layout.nodes()),
            sizes: found,
        }))
    }
}

impl PairTransfer {
    /// A transfer of rank 0 to a peer.
    fn of(plan: &Plan, peer: u32, bytes: u64) -> Result<Self, Error> {
        let expansion = plan.expansion()?;
        let common = expansion.common();
        let step_of = |protocol| match protocol {
            Protocol::Ll => common.buffers.ll / STEPS as i64,
            _ => common.p2p.chunk_size,
        };
        let connection = |channels: &[u16]| {
            let first = channels.first().copied().unwrap_or(0);
            expansion.p2p_connection(0, peer, first.into())
        };
        let mut used = expansion.transfer_channels(0, peer, bytes)?;
        let is_network = matches!(connection(&used)?, Connection::Network { .. });
        let p2p = common.p2p;
        let has_buffer = !is_network || p2p.network_ll;
        let takes_ll = |channels: u32| {
            let most = i128::from(channels) * i128::from(p2p.ll_bytes);
            match has_buffer && i128::from(bytes) <= most {
                true => Protocol::Ll,
                false => Protocol::Simple,
            }
        };
        // Until 2.28 all channels of the pair decide, before those that are used are counted.
        let is_new =
            NcclVersion::of_profile(&plan.profile).is_none_or(|it| it >= NcclVersion::V2_29);
        let protocol = match is_new {
            true => takes_ll(used.len() as u32),
            false => takes_ll(expansion.per_peer(expansion.place(0)?.node)),
        };
        if !is_new {
            used = expansion.transfer_channels_in_steps(0, peer, bytes, step_of(protocol))?;
        }
        let channels = used.len() as u32;
        let step = u64::try_from(step_of(protocol)).unwrap_or(0);
        let chunk = match (p2p.given_chunk, is_network) {
            // NCCL keeps 32 bits.
            (Some(given), _) => given as u32 as u64,
            (None, true) if bytes < step && protocol == Protocol::Simple => step / 4,
            (None, true) if bytes < 8 * step => step / 2,
            _ => step,
        };
        let chunk = match protocol {
            // Half of LL's bytes are flags.
            Protocol::Ll => 2 * rounded(chunk / 2),
            _ => rounded(chunk),
        };
        Ok(Self {
            channels,
            protocol,
            chunk,
        })
    }
}

impl TransferSize {
    /// The time: α for each batch of peers, and the bytes that leave a GPU over NVLink or PCI, and
    /// a node over the network.
    fn estimate(
        &self,
        common: &Common,
        model: &AlphaBeta,
        collective: Collective,
        [beside, ranks]: [u32; 2],
    ) -> Option<f64> {
        let ring = common.graph(GraphKind::Ring)?;
        let all = |bw: f32| f64::from(bw) * f64::from(ring.channels);
        let bytes = self.pair_bytes as f64;
        // Bytes by GB/s are ns.
        let (local, remote) = match collective {
            Collective::AllToAll => {
                let remote_bytes = f64::from(beside) * f64::from(ranks - beside) * bytes;
                (
                    f64::from(beside.saturating_sub(1)) * bytes / all(ring.bw_intra),
                    remote_bytes / all(ring.bw_inter),
                )
            }
            _ => {
                let over = |pair: Option<PairTransfer>, bw: f32| {
                    pair.map_or(0.0, |pair| {
                        bytes / all(bw).min(f64::from(bw) * f64::from(pair.channels))
                    })
                };
                match self.remote {
                    Some(_) => (0.0, over(self.remote, ring.bw_inter)),
                    None => (over(self.local, ring.bw_intra), 0.0),
                }
            }
        };
        let remote = if remote.is_finite() { remote } else { 0.0 };
        let peers = match collective {
            Collective::AllToAll => ranks.saturating_sub(1),
            _ => 1,
        };
        let pair = self.remote.or(self.local)?;
        let at_once = common.p2p.channels / pair.channels.max(1) * PEERS_PER_BATCH;
        let batches = peers.div_ceil(at_once.max(1));
        Some(model.alpha_us() * f64::from(batches) + local.max(remote) / 1e3)
    }
}

/// Writes the number of ranks beyond which pairs have fewer channels.
fn ranks_alone<S: Serializer>(
    beyond: &Option<(u32, u32)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    beyond.map(|(ranks, _)| ranks).serialize(serializer)
}

/// A length as a kernel is told it: its first four bits that count.
fn rounded(bytes: u64) -> u64 {
    let dropped = bytes.checked_ilog2().unwrap_or(0).saturating_sub(3);
    bytes >> dropped << dropped
}

/// Above how many ranks a pair has fewer channels, and how many. From 2.29 on channels are halved
/// until batches of eight peers fit, before they fall to one.
fn fewer_beyond(plan: &Plan, per_peer: u32, nodes: u32) -> Option<(u32, u32)> {
    let given = |name: &str| plan.settings.iter().any(|it| it.name == name);
    if nodes < 2 || per_peer < 2 || given("NCCL_NCHANNELS_PER_NET_PEER") {
        return None;
    }
    let channels = plan.common.as_ref()?.p2p.channels;
    match NcclVersion::of_profile(&plan.profile)? {
        NcclVersion::V2_27 | NcclVersion::V2_28 => (per_peer == 2).then_some((2 * channels, 1)),
        _ if given("NCCL_P2P_MAX_PEERS") => None,
        _ => Some((channels / per_peer * PEERS_PER_BATCH, per_peer / 2)),
    }
}
