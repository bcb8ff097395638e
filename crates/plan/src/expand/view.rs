//! The view of one rank: its part of the plan.

use crate::JsonSchema;
use serde::Serialize;

use super::Expansion;
use super::collnet::{Above, DirectPlace};
use crate::error::Error;
use crate::graph::GraphKind;
use crate::transport::{Connection, NetEnd};

/// A neighbor of a rank, and the connections to and from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PeerLink {
    /// The neighbor.
    pub peer: u32,
    /// The connection to it; `None` if nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Connection>,
    /// The connection from it; `None` if nothing is received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Connection>,
}

/// A rank in the ring of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RingView {
    /// The number of ranks before it if the ring begins at rank 0.
    pub index: u32,
    /// The rank that it receives from.
    pub previous: PeerLink,
    /// The rank that it sends to.
    pub next: PeerLink,
}

/// A rank in the tree of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TreeView {
    /// The rank above; `None` for the root.
    pub up: Option<PeerLink>,
    /// The ranks below, in NCCL's slots.
    pub down: [Option<PeerLink>; 3],
}

/// A rank in the chain of a channel towards a network that reduces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ChainView {
    /// The rank towards the network; `None` for the head, and if the rank is in no chain.
    pub up: Option<PeerLink>,
    /// The rank away from it.
    pub down: Option<PeerLink>,
    /// The port of the head.
    pub network: Option<NetEnd>,
}

/// One channel of collectives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ChannelView {
    /// Number of the channel.
    pub channel: u32,
    /// The ring; `None` for the only rank of a job.
    pub ring: Option<RingView>,
    /// The tree.
    pub tree: TreeView,
    /// The chain, if the network reduces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainView>,
}

/// A rank in one tree of NVLink SHARP over nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NvlsTreeView {
    /// The head above; `None` for the root.
    pub up: Option<PeerLink>,
    /// The heads below.
    pub down: [Option<PeerLink>; 2],
}

/// A rank in NVLink SHARP.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NvlsView {
    /// Channels.
    pub channels: u32,
    /// Heads of each node.
    pub heads: u32,
    /// Which head the rank is.
    pub head: Option<u32>,
    /// The two trees over nodes, of even and of odd channels; empty with one node, or if the rank
    /// is no head. Ports are those of channels 0 and 1.
    pub trees: Vec<NvlsTreeView>,
}

/// A rank in CollNetDirect, where heads collect for a network that reduces; equal in all channels.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CollnetView {
    /// Its place.
    pub place: DirectPlace,
    /// The other heads.
    pub up: Vec<PeerLink>,
    /// The ranks that it collects from, if it is a head.
    pub down: Vec<PeerLink>,
    /// Its port, if it is a head.
    pub network: Option<NetEnd>,
}

/// All that one rank does.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RankView {
    /// The rank.
    pub rank: u32,
    /// Its machine, as an index into the plan's `machines`.
    pub machine: u32,
    /// Its host, counted over the job.
    pub host: u32,
    /// Its node, counted over the job.
    pub node: u32,
    /// Its position among the ranks of the node.
    pub local_rank: u32,
    /// Its GPU, as an index into the machine's `gpus`.
    pub gpu: u32,
    /// The channels of collectives.
    pub channels: Vec<ChannelView>,
    /// NVLink SHARP, if the job has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvls: Option<NvlsView>,
    /// CollNetDirect, if the network reduces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collnet: Option<CollnetView>,
    /// The ports on which it receives point to point, for channels 0, 1 …; then they repeat.
    pub p2p_ports: Vec<NetEnd>,
}

impl Expansion {
    /// The view of one rank. The time does not depend on the number of ranks.
    ///
    /// The peers of point-to-point transfers, which are all ranks, come from
    /// [`Expansion::schedule`] and [`Expansion::p2p_connection`].
    ///
    /// # Errors
    /// The job has no such rank, or a channel leaves a node through no port.
    pub fn rank_view(&self, rank: u32) -> Result<RankView, Error> {
        let place = self.place(rank)?;
        let channels = (0..self.channels()).map(|channel| self.channel_view(rank, channel));
        let own = self.parts(place.node).transports.p2p(place.local);
        let own = own.map_or(0, |ports| ports.own.len() as u32);
        Ok(RankView {
            rank,
            machine: place.node.machine,
            host: place.host,
            node: place.node.node,
            local_rank: self.layout.position(place),
            gpu: place.local,
            channels: channels.collect::<Result<_, _>>()?,
            nvls: self.nvls_view(rank)?,
            collnet: self.collnet_view(rank)?,
            p2p_ports: (0..own)
                .map(|channel| self.p2p_receiver(rank, channel))
                .collect::<Result<_, _>>()?,
        })
    }

    /// A neighbor to which a rank sends and from which it receives.
    fn both(&self, rank: u32, peer: u32, kind: GraphKind, channel: u32) -> Result<PeerLink, Error> {
        Ok(PeerLink {
            peer,
            send: Some(self.connection(rank, peer, kind, channel)?),
            receive: Some(self.connection(peer, rank, kind, channel)?),
        })
    }

    fn maybe_both(
        &self,
        rank: u32,
        peer: Option<u32>,
        kind: GraphKind,
        channel: u32,
    ) -> Result<Option<PeerLink>, Error> {
        peer.map(|peer| self.both(rank, peer, kind, channel))
            .transpose()
    }

    /// One channel of a rank.
    ///
    /// # Errors
    /// The job has no such rank or channel, or the channel leaves a node through no port.
    pub fn channel_view(&self, rank: u32, channel: u32) -> Result<ChannelView, Error> {
        self.place(rank)?;
        let none = Error::NoSuchChannel {
            channel,
            channels: self.channels(),
        };
        let (Some(ring), Some(tree)) = (
            self.ring_place(rank, channel),
            self.tree_place(rank, channel),
        ) else {
            return Err(none);
        };
        let ring = if ring.next == rank {
            None
        } else {
            let connect = |from, to| self.connection(from, to, GraphKind::Ring, channel);
            Some(RingView {
                index: ring.index,
                previous: PeerLink {
                    peer: ring.previous,
                    send: None,
                    receive: Some(connect(ring.previous, rank)?),
                },
                next: PeerLink {
                    peer: ring.next,
                    send: Some(connect(rank, ring.next)?),
                    receive: None,
                },
            })
        };
        let beside = |peer| self.maybe_both(rank, peer, GraphKind::Tree, channel);
        let [first, second, third] = tree.down;
        Ok(ChannelView {
            channel,
            ring,
            tree: TreeView {
                up: beside(tree.up)?,
                down: [beside(first)?, beside(second)?, beside(third)?],
            },
            chain: self.chain_view(rank, channel)?,
        })
    }

    fn chain_view(&self, rank: u32, channel: u32) -> Result<Option<ChainView>, Error> {
        let Some(place) = self.chain_place(rank, channel) else {
            return Ok(None);
        };
        let kind = GraphKind::CollnetChain;
        let (up, network) = match place.up {
            None => (None, None),
            Some(Above::Rank(up)) => (Some(self.both(rank, up, kind, channel)?), None),
            Some(Above::Network) => (None, Some(self.net_end(rank, kind, channel, true)?)),
        };
        Ok(Some(ChainView {
            up,
            down: self.maybe_both(rank, place.down, kind, channel)?,
            network,
        }))
    }

    fn nvls_view(&self, rank: u32) -> Result<Option<NvlsView>, Error> {
        let (Some(nvls), Some(place)) = (self.common.nvls, self.nvls_place(rank)) else {
            return Ok(None);
        };
        let trees = if self.layout.nodes() > 1 && place.head.is_some() {
            let tree = |tree: usize| {
                let kind = GraphKind::Nvls;
                let beside = |peer| self.maybe_both(rank, peer, kind, tree as u32);
                let [left, right] = place.tree_down[tree];
                Ok::<_, Error>(NvlsTreeView {
                    up: beside(place.tree_up[tree])?,
                    down: [beside(left)?, beside(right)?],
                })
            };
            vec![tree(0)?, tree(1)?]
        } else {
            Vec::new()
        };
        Ok(Some(NvlsView {
            channels: nvls.channels,
            heads: nvls.heads,
            head: place.head,
            trees,
        }))
    }

    fn collnet_view(&self, rank: u32) -> Result<Option<CollnetView>, Error> {
        let Some(place) = self.direct_place(rank) else {
            return Ok(None);
        };
        let kind = GraphKind::CollnetDirect;
        let links = |peers: &[u32]| {
            let links = peers.iter().map(|peer| self.both(rank, *peer, kind, 0));
            links.collect::<Result<Vec<_>, _>>()
        };
        Ok(Some(CollnetView {
            up: links(&place.up)?,
            down: links(&place.down)?,
            network: place
                .head
                .map(|head| self.net_end(rank, kind, head, true))
                .transpose()?,
            place,
        }))
    }
}
