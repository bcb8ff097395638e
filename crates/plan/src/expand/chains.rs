//! The parts of one node: the GPU orders of its channels, the position of each GPU, and its ports.

use crate::graph::{Graph, GraphKind, Pattern};
use crate::transport::Transports;

/// A channel that does not hold every GPU of its node once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("channel {channel} of the {graph} graph does not hold each of the {gpus} GPUs once")]
pub struct BrokenChannel {
    /// The graph's kind.
    pub graph: GraphKind,
    /// Channel number.
    pub channel: usize,
    /// GPUs of the node.
    pub gpus: usize,
}

/// The channels of one graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chains {
    pub pattern: Pattern,
    pub cross_nic: i32,
    /// GPUs of the domain, channel after channel.
    order: Vec<u32>,
    /// For each channel, the position of each GPU of the node in the channel.
    position: Vec<u32>,
    /// The ports of each channel, if the graph has any.
    nets: Vec<Option<[i64; 2]>>,
    gpus: usize,
}

impl Chains {
    fn none(pattern: Pattern) -> Self {
        Self {
            pattern,
            cross_nic: 0,
            order: Vec::new(),
            position: Vec::new(),
            nets: Vec::new(),
            gpus: 0,
        }
    }

    /// The first `channels` channels of a graph over these GPUs (ascending).
    fn new(graph: &Graph, channels: usize, members: &[u32]) -> Result<Self, BrokenChannel> {
        let gpus = members.len();
        let mut chains = Self {
            cross_nic: graph.cross_nic,
            gpus,
            ..Self::none(graph.pattern)
        };
        for (channel, found) in graph.channels.iter().take(channels).enumerate() {
            let broken = || BrokenChannel {
                graph: graph.kind,
                channel,
                gpus,
            };
            let mut position = vec![u32::MAX; gpus];
            for (at, rank) in found.ranks.iter().enumerate() {
                let rank = u32::try_from(*rank).map_err(|_| broken())?;
                let member = members.binary_search(&rank).map_err(|_| broken())?;
                if position[member] != u32::MAX {
                    return Err(broken());
                }
                position[member] = at as u32;
                chains.order.push(rank);
            }
            if found.ranks.len() != gpus {
                return Err(broken());
            }
            chains.position.extend(position);
            chains.nets.push(found.nets);
        }
        Ok(chains)
    }

    /// The GPUs of a channel in order; empty for channels that the graph does not have.
    pub(crate) fn order(&self, channel: u32) -> &[u32] {
        let first = channel as usize * self.gpus;
        self.order.get(first..first + self.gpus).unwrap_or_default()
    }

    /// The position in a channel of the node's n-th GPU.
    pub(crate) fn position(&self, channel: u32, member: u32) -> u32 {
        self.position
            .get(channel as usize * self.gpus + member as usize)
            .copied()
            .unwrap_or(0)
    }

    /// The port of a GPU: the first GPU of a channel has the entry port, every other the exit port.
    /// `inner`: the ports of channels that name none.
    fn net(&self, channel: u32, local: u32, inner: [i64; 2]) -> Option<i64> {
        let nets = self.nets.get(channel as usize)?.unwrap_or(inner);
        let enters = self.order(channel).first() == Some(&local);
        Some(nets[usize::from(!enters)])
    }
}

/// The parts of one node that the expansion needs. GPUs are counted from their domain's first.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeParts {
    pub(crate) ring: Chains,
    pub(crate) tree: Chains,
    pub(crate) collnet_chain: Chains,
    pub(crate) collnet_direct: Chains,
    /// The heads of NVLink SHARP: distinct first GPUs of its channels.
    pub(crate) nvls_heads: Vec<u32>,
    /// The first GPU of each of its channels, and the port where the channel enters.
    nvls_nets: Vec<(u32, i64)>,
    pub(crate) transports: Transports,
    /// Device numbers of the GPUs.
    pub(crate) devs: Vec<i32>,
}

impl NodeParts {
    /// Creates the parts from the graphs of a node (those not searched may be missing), the number
    /// of channels of rings and trees, and the node's GPUs (ascending) with their device numbers.
    ///
    /// # Errors
    /// A channel does not hold each of the GPUs once.
    pub fn new(
        graphs: &[Graph],
        searched: u32,
        gpus: &[(u32, i32)],
        transports: Transports,
    ) -> Result<Self, BrokenChannel> {
        let members: Vec<u32> = gpus.iter().map(|(gpu, _)| *gpu).collect();
        let graph = |kind| graphs.iter().find(|graph| graph.kind == kind);
        let chains = |kind, pattern, channels| match graph(kind) {
            Some(graph) => Chains::new(graph, channels, &members),
            None => Ok(Chains::none(pattern)),
        };
        let mut nvls_heads: Vec<u32> = Vec::new();
        let mut nvls_nets = Vec::new();
        if let Some(nvls) = graph(GraphKind::Nvls) {
            for (channel, found) in nvls.channels.iter().enumerate() {
                let head = found
                    .ranks
                    .first()
                    .and_then(|head| u32::try_from(*head).ok());
                let Some(head) = head.filter(|head| members.binary_search(head).is_ok()) else {
                    return Err(BrokenChannel {
                        graph: GraphKind::Nvls,
                        channel,
                        gpus: members.len(),
                    });
                };
                nvls_nets.push((head, found.nets.map_or(-1, |nets| nets[0])));
                if !nvls_heads.contains(&head) {
                    nvls_heads.push(head);
                }
            }
        }
        let all = usize::MAX;
        Ok(Self {
            ring: chains(GraphKind::Ring, Pattern::Ring, searched as usize)?,
            tree: chains(GraphKind::Tree, Pattern::Tree, searched as usize)?,
            collnet_chain: chains(GraphKind::CollnetChain, Pattern::Tree, all)?,
            collnet_direct: chains(GraphKind::CollnetDirect, Pattern::CollnetDirect, all)?,
            nvls_heads,
            nvls_nets,
            transports,
            devs: gpus.iter().map(|(_, dev)| *dev).collect(),
        })
    }

    /// Sets the transports of the GPUs.
    pub fn set_transports(&mut self, transports: Transports) {
        self.transports = transports;
    }

    /// The transports of the GPUs.
    pub const fn transports(&self) -> &Transports {
        &self.transports
    }

    /// Heads of NVLink SHARP.
    pub const fn nvls_heads(&self) -> usize {
        self.nvls_heads.len()
    }

    /// The port that a GPU uses for a channel of a graph that has `merged` channels after the
    /// nodes' graphs were compared; `None` if the graph names none.
    ///
    /// In a graph without ports it is port 0, unless a fallback channel has ports of its own. If
    /// GPUs of one node reach each other only through the network, NCCL reads a record that was
    /// zeroed before the search.
    pub fn net(&self, kind: GraphKind, channel: u32, merged: u32, local: u32) -> Option<i64> {
        let chains = match kind {
            GraphKind::Ring => &self.ring,
            GraphKind::Tree => &self.tree,
            GraphKind::CollnetChain => &self.collnet_chain,
            GraphKind::CollnetDirect => &self.collnet_direct,
            GraphKind::Nvls => {
                let own = || self.nvls_nets.iter().filter(|(head, _)| *head == local);
                let at = (channel as usize).checked_rem(own().count())?;
                return own().nth(at).map(|(_, net)| *net).filter(|net| *net >= 0);
            }
        };
        let inner = self.transports.inner(kind).unwrap_or_default();
        chains.net(channel.checked_rem(merged)?, local, inner)
    }

    /// The GPUs of a node that send or receive at ports, with those ports. `base` is the searched
    /// channel that each channel of the job repeats. `everyone`: some GPUs of the node reach each
    /// other only through the network. `paired`: every node swaps paired rings.
    pub fn net_uses(
        &self,
        base: &[u8],
        merged: impl Fn(GraphKind) -> u32,
        everyone: bool,
        paired: bool,
        members: &[u32],
    ) -> Vec<(u32, i64)> {
        let mut uses = Vec::new();
        for kind in GraphKind::IN_SEARCH_ORDER {
            let chains = match kind {
                GraphKind::Ring => &self.ring,
                GraphKind::Tree => &self.tree,
                GraphKind::CollnetChain => &self.collnet_chain,
                GraphKind::CollnetDirect => &self.collnet_direct,
                GraphKind::Nvls => {
                    uses.extend(self.nvls_nets.iter().copied().filter(|(_, net)| *net >= 0));
                    continue;
                }
            };
            let channels = merged(kind);
            let inner = self.transports.inner(kind).unwrap_or_default();
            // NCCL takes the port by the channel's own number, also where the channel repeats one
            // with another remainder.
            let repeated = base
                .iter()
                .zip(0..)
                .filter_map(|(base, channel): (&u8, u32)| {
                    Some((u32::from(*base), channel.checked_rem(channels)?))
                });
            for (base, channel) in (0..channels).map(|it| (it, it)).chain(repeated) {
                let Some(nets) = chains.nets.get(channel as usize) else {
                    continue;
                };
                let order = chains.order(base);
                // Alternating rings follow the other channel of their pair on every second node,
                // but keep their ports.
                let paired = chains.order(base ^ u32::from(paired || chains.cross_nic == 2));
                let ends = [
                    order.first(),
                    order.get(1),
                    order.last(),
                    paired.first(),
                    paired.last(),
                ];
                let ends = ends.into_iter().flatten().filter(|_| nets.is_some());
                let all = if everyone { members } else { &[] };
                let nets = ends
                    .chain(all)
                    .map(|gpu| (*gpu, chains.net(channel, *gpu, inner)));
                uses.extend(nets.filter_map(|(gpu, net)| Some((gpu, net?))));
            }
        }
        uses.sort_unstable();
        uses.dedup();
        uses
    }
}
