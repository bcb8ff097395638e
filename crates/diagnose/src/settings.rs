//! NCCL's log about settings, networks and hosts.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::{Likely, Possible, Proved};
use findings::causes::table::{network, nvlink, settings, start};
use findings::facts::{self, Code, Said};
use records::nccl_log::Log;
use records::nccl_log::log::{Communicator, HostFacts};
use records::nccl_log::statement::Stage;

use crate::verdict::{Line, Verdict, ranks};

/// The host of each rank, by the largest communicator. Ranks that have other hosts in other runs
/// are left out.
pub(crate) fn hosts(log: &Log) -> BTreeMap<u32, String> {
    let of = |communicators: &mut dyn Iterator<Item = &Communicator>| {
        let largest = communicators.max_by_key(|it| it.ranks);
        let members = largest.into_iter().flat_map(|it| &it.members);
        let hosts = members.filter_map(|it| Some((it.rank?, it.host.clone())));
        hosts.collect::<BTreeMap<u32, String>>()
    };
    let mut hosts = of(&mut log.communicators.iter());
    for run in &log.runs {
        let own = run.communicators.iter();
        let other = of(&mut own.filter_map(|it| log.communicators.get(*it)));
        hosts.retain(|rank, host| other.get(rank).is_none_or(|it| it == host));
    }
    hosts
}

/// Verdicts from the values that hosts and ranks log.
pub(crate) fn verdicts(log: &Log) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    verdicts.extend(gdr(log).or_else(|| gdr_of_connections(log)));
    verdicts.extend(differing(log).or_else(|| sharing(log)));
    verdicts.extend(networks(log));
    verdicts
}

/// Hosts by the network that they take.
type Sides<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Hosts that take different networks, so that their ranks cannot connect.
fn networks(log: &Log) -> Option<Verdict> {
    let connected = log.communicators.iter().find_map(connections);
    let (certainty, sides) = match connected {
        Some(sides) => (Proved, sides),
        None => (Likely, choices(log)?),
    };
    let texts = sides
        .iter()
        .take(3)
        .filter_map(|(network, hosts)| Some(format!("{network} on {}", hosts.first()?)));
    let what = format!(
        "The hosts take different networks, which do not connect to each other: {}.",
        texts.collect::<Vec<_>>().join(", ")
    );
    // Sockets are what NCCL takes if nothing else works.
    let is_last_choice = |network: &str| network == "Socket";
    let (network, fewest) = sides
        .iter()
        .min_by_key(|it| (it.1.len(), !is_last_choice(it.0)))?;
    let most = sides.values().map(BTreeSet::len).max()?;
    let is_odd = fewest.len() < most || is_last_choice(network);
    let hosts = fewest.iter().filter(|_| is_odd).take(16);
    Some(Verdict {
        hosts: hosts.map(|it| (*it).to_owned()).collect(),
        next: vec!["give all hosts the same plug-in (or none) and the same NICs; compare `Using network` in their logs".to_owned()],
        ..Verdict::new(&start::NETWORKS_DIFFER, certainty, what)
    })
}

/// The networks of the connections of a communicator, if hosts differ in them.
fn connections(communicator: &Communicator) -> Option<Sides<'_>> {
    let mut of_hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in &communicator.members {
        let networks = member.ports.keys().map(|(network, _)| network.as_str());
        of_hosts.entry(&member.host).or_default().extend(networks);
    }
    let mut sides = Sides::new();
    for (host, networks) in of_hosts {
        let mut networks = networks.into_iter();
        if let (Some(only), None) = (networks.next(), networks.next()) {
            sides.entry(only).or_default().insert(host);
        }
    }
    (sides.len() > 1).then_some(sides)
}

/// The networks that hosts say they use, if those differ and no communicator's start ended.
fn choices(log: &Log) -> Option<Sides<'_>> {
    let mut members = log.communicators.iter().flat_map(|it| &it.members);
    if members.any(|it| it.stage == Some(Stage::Complete)) {
        return None;
    }
    let mut sides = Sides::new();
    for (host, facts) in &log.hosts {
        let used = facts.values.get("network").into_iter().flatten();
        let used: Vec<&String> = used.collect();
        if let [only] = used[..] {
            sides.entry(only).or_default().insert(host);
        }
    }
    (sides.len() > 1).then_some(sides)
}

/// Ranks of one host that share memory by CUDA IPC, where others of their communicator do it by
/// cuMem: neither reads the handles of the other.
fn sharing(log: &Log) -> Option<Verdict> {
    let kinds = ["P2P/IPC", "P2P/CUMEM"];
    for communicator in &log.communicators {
        let mut of_hosts: BTreeMap<&str, [Vec<u32>; 2]> = BTreeMap::new();
        for member in &communicator.members {
            let has = kinds.map(|kind| member.transports.keys().any(|it| it.starts_with(kind)));
            let kind = match has {
                [true, false] => 0,
                [false, true] => 1,
                _ => continue,
            };
            of_hosts.entry(&member.host).or_default()[kind].extend(member.rank);
        }
        let mut mixed = of_hosts
            .into_iter()
            .filter(|it| it.1.iter().all(|it| !it.is_empty()));
        if let Some((host, [by_ipc, by_cumem])) = mixed.next() {
            let what = format!(
                "On {host}, {} shares memory by CUDA IPC and {} by cuMem: NCCL_CUMEM_ENABLE or NCCL's version differs \
                 between them.",
                ranks(&by_ipc),
                ranks(&by_cumem)
            );
            let is_few = by_ipc.len() <= by_cumem.len();
            return Some(Verdict {
                ranks: if is_few { by_ipc } else { by_cumem },
                hosts: vec![host.to_owned()],
                next: vec![
                    "give all ranks of a host the same NCCL_CUMEM_ENABLE, also in nccl.conf"
                        .to_owned(),
                ],
                ..Verdict::new(&settings::SETTINGS_DIFFER, Likely, what)
            });
        }
    }
    None
}

/// Why GPUDirect RDMA is not used. Other reasons are not known from the log.
#[derive(PartialEq, Eq)]
enum Why {
    /// By the distance of GPU and NIC. `distance 7 > 4`.
    Far,
    /// By the NIC's driver: a line about a port, without a reason.
    NoModule,
}

/// The lines about pairs of GPU and port, or else those about ports.
fn pairs(host: &HostFacts) -> impl Iterator<Item = (&String, &(bool, String))> {
    let is_pair = |device: &str| device.starts_with("GPU ");
    let has_pairs = host.gdr.keys().any(|it| is_pair(it));
    host.gdr
        .iter()
        .filter(move |it| !has_pairs || is_pair(it.0))
}

/// Hosts on which no pair of GPU and port uses GPUDirect RDMA, for one reason.
fn gdr(log: &Log) -> Option<Verdict> {
    let why = |host: &HostFacts| {
        let mut whys = pairs(host).map(|(device, (enabled, why))| {
            let is_distance = why.starts_with("distance ");
            match enabled {
                // The setting says which distance is too far.
                false if is_distance && !host.settings.contains_key("NCCL_NET_GDR_LEVEL") => {
                    Some(Why::Far)
                }
                false if why.is_empty() && device.starts_with("HCA ") => Some(Why::NoModule),
                _ => None,
            }
        });
        let first = whys.next()??;
        whys.all(|it| it.as_ref() == Some(&first)).then_some(first)
    };
    let off: Vec<(&String, &HostFacts, Why)> = log
        .hosts
        .iter()
        .filter_map(|(name, host)| Some((name, host, why(host)?)))
        .collect();
    let (_, host, first) = off.first()?;
    let (device, (_, reason)) = pairs(host).next()?;
    let (cause, certainty) = match first {
        Why::Far => (&network::GDR_FAR, Likely),
        Why::NoModule => (&network::GDR_NO_MODULE, Possible),
    };
    let because = match reason.strip_prefix("distance ") {
        Some(distance) => format!(" (too far: distance {distance})"),
        None => String::new(),
    };
    let what = format!("No pair of GPU and NIC uses GPUDirect RDMA, such as {device}{because}.");
    let hosts = off.iter().filter(|it| it.2 == *first);
    Some(Verdict {
        devices: vec![device.clone()],
        hosts: hosts.map(|it| it.0.clone()).collect(),
        ..Verdict::new(cause, certainty, what)
    })
}

/// Hosts whose connections over the network do not use GPUDirect RDMA, where those of others do.
/// The reason is not in the log; sockets never use it.
fn gdr_of_connections(log: &Log) -> Option<Verdict> {
    let mut hosts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let mut devices: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for member in log.communicators.iter().flat_map(|it| &it.members) {
        for ((network, port), [with, without]) in &member.ports {
            if network == "Socket" {
                continue;
            }
            let sum = hosts.entry(&member.host).or_default();
            *sum = [sum[0] + with, sum[1] + without];
            if *with == 0 {
                let device = format!("NET/{network}/{port}");
                devices.entry(&member.host).or_default().insert(device);
            }
        }
    }
    let is_told = |host: &str| {
        let facts = log.hosts.get(host);
        facts.is_some_and(|it| {
            it.settings
                .keys()
                .any(|name| name.starts_with("NCCL_NET_GDR_"))
        })
    };
    let off = hosts.iter().filter(|(_, [with, _])| *with == 0);
    let off: Vec<&str> = off.map(|it| *it.0).collect();
    let on = hosts.len() - off.len();
    if off.is_empty() || on == 0 || off.iter().any(|it| is_told(it)) {
        return None;
    }
    let what = format!(
        "No connection of {} over the network uses GPUDirect RDMA; those of {on} other hosts do.",
        off.join(", ")
    );
    let devices = off.iter().filter_map(|it| devices.get(it)).flatten();
    Some(Verdict {
        devices: devices.take(16).cloned().collect(),
        hosts: off.iter().map(|it| (*it).to_owned()).collect(),
        ..Verdict::new(&network::GDR_NO_MODULE, Likely, what)
    })
}

/// Variables with other values on some hosts. Names of ports and interfaces may differ.
fn differing(log: &Log) -> Option<Verdict> {
    let mut values: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (host, facts) in &log.hosts {
        for (name, all) in &facts.settings {
            for value in all {
                values
                    .entry(name)
                    .or_default()
                    .entry(value)
                    .or_default()
                    .push(host);
            }
        }
    }
    // Interfaces, files and names are each host's own.
    const LOCAL: [&str; 8] = [
        "IFNAME", "HCA", "FILE", "DEBUG", "CPUSET", "PLUGIN", "HOSTID", "ADDR",
    ];
    let (name, sides) = values.into_iter().find(|(name, sides)| {
        let hosts: usize = sides.values().map(Vec::len).sum();
        sides.len() > 1 && hosts == log.hosts.len() && !LOCAL.iter().any(|it| name.contains(it))
    })?;
    let mut sides: Vec<(&str, Vec<&str>)> = sides.into_iter().collect();
    sides.sort_by_key(|it| std::cmp::Reverse(it.1.len()));
    let texts = sides
        .iter()
        .take(3)
        .map(|(value, hosts)| format!("{value} on {} hosts", hosts.len()));
    let what = format!("{name} is {}.", texts.collect::<Vec<_>>().join(", "));
    // Nobody knows which of two values is right, if neither is that of most hosts.
    let most = match 2 * sides[0].1.len() > log.hosts.len() {
        true => 1,
        false => sides.len(),
    };
    Some(Verdict {
        hosts: sides[most..]
            .iter()
            .flat_map(|it| &it.1)
            .take(16)
            .map(|it| (*it).to_owned())
            .collect(),
        ..Verdict::new(&settings::SETTINGS_DIFFER, Likely, what)
    })
}

/// A verdict that no multicast group is free, where NVLS binds its memory for some communicators of
/// a host and not for others. `bind` has the lines about its failure.
pub(crate) fn slots(log: &Log, bind: &Verdict) -> Option<Verdict> {
    // Other codes are not about slots.
    let code = |line: &Line| facts::code(&Said::line(&line.text));
    let is_other = |line: &Line| code(line).is_some_and(|it| it != Code::Cuda(2));
    if bind.lines.iter().any(is_other) {
        return None;
    }
    let bound = |host: &str| {
        let has_nvls = |it: &&Communicator| {
            let own = it.members.iter().filter(|it| it.host == host);
            let mut counts = own.filter_map(|it| it.counts).peekable();
            counts.peek().is_some() && counts.all(|it| it.nvls > 0)
        };
        log.communicators.iter().filter(has_nvls).count()
    };
    let (host, count) = bind
        .hosts
        .iter()
        .map(|it| (it, bound(it)))
        .max_by_key(|it| it.1)?;
    let what = match count {
        0 => return None,
        1 => {
            format!("NVLS binds its memory for one communicator of {host}, and fails for another.")
        }
        _ => format!(
            "NVLS binds its memory for {count} communicators of {host}, and fails for another."
        ),
    };
    Some(Verdict {
        hosts: bind.hosts.clone(),
        lines: bind.lines.clone(),
        ..Verdict::new(&nvlink::NVLS_SLOTS, Likely, what)
    })
}
