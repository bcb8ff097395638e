//! NCCL's log about settings, networks and hosts.

use std::collections::BTreeMap;

use causes::Certainty::{Likely, Possible};
use causes::table::{network, settings};
use nccl_log::Log;
use nccl_log::statement::Stage;

use crate::verdict::{Line, Verdict};

/// The host of each rank, by the largest communicator.
pub(crate) fn hosts(log: &Log) -> BTreeMap<u32, String> {
    let largest = log.communicators.iter().max_by_key(|it| it.ranks);
    let members = largest.into_iter().flat_map(|it| &it.members);
    members
        .filter_map(|it| Some((it.rank?, it.host.clone())))
        .collect()
}

/// Verdicts from the values that hosts and ranks log.
pub(crate) fn verdicts(log: &Log) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    verdicts.extend(gdr(log));
    verdicts.extend(differing(log));
    verdicts
}

/// A host on which no pair of GPU and port uses GPUDirect RDMA.
fn gdr(log: &Log) -> Option<Verdict> {
    let is_off = |host: &&String| {
        let pairs = &log.hosts[*host].gdr;
        !pairs.is_empty() && pairs.values().all(|(enabled, _)| !enabled)
    };
    let hosts: Vec<String> = log.hosts.keys().filter(is_off).cloned().collect();
    let (device, (_, why)) = log.hosts.get(hosts.first()?)?.gdr.iter().next()?;
    let (cause, why) = match why.strip_prefix("distance ") {
        Some(distance) => (&network::GDR_FAR, format!("too far: distance {distance}")),
        None => (&network::GDR_NO_MODULE, why.clone()),
    };
    let because = match why.is_empty() {
        true => String::new(),
        false => format!(" ({why})"),
    };
    let what = format!("No pair of GPU and NIC uses GPUDirect RDMA, such as {device}{because}.");
    Some(Verdict {
        devices: vec![device.clone()],
        hosts,
        ..Verdict::new(cause, Likely, what)
    })
}

/// A setting that switches NVLink between hosts off, in a job of several hosts. `fabric` has the
/// lines that name the fabric of a GPU: 0 is that of one host.
pub(crate) fn mnnvl(log: &Log, fabric: Verdict) -> Option<Verdict> {
    let is_joined = |it: &Line| !it.text.contains("fabric UUID 0.0 ");
    let is_off = |host: &&String| {
        let values = log.hosts[*host].settings.get("NCCL_CUMEM_ENABLE");
        values.is_some_and(|it| it.contains("0"))
    };
    let hosts: Vec<String> = log.hosts.keys().filter(is_off).cloned().collect();
    if hosts.is_empty() || log.hosts.len() < 2 || !fabric.lines.iter().any(is_joined) {
        return None;
    }
    let what = "NCCL_CUMEM_ENABLE=0 is set, and the GPUs name an NVLink fabric; on hosts of one NVLink domain the \
                data between hosts takes the network."
        .to_owned();
    Some(Verdict {
        what,
        hosts,
        ..fabric
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
    const LOCAL: [&str; 6] = ["IFNAME", "HCA", "FILE", "DEBUG", "CPUSET", "PLUGIN"];
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
    Some(Verdict {
        hosts: sides[1..]
            .iter()
            .flat_map(|it| &it.1)
            .take(16)
            .map(|it| (*it).to_owned())
            .collect(),
        ..Verdict::new(&settings::SETTINGS_DIFFER, Likely, what)
    })
}

/// A verdict about hosts with different numbers of ranks, if the version has the fault, and the
/// start did not end or the job hangs.
pub(crate) fn uneven(log: &Log, verdict: Verdict, is_hang: bool) -> Option<Verdict> {
    let version = log.versions.keys().find(|it| has_uneven_pat(it))?;
    let members = log.communicators.iter().flat_map(|it| &it.members);
    let is_ready = members
        .clone()
        .any(|it| matches!(it.stage, Some(Stage::Complete)));
    if is_ready && !is_hang {
        return None;
    }
    let what = format!(
        "NCCL {version} has this fault; the hosts have different numbers of ranks (contiguousRanksPerHost is the \
         largest number), and {}.",
        if is_ready {
            "the job hangs"
        } else {
            "no rank says that its start ended"
        }
    );
    Some(Verdict { what, ..verdict })
}

/// Whether a version is one of 2.23, which has PAT, to 2.32.2.
fn has_uneven_pat(version: &str) -> bool {
    let numbers: Vec<u32> = version
        .split(['.', '+'])
        .map_while(|it| it.parse().ok())
        .collect();
    let number = |place: usize| numbers.get(place).copied().unwrap_or(0);
    ((2, 23, 0)..(2, 32, 3)).contains(&(number(0), number(1), number(2)))
}
