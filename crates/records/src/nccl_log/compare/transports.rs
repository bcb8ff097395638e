//! The connections of neighbors in rings and trees.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Connection, Expansion, GraphKind, NetEnd, Plan};

use crate::nccl_log::compare::answer::{Answer, ConnectionFacts, Local, Port};
use crate::nccl_log::compare::tally::Tally;

/// The connections of rings and trees by channel, sender and receiver. A ring's connection is there
/// first, and a tree uses it.
fn planned(expansion: &Expansion) -> BTreeMap<(u32, u32, u32), Connection> {
    let mut planned = BTreeMap::new();
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        for rank in 0..expansion.layout().ranks() {
            for (channel, to, connection) in expansion.sends(rank, kind).unwrap_or_default() {
                planned.entry((channel, rank, to)).or_insert(connection);
            }
        }
    }
    planned
}

#[derive(PartialEq)]
enum Kind {
    Local(Local),
    Network,
    None,
}

impl Kind {
    fn said(connected: &ConnectionFacts) -> Self {
        match connected.local {
            Some(local) => Self::Local(local),
            None if connected.sender.is_some() || connected.receiver.is_some() => Self::Network,
            None => Self::None,
        }
    }

    fn planned(connection: &Connection) -> Self {
        match connection {
            Connection::Direct { via, read, .. } => Self::Local(Local::Direct {
                via: *via,
                read: *read,
            }),
            Connection::SharedMemory { .. } => Self::Local(Local::SharedMemory),
            Connection::Network { .. } => Self::Network,
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Local(Local::Direct { via, read }) => {
                let via = via
                    .map(|via| format!(" via rank {via}"))
                    .unwrap_or_default();
                let read = if *read { ", the receiver reads" } else { "" };
                format!("direct{via}{read}")
            }
            Self::Local(Local::SharedMemory) => "shared memory".to_owned(),
            Self::Network => "network".to_owned(),
            Self::None => "none".to_owned(),
        }
    }
}

fn what((channel, from, to): &(u32, u32, u32)) -> String {
    format!("channel {channel}, rank {from} to {to}")
}

pub(super) fn kinds(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    if answer.connections.is_empty() {
        return;
    }
    for (ends, connection) in &planned(expansion) {
        let said = answer.connections.get(ends).map_or(Kind::None, Kind::said);
        if answer.is_partial && said == Kind::None {
            continue;
        }
        let planned = Kind::planned(connection);
        tally.compare(what(ends), &said, &planned, Kind::show);
    }
}

pub(super) fn ports(answer: &Answer, plan: &Plan, expansion: &Expansion, tally: &mut Tally) {
    let nics = plan.machines.iter().flat_map(|machine| &machine.nics);
    let devices: BTreeMap<i64, i32> = nics.map(|nic| (nic.id, nic.dev)).collect();
    let port = |end: &NetEnd| Port {
        device: devices.get(&end.net).copied().unwrap_or(-1),
        proxy: end.proxy,
        gdr: end.gdr.is_direct(),
    };
    let show = |port: &Option<Port>| match port {
        Some(port) => format!(
            "port {} by rank {}{}",
            port.device,
            port.proxy,
            if port.gdr { " with GPUDirect RDMA" } else { "" }
        ),
        None => "none".to_owned(),
    };
    let mut network = false;
    for (ends, connection) in &planned(expansion) {
        let (
            Connection::Network {
                sender, receiver, ..
            },
            Some(said),
        ) = (connection, answer.connections.get(ends))
        else {
            continue;
        };
        network = true;
        let what = what(ends);
        let planned = (Some(port(sender)), Some(port(receiver)));
        let ends = [
            ("sender", said.sender, planned.0),
            ("receiver", said.receiver, planned.1),
        ];
        for (end, said, planned) in ends {
            if said.is_some() || !answer.is_partial {
                tally.compare(format!("{what}, {end}"), &said, &planned, show);
            }
        }
    }
    if !network {
        tally.absent("no ring or tree uses the network");
    }
}

/// The channels on which any two ranks are connected point to point. They follow from the round in
/// which the ranks meet, so they also show its order.
pub(super) fn peers(answer: &Answer, expansion: &Expansion, tally: &mut Tally) {
    let Some(said) = &answer.peers else {
        return;
    };
    let mut nodes = expansion.machines().iter().flatten();
    let fails = nodes.any(|node| node.transports().contradictory_pair().is_some());
    match (&answer.peers_failure, fails) {
        (None, false) => {}
        (None, true) => return tally.differ("outcome", "transfers", "refused"),
        (Some(_), true) => return tally.agree(),
        (Some(error), false) => {
            return tally.differ("outcome", format!("refused: {error}"), "transfers");
        }
    }
    let none = BTreeSet::new();
    let show = |channels: &BTreeSet<u32>| {
        let channels: Vec<String> = channels.iter().map(u32::to_string).collect();
        channels.join(" ")
    };
    for rank in 0..expansion.layout().ranks() {
        for (peer, planned) in expansion.peer_channels(rank).unwrap_or_default() {
            let said = said.get(&(rank, peer)).unwrap_or(&none);
            tally.compare(format!("rank {rank} to {peer}"), said, &planned, show);
        }
    }
}
