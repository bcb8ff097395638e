//! Which network port a rank uses, and whose proxy drives it.

use plan::{GraphKind, Pattern};
use topology::{NcclId, NodeId, NodeType, PathType, System};

use super::Joined;
use crate::cluster::RankPlace;
use crate::error::{Error, name};
use crate::routing::{Gdr, Routing};

/// One side of a connection over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetEnd {
    /// NCCL's id of the port.
    pub id: NcclId,
    /// The plug-in's device number.
    pub dev: i32,
    /// The rank whose proxy drives the port: the rank itself, or with PXN the one beside the port.
    pub proxy: u32,
    /// Whether the NIC reaches the GPU's memory.
    pub gdr: Gdr,
}

impl Joined {
    pub(super) fn place(&self, rank: u32) -> Result<RankPlace, Error> {
        self.layout().rank(rank).ok_or(Error::NoSuchRank {
            rank,
            ranks: self.layout().ranks(),
        })
    }

    pub(super) fn routing(&self, place: RankPlace) -> &Routing {
        self.node_plan(place.node).view.routing()
    }

    pub(super) fn gpu(&self, place: RankPlace) -> Result<NodeId, Error> {
        let system = self.routing(place).system();
        system.gpu_of_rank(place.local as i32).ok_or(Error::NoGpu)
    }

    /// The port that a rank uses for a channel of a graph. `sends`: it sends, otherwise it receives.
    ///
    /// # Errors
    /// The rank is beyond the job, or the graph leads through no port.
    pub fn net_end(
        &self,
        rank: u32,
        kind: GraphKind,
        channel: u32,
        sends: bool,
    ) -> Result<NetEnd, Error> {
        let place = self.place(rank)?;
        let (routing, gpu) = (self.routing(place), self.gpu(place)?);
        let system = routing.system();
        let without = || Error::NoNet {
            gpu: name(system, gpu),
            why: format!("channel {channel} of the {kind} graph leaves the host there"),
        };
        let id = self
            .net_id(place, kind, channel)
            .filter(|id| *id >= 0)
            .ok_or_else(without)?;
        let net = system
            .find(NodeType::Net, NcclId(id as u64))
            .ok_or_else(without)?;
        let driver = routing.intermediate_gpu(gpu, net).unwrap_or(gpu);
        Ok(net_end(place, routing, gpu, net, driver, sends))
    }

    /// NCCL's id of the port, from the searched graph: the first GPU of a channel has the port where the channel enters,
    /// every other the one where it leaves.
    fn net_id(&self, place: RankPlace, kind: GraphKind, channel: u32) -> Option<i64> {
        let graph = self.node_plan(place.node).graph(kind)?;
        let local = place.local as i32;
        if graph.pattern == Pattern::Nvls {
            let own = || {
                graph
                    .channels
                    .iter()
                    .filter(|found| found.ranks.first() == Some(&local))
            };
            let count = own().count();
            return own()
                .nth((channel as usize).checked_rem(count)?)?
                .nets
                .map(|nets| nets[0]);
        }
        let merged = self.facts.graph(kind).channels;
        let found = graph.channels.get(channel.checked_rem(merged)? as usize)?;
        found
            .nets
            .map(|nets| nets[usize::from(found.ranks.first() != Some(&local))])
    }

    /// The port on which a rank sends to a peer point to point: its own, or (PXN) the one that the peer's rail ends at,
    /// driven by the rank beside it.
    ///
    /// # Errors
    /// A rank is beyond the job, or the sender reaches no port.
    pub fn p2p_sender(&self, rank: u32, peer: u32, channel: u32) -> Result<NetEnd, Error> {
        let (place, peer) = (self.place(rank)?, self.place(peer)?);
        let (routing, gpu) = (self.routing(place), self.gpu(place)?);
        let (system, settings) = (routing.system(), routing.settings());
        let own = routing.local_net(gpu, channel as usize)?;
        let level = if settings.pxn_disable {
            0
        } else {
            settings.p2p_pxn_level
        };
        let end = |net, driver| net_end(place, routing, gpu, net, driver, true);
        let peer_dev = self
            .routing(peer)
            .system()
            .gpu(self.gpu(peer)?)
            .map(|gpu| gpu.dev);
        let twin =
            same_device(system, gpu, peer_dev).filter(|_| settings.cross_nic == 0 || level != 0);
        let Some(twin) = twin else {
            return Ok(end(own, gpu));
        };
        let rail = routing.local_net(twin, channel as usize)?;
        // Without crossing NICs the peer's rail is taken even where nobody beside it can drive it.
        let unrelayed = if settings.cross_nic == 0 { rail } else { own };
        match level {
            1 if routing.table().kind(gpu, rail) <= PathType::Pxn => Ok(end(
                rail,
                routing.intermediate_gpu(gpu, rail).unwrap_or(gpu),
            )),
            2 => {
                let driver = routing.local_gpu(rail).filter(|driver| {
                    routing.table().kind(*driver, gpu) <= PathType::Nvl
                        && routing.table().kind(*driver, rail) <= routing.pxn_limit()
                        && routing.gdr(*driver, rail, false) != Gdr::Disabled
                });
                Ok(driver.map_or_else(|| end(unrelayed, gpu), |driver| end(rail, driver)))
            }
            _ => Ok(end(unrelayed, gpu)),
        }
    }

    /// The port on which a rank receives point to point: its own.
    ///
    /// # Errors
    /// The rank is beyond the job, or reaches no port.
    pub fn p2p_receiver(&self, rank: u32, channel: u32) -> Result<NetEnd, Error> {
        let place = self.place(rank)?;
        let (routing, gpu) = (self.routing(place), self.gpu(place)?);
        let net = routing.local_net(gpu, channel as usize)?;
        Ok(net_end(place, routing, gpu, net, gpu, false))
    }
}

/// The GPU of the same host with this device number.
fn same_device(system: &System, gpu: NodeId, dev: Option<i32>) -> Option<NodeId> {
    let host = |node| system.node(node).id.system();
    let mut gpus = system.gpus();
    gpus.find(|(node, data)| Some(data.dev) == dev && host(*node) == host(gpu))
        .map(|(node, _)| node)
}

fn net_end(
    place: RankPlace,
    routing: &Routing,
    gpu: NodeId,
    net: NodeId,
    driver: NodeId,
    sends: bool,
) -> NetEnd {
    let system = routing.system();
    let proxy = system
        .gpu(driver)
        .map_or(place.local, |driver| driver.rank as u32);
    NetEnd {
        id: system.node(net).id,
        dev: system.net(net).map_or(-1, |net| net.dev),
        proxy: place.node.first_rank + proxy,
        gdr: routing.gdr(gpu, net, sends),
    }
}
