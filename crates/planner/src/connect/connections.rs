//! How bytes travel between two neighbours: directly, through shared memory, or over the network, and why.

use plan::GraphKind;
use topology::PathType;

use super::Joined;
use super::ports::NetEnd;
use crate::error::Error;

/// Why two GPUs do not talk directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDirect {
    /// They are in different hosts without a common NVLink domain.
    OtherHost,
    /// They are in different nodes of one host: the sender planned without the receiver.
    OtherNode,
    /// The path between them is worse than what is allowed.
    Path {
        /// Their path.
        path: PathType,
        /// The worst that is allowed (`NCCL_P2P_LEVEL`).
        limit: PathType,
    },
    /// A GPU in between would have to relay, which copies by the driver cannot (`NCCL_P2P_USE_CUDA_MEMCPY`).
    Relay,
    /// Both reach a close NIC with more bandwidth than each other.
    NetworkFaster,
}

/// Why two ranks do not share host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotShared {
    /// They are in different hosts.
    OtherHost,
    /// It is switched off (`NCCL_SHM_DISABLE`).
    Disabled,
    /// Both reach a close NIC with more bandwidth than each other.
    NetworkFaster,
}

/// How bytes travel from one rank to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Connection {
    /// GPU to GPU.
    Direct {
        /// The rank on the GPU that relays.
        via: Option<u32>,
        /// The receiver reads instead of the sender writing.
        read: bool,
        /// The path.
        path: PathType,
        /// Its bandwidth, GB/s.
        bw: f32,
    },
    /// Through memory of the host.
    SharedMemory {
        /// Why not directly.
        not_direct: NotDirect,
        /// The path between the GPUs and its bandwidth, GB/s, where the sender's view holds both.
        path: Option<(PathType, f32)>,
    },
    /// Over the network.
    Network {
        /// Why not directly.
        not_direct: NotDirect,
        /// Why not through the host's memory.
        not_shared: NotShared,
        /// The sender's port.
        sender: NetEnd,
        /// The receiver's port.
        receiver: NetEnd,
    },
}

/// One end of a ring's edge between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingEdge {
    /// Channel.
    pub channel: u32,
    /// The rank at the other end.
    pub peer: u32,
    /// The rank sends on this edge; otherwise it receives.
    pub sends: bool,
    /// The rank's port; a receiver drives it itself, whatever `proxy` says.
    pub net: NetEnd,
}

impl Joined {
    /// How bytes travel between two ranks in a channel of a graph, as the sender decides.
    ///
    /// # Errors
    /// A rank is beyond the job, or only the network is left and there is none.
    pub fn connection(
        &self,
        from: u32,
        to: u32,
        kind: GraphKind,
        channel: u32,
    ) -> Result<Connection, Error> {
        let (sender, receiver) = (self.place(from)?, self.place(to)?);
        let routing = self.routing(sender);
        let same_node = sender.node.node == receiver.node.node;
        let same_host = sender.host == receiver.host;
        let ends = match same_node {
            true => Some((self.gpu(sender)?, self.gpu(receiver)?)),
            false => None,
        };
        let not_direct = match ends {
            None if same_host => NotDirect::OtherNode,
            None => NotDirect::OtherHost,
            Some((from, to)) => {
                let p2p = routing.p2p(from, to)?;
                let path = routing.table().path(from, to);
                if !p2p.ok {
                    NotDirect::Path {
                        path: path.kind,
                        limit: p2p.limit,
                    }
                } else if p2p.relay.is_some() && routing.settings().p2p_use_cuda_memcpy {
                    NotDirect::Relay
                } else if p2p.relay.is_none() && routing.net_faster(from, to) {
                    NotDirect::NetworkFaster
                } else {
                    let via = p2p.relay.and_then(|relay| routing.system().gpu(relay));
                    return Ok(Connection::Direct {
                        via: via.map(|relay| sender.node.first_rank + relay.rank as u32),
                        read: routing.settings().connect.p2p_read.unwrap_or(p2p.read),
                        path: path.kind,
                        bw: path.bw,
                    });
                }
            }
        };
        let not_shared = if !same_host {
            NotShared::OtherHost
        } else if routing.settings().shm_disable {
            NotShared::Disabled
        } else if ends.is_some_and(|(from, to)| routing.net_faster(from, to)) {
            NotShared::NetworkFaster
        } else {
            let path = ends.map(|(from, to)| {
                let path = routing.table().path(from, to);
                (path.kind, path.bw)
            });
            return Ok(Connection::SharedMemory { not_direct, path });
        };
        Ok(Connection::Network {
            not_direct,
            not_shared,
            sender: self.net_end(from, kind, channel, true)?,
            // Receivers drive their port themselves, whatever the look-up says.
            receiver: NetEnd {
                proxy: to,
                ..self.net_end(to, kind, channel, false)?
            },
        })
    }

    /// The connections on which a rank sends: to its ring's next, and in its tree up and down. Channel, receiver, way.
    ///
    /// # Errors
    /// As [`Joined::connection`].
    pub fn sends(&self, rank: u32, kind: GraphKind) -> Result<Vec<(u32, u32, Connection)>, Error> {
        self.place(rank)?;
        let mut found = Vec::new();
        for channel in 0..self.channels.count() {
            let mut peers: Vec<u32> = Vec::new();
            match kind {
                GraphKind::Ring => {
                    peers.extend(self.ring_place(rank, channel).map(|place| place.next))
                }
                GraphKind::Tree => {
                    let place = self.tree_place(rank, channel).unwrap_or_default();
                    peers.extend(place.up.into_iter().chain(place.down.into_iter().flatten()));
                }
                _ => {}
            }
            for peer in peers.into_iter().filter(|peer| *peer != rank) {
                found.push((channel, peer, self.connection(rank, peer, kind, channel)?));
            }
        }
        Ok(found)
    }

    /// The ends of ring edges to other nodes at a rank, channel by channel, receiving before sending.
    ///
    /// # Errors
    /// The rank is beyond the job, or a ring leads through no port.
    pub fn ring_edges(&self, rank: u32) -> Result<Vec<RingEdge>, Error> {
        let own = self.place(rank)?.node.node;
        let mut edges = Vec::new();
        for channel in 0..self.channels.count() {
            let Some(ring) = self.ring_place(rank, channel) else {
                continue;
            };
            for (peer, sends) in [(ring.previous, false), (ring.next, true)] {
                if self.place(peer)?.node.node != own {
                    let net = self.net_end(rank, GraphKind::Ring, channel, sends)?;
                    edges.push(RingEdge {
                        channel,
                        peer,
                        sends,
                        net,
                    });
                }
            }
        }
        Ok(edges)
    }
}
