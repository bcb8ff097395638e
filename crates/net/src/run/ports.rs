//! The NICs and proxies that a plan gives to connections between hosts.

use std::collections::HashMap;

use crate::{Ports, ReceiverPort, SenderPort};
use plan::{Connection, Expansion, GraphKind, NetEnd, Plan};

/// The ends of a plan's connections between hosts.
#[derive(Debug)]
pub struct PlanPorts {
    expansion: Expansion,
    /// The plan's channel of each of the run.
    channels: Vec<u32>,
    /// By machine: the numbers of its ports on their hosts.
    numbers: Vec<HashMap<i64, u32>>,
}

impl PlanPorts {
    /// Those of a plan. `channels`: the plan's channel of each that is run.
    pub fn new(plan: &Plan, expansion: Expansion, channels: Vec<u32>) -> Self {
        let numbers = plan.machines.iter().map(|machine| {
            let nics = machine.nics.iter();
            nics.filter_map(|nic| Some((nic.id, u32::try_from(nic.dev).ok()?)))
                .collect()
        });
        Self {
            numbers: numbers.collect(),
            expansion,
            channels,
        }
    }

    /// Both ends of a connection in its channel's ring or tree, or point to point.
    fn ends(&self, from: u32, to: u32, channel: u16) -> Option<(NetEnd, NetEnd)> {
        let at = usize::from(channel).checked_rem(self.channels.len())?;
        let channel = *self.channels.get(at)?;
        let expansion = &self.expansion;
        let ring = expansion.ring_place(from, channel);
        let tree = expansion.tree_place(from, channel).unwrap_or_default();
        let mut above_and_below = tree.up.into_iter().chain(tree.down.into_iter().flatten());
        let found = if ring.is_some_and(|it| it.next == to) {
            expansion.connection(from, to, GraphKind::Ring, channel)
        } else if above_and_below.any(|it| it == to) {
            expansion.connection(from, to, GraphKind::Tree, channel)
        } else {
            expansion.p2p_connection(from, to, channel)
        };
        match found {
            Ok(Connection::Network {
                sender, receiver, ..
            }) => Some((sender, receiver)),
            _ => None,
        }
    }

    fn number(&self, rank: u32, end: &NetEnd) -> Option<u32> {
        let machine = self.expansion.place(rank).ok()?.node.machine;
        let numbers = self.numbers.get(machine as usize)?;
        numbers.get(&end.net).copied()
    }
}

impl Ports for PlanPorts {
    fn leaves(&self, from: u32, to: u32, channel: u16) -> Option<SenderPort> {
        let (sender, _) = self.ends(from, to, channel)?;
        Some(SenderPort {
            nic: self.number(from, &sender)?,
            proxy: sender.proxy,
            rdma: sender.gdr.is_direct(),
        })
    }

    fn arrives(&self, from: u32, to: u32, channel: u16) -> Option<ReceiverPort> {
        let (_, receiver) = self.ends(from, to, channel)?;
        Some(ReceiverPort {
            nic: self.number(to, &receiver)?,
            rdma: receiver.gdr.is_direct(),
        })
    }
}
