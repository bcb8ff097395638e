//! The connections between any two ranks.

use serde::Serialize;

use super::Expansion;
use crate::error::Error;
use crate::graph::GraphKind;
use crate::layout::RankPlace;
use crate::transport::{Connection, GpuTransport, NetEnd, NotDirect, NotShared, PortUse};

/// One end of a ring's edge between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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

/// Two ranks and their transport, before ports are looked up.
enum PairTransport {
    Done(Connection),
    Network(NotDirect, NotShared),
}

impl Expansion {
    /// The transport that the sender's node decided, or the one between different nodes.
    fn transport(&self, from: RankPlace, to: RankPlace) -> Result<PairTransport, Error> {
        if from.node.node != to.node.node {
            let same_host = from.host == to.host;
            let not_direct = if same_host {
                NotDirect::OtherNode
            } else {
                NotDirect::OtherHost
            };
            return Ok(match (same_host, self.common.shared_memory) {
                (true, true) => PairTransport::Done(Connection::SharedMemory {
                    not_direct,
                    path: None,
                }),
                (true, false) => PairTransport::Network(not_direct, NotShared::OtherNode),
                (false, _) => PairTransport::Network(not_direct, NotShared::OtherHost),
            });
        }
        let transports = &self.parts(from.node).transports;
        let row = transports.between.get(from.member as usize);
        let transport = row
            .and_then(|row| row.get(to.member as usize))
            .and_then(|index| transports.distinct.get(usize::from(*index)));
        match transport {
            Some(GpuTransport::Direct {
                via,
                read,
                path,
                bw,
            }) => Ok(PairTransport::Done(Connection::Direct {
                via: via.map(|via| self.layout.rank_at(from.node, via)),
                read: *read,
                path: *path,
                bw: *bw,
            })),
            Some(GpuTransport::SharedMemory {
                not_direct,
                path,
                bw,
            }) => Ok(PairTransport::Done(Connection::SharedMemory {
                not_direct: *not_direct,
                path: Some((*path, *bw)),
            })),
            Some(GpuTransport::Network {
                not_direct,
                not_shared,
            }) => Ok(PairTransport::Network(*not_direct, *not_shared)),
            None => Err(Error::NoConnections { rank: from.rank }),
        }
    }

    /// The connection between two ranks in a channel of a graph, as the sender decides. For trees
    /// over NVLink SHARP the graph is [`GraphKind::Nvls`].
    ///
    /// # Errors
    /// A rank is beyond the job; or only the network is left, and the graph has no port there.
    pub fn connection(
        &self,
        from: u32,
        to: u32,
        kind: GraphKind,
        channel: u32,
    ) -> Result<Connection, Error> {
        let (sender, receiver) = (self.place(from)?, self.place(to)?);
        let (not_direct, not_shared) = match self.transport(sender, receiver)? {
            PairTransport::Done(connection) => return Ok(connection),
            PairTransport::Network(not_direct, not_shared) => (not_direct, not_shared),
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

    /// The connection between two ranks point to point. `channel` is the connection's own, from 0
    /// to [`P2pChannels::channels`](crate::P2pChannels::channels).
    ///
    /// # Errors
    /// A rank is beyond the job; or only the network is left, and a rank reaches no port.
    pub fn p2p_connection(&self, from: u32, to: u32, channel: u32) -> Result<Connection, Error> {
        let (sender, receiver) = (self.place(from)?, self.place(to)?);
        let (not_direct, not_shared) = match self.transport(sender, receiver)? {
            PairTransport::Done(connection) => return Ok(connection),
            PairTransport::Network(not_direct, not_shared) => (not_direct, not_shared),
        };
        Ok(Connection::Network {
            not_direct,
            not_shared,
            sender: self.p2p_sender(from, to, channel)?,
            receiver: self.p2p_receiver(to, channel)?,
        })
    }

    /// The port that a rank uses for a channel of a graph. `sends`: it sends, otherwise it
    /// receives.
    ///
    /// # Errors
    /// The rank is beyond the job, or the graph has no port.
    pub fn net_end(
        &self,
        rank: u32,
        kind: GraphKind,
        channel: u32,
        sends: bool,
    ) -> Result<NetEnd, Error> {
        let place = self.place(rank)?;
        let parts = self.parts(place.node);
        let merged = self.common.graph_channels(kind);
        let port = parts
            .net(kind, channel, merged, place.local)
            .and_then(|net| parts.transports.port(place.local, net));
        let port = port.ok_or(Error::NoPort {
            rank,
            kind: Some(kind),
            channel,
        })?;
        Ok(self.end(place, port, port.proxy, sends))
    }

    fn end(&self, place: RankPlace, port: &PortUse, proxy: Option<u32>, sends: bool) -> NetEnd {
        NetEnd {
            net: port.net,
            proxy: self
                .layout
                .rank_at(place.node, proxy.unwrap_or(place.local)),
            gdr: if sends { port.send } else { port.receive },
            path_type: port.path_type,
            bw: port.bw,
        }
    }

    /// The port on which a rank sends to a peer point to point: its own, or with PXN the port on
    /// the peer's rail, driven by the rank beside that port.
    ///
    /// # Errors
    /// A rank is beyond the job, or the sender reaches no port.
    pub fn p2p_sender(&self, rank: u32, peer: u32, channel: u32) -> Result<NetEnd, Error> {
        let (place, peer) = (self.place(rank)?, self.place(peer)?);
        let transports = &self.parts(place.node).transports;
        let none = Error::NoPort {
            rank,
            kind: None,
            channel,
        };
        let Some(ports) = transports.p2p(place.local) else {
            return Err(none);
        };
        let rail = ports
            .rails
            .iter()
            .find(|rail| Some(rail.dev) == self.dev(peer));
        let at = |length: usize| (channel as usize).checked_rem(length);
        let chosen = match rail {
            Some(rail) => at(rail.ports.len())
                .and_then(|at| rail.ports.get(at))
                .map(|port| (port.net, port.proxy)),
            None => at(ports.own.len())
                .and_then(|at| ports.own.get(at))
                .map(|net| (*net, None)),
        };
        let found =
            chosen.and_then(|(net, proxy)| Some((transports.port(place.local, net)?, proxy)));
        let (port, proxy) = found.ok_or(none)?;
        Ok(self.end(place, port, proxy, true))
    }

    /// The port on which a rank receives point to point: its own, which it drives itself.
    ///
    /// # Errors
    /// The rank is beyond the job, or reaches no port.
    pub fn p2p_receiver(&self, rank: u32, channel: u32) -> Result<NetEnd, Error> {
        let place = self.place(rank)?;
        let transports = &self.parts(place.node).transports;
        let own = transports.p2p(place.local).map(|ports| &ports.own);
        let net = own.and_then(|own| own.get((channel as usize).checked_rem(own.len())?));
        let port = net.and_then(|net| transports.port(place.local, *net));
        let port = port.ok_or(Error::NoPort {
            rank,
            kind: None,
            channel,
        })?;
        Ok(self.end(place, port, None, false))
    }

    /// Device number of a rank's GPU.
    fn dev(&self, place: RankPlace) -> Option<i32> {
        let devs = &self.parts(place.node).devs;
        devs.get(place.member as usize).copied()
    }

    /// The connections on which a rank sends, in rings and trees: channel, receiver, connection.
    ///
    /// # Errors
    /// As [`Expansion::connection`].
    pub fn sends(&self, rank: u32, kind: GraphKind) -> Result<Vec<(u32, u32, Connection)>, Error> {
        self.place(rank)?;
        let mut found = Vec::new();
        for channel in 0..self.channels() {
            let mut peers: Vec<u32> = Vec::new();
            match kind {
                GraphKind::Ring => {
                    peers.extend(self.ring_place(rank, channel).map(|place| place.next));
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

    /// The ends of ring edges to other nodes at a rank, channel by channel, receiving before
    /// sending.
    ///
    /// # Errors
    /// The rank is beyond the job, or a ring has no port.
    pub fn ring_edges(&self, rank: u32) -> Result<Vec<RingEdge>, Error> {
        let own = self.place(rank)?.node.node;
        let mut edges = Vec::new();
        for channel in 0..self.channels() {
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
