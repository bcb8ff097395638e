//! The topologies that a job plans on: with the ports that it uses, ports merged into virtual
//! devices, hosts of an NVLink domain as one machine, and each host as its ranks join it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use plan::RankOrder;
use topology::join;
use topology::merge::merge;
use topology::xml::{Document, Element, NCCL_ELEMENTS, Tag, c_int};

use crate::domain::nvlink_domain;
use crate::error::Error;
use crate::job::{EqualHosts, Job, RankPlacement};
use crate::note::Note;
use crate::settings::Settings;
use crate::sockets::with_interface;
use crate::subset::nics;

/// Most hosts of an NVLink domain: NCCL has room for 640 GPUs in one, and a host has at least one.
const MAX_DOMAIN_HOSTS: u64 = 640;

/// The hosts of a job.
type Hosts<'a> = Cow<'a, [EqualHosts]>;

/// The hosts as the network joins them: an NVLink domain is one machine.
pub(crate) fn hosts<'a>(
    job: &'a Job,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Hosts<'a>, Error> {
    if let Some(rccl) = job.hosts.iter().find(|it| it.document.is_rccl()) {
        return Err(Error::Rccl {
            file: rccl.document.file.to_string(),
        });
    }
    let mut hosts = with_used_nics(job, settings, notes)?;
    if !job.as_is {
        let first = |host: &EqualHosts| Ok(join::without_repeated_ports(&host.document));
        change_documents::<Error>(&mut hosts, first)?;
        add_interfaces(job, &mut hosts, notes)?;
    }
    if !(job.physical_ports && job.as_is) {
        merge_ports(&mut hosts, settings, job.physical_ports, notes)?;
    }
    let mut hosts = with_domain(job, hosts, settings, notes)?;
    if !job.as_is {
        join_ranks(&mut hosts, &job.ranks);
        has_room(&hosts)?;
    }
    Ok(hosts)
}

/// The hosts with the NICs that the settings leave to them.
fn with_used_nics<'a>(
    job: &'a Job,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Hosts<'a>, Error> {
    let mut hosts = Cow::Borrowed(&job.hosts[..]);
    for (at, whole) in job.hosts.iter().enumerate() {
        if nics(&whole.document).is_empty() {
            continue;
        }
        let Some(used) = settings.with_used_nics(&whole.document) else {
            continue;
        };
        if nics(&used).is_empty() {
            let names = nics(&whole.document).into_iter();
            let names: Vec<&str> = names.filter_map(|net| net.get("name")).collect();
            let (file, names) = (whole.name.clone(), names.join(", "));
            if job.host_count() > 1 {
                return Err(Error::NoNics { file, names });
            }
            notes.push(Note::NoNics { file, names });
        }
        hosts.to_mut()[at].document = Arc::new(used);
    }
    Ok(hosts)
}

/// Calls `change` for the document of each host, once for hosts that share it.
fn change_documents<E>(
    hosts: &mut Hosts<'_>,
    mut change: impl FnMut(&EqualHosts) -> Result<Option<Document>, E>,
) -> Result<(), E> {
    let mut known: Vec<(Arc<Document>, Option<Arc<Document>>)> = Vec::new();
    for at in 0..hosts.len() {
        let document = &hosts[at].document;
        let seen = known.iter().find(|(old, _)| Arc::ptr_eq(old, document));
        let new = match seen {
            Some((_, new)) => new.clone(),
            None => {
                let new = change(&hosts[at])?.map(Arc::new);
                known.push((Arc::clone(document), new.clone()));
                new
            }
        };
        if let Some(new) = new {
            hosts.to_mut()[at].document = new;
        }
    }
    Ok(())
}

/// Gives hosts without ports the network interface over which NCCL then opens sockets. Hosts whose
/// ports the settings exclude get none, nor do those of a job in which others have ports: these
/// would not reach each other.
fn add_interfaces(job: &Job, hosts: &mut Hosts<'_>, notes: &mut Vec<Note>) -> Result<(), Error> {
    let is_port = |net: &&Element| net.get("dev").is_some();
    let has_ports = |host: &EqualHosts| nics(&host.document).iter().any(is_port);
    if job.hosts.iter().any(has_ports) {
        return Ok(());
    }
    change_documents(hosts, |host| {
        let changed = with_interface(host);
        if changed.is_some() {
            notes.push(Note::Sockets {
                file: host.name.clone(),
            });
        }
        Ok(changed)
    })
}

/// The lowest compute capability × 10 of the GPUs of a job; 0 without GPUs.
pub fn sm_min(hosts: &[EqualHosts]) -> i32 {
    fn least(element: &Element) -> Option<i32> {
        let ranked = element.tag == Tag::Gpu && element.get("rank").is_some();
        let own = element.get("sm").filter(|_| ranked).map(c_int);
        own.into_iter()
            .chain(element.children.iter().filter_map(least))
            .min()
    }
    hosts
        .iter()
        .filter_map(|it| least(&it.document.root))
        .min()
        .unwrap_or(0)
}

/// Numbers ports and, unless they stay physical, merges them into virtual devices, as NCCL's
/// InfiniBand transport does.
fn merge_ports(
    hosts: &mut Hosts<'_>,
    settings: &Settings,
    physical: bool,
    notes: &mut Vec<Note>,
) -> Result<(), Error> {
    let sm_min = sm_min(hosts);
    change_documents(hosts, |host| {
        let mut options = settings.merge_options(&host.document, sm_min);
        if physical {
            options = options.without_groups();
        }
        let merged = merge(&host.document, &options)?;
        Ok(merged.map(|merged| {
            let lost = merged.devices.iter().filter(|device| device.lost);
            notes.extend(lost.map(|device| Note::LostDevice {
                file: host.name.clone(),
                name: device.name.clone(),
            }));
            merged.document
        }))
    })
}

/// The hosts of an NVLink domain as one machine.
fn with_domain<'a>(
    job: &Job,
    hosts: Hosts<'a>,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Hosts<'a>, Error> {
    let is_recorded = |hosts: &EqualHosts| hosts.document.recorded_hosts() > 1;
    if !job.nvlink_domain || job.hosts.first().is_some_and(is_recorded) {
        return Ok(hosts);
    }
    if !settings.allow_nvlink_domains() {
        notes.push(Note::NoNvlinkDomain);
        return Ok(hosts);
    }
    let count: u64 = hosts.iter().map(|hosts| u64::from(hosts.count)).sum();
    if count > MAX_DOMAIN_HOSTS {
        return Err(Error::DomainTooLarge { hosts: count });
    }
    let documents = hosts
        .iter()
        .flat_map(|hosts| (0..hosts.count).map(|_| &*hosts.document));
    let Some(document) = nvlink_domain(documents) else {
        return Ok(hosts);
    };
    let mut names: Vec<&str> = Vec::new();
    for hosts in hosts.iter() {
        if !names.contains(&hosts.name.as_str()) {
            names.push(&hosts.name);
        }
    }
    Ok(Cow::Owned(vec![EqualHosts {
        name: names.join("+"),
        document: Arc::new(document),
        edits: hosts.iter().flat_map(|hosts| hosts.edits.clone()).collect(),
        count: 1,
    }]))
}

/// Joins the parts of each host's ranks, in the order of the ranks.
fn join_ranks(hosts: &mut Hosts<'_>, ranks: &RankPlacement) {
    match ranks {
        RankPlacement::Listed(order) => join_listed(hosts, order),
        RankPlacement::RoundRobin if hosts.iter().any(is_domain) => {
            // The ranks of a domain's hosts alternate.
            let gpus = |host: &EqualHosts| {
                let gpus = join::gpus_by_host(&host.document);
                let gpus = gpus.into_iter().map(|gpus| gpus as u32);
                gpus.map(|gpus| (gpus, 1)).collect::<Vec<_>>()
            };
            let all: Vec<Vec<(u32, u32)>> = hosts.iter().map(gpus).collect();
            if let [domain] = &all[..] {
                join_listed(hosts, &RankOrder::round_robin(domain));
            }
        }
        _ => {
            let join = |host: &EqualHosts| Ok::<_, Error>(join::by_ranks(&host.document, None));
            // It never fails.
            let _ = change_documents(hosts, join);
        }
    }
}

/// NCCL has room for every host. An NVLink domain has as much room for each of its ranks.
fn has_room(hosts: &[EqualHosts]) -> Result<(), Error> {
    let alone = hosts.iter().filter(|it| it.document.recorded_hosts() == 1);
    let too_many = alone.map(|it| (it, it.document.root.count()));
    match too_many
        .into_iter()
        .find(|(_, elements)| *elements > NCCL_ELEMENTS)
    {
        Some((host, elements)) => Err(Error::TooManyElements {
            file: host.name.clone(),
            elements,
        }),
        None => Ok(()),
    }
}

fn is_domain(host: &EqualHosts) -> bool {
    host.count == 1 && join::gpus_by_host(&host.document).len() > 1
}

/// Joins the parts in an order that is listed. Hosts whose ranks are in different orders differ.
/// An order that does not fit the job is refused later.
fn join_listed(hosts: &mut Hosts<'_>, order: &RankOrder) {
    let gpus = |host: &EqualHosts| {
        let gpus = join::gpus_by_host(&host.document);
        gpus.iter().sum::<usize>()
    };
    let gpus: Vec<usize> = hosts.iter().map(gpus).collect();
    let total: usize = hosts
        .iter()
        .zip(&gpus)
        .map(|(host, gpus)| gpus.saturating_mul(host.count as usize))
        .sum();
    let Some(slots) = u32::try_from(total)
        .ok()
        .and_then(|total| order.slots(total).ok())
    else {
        return;
    };
    // For each host the numbers of its GPUs, in the order of their ranks.
    let mut starts: Vec<usize> = Vec::new();
    let mut next = 0;
    for (host, gpus) in hosts.iter().zip(&gpus) {
        for _ in 0..host.count {
            starts.push(next);
            next += gpus;
        }
    }
    let mut own: Vec<Vec<u32>> = vec![Vec::new(); starts.len()];
    for slot in slots {
        let host = starts.partition_point(|start| *start <= slot as usize);
        if let Some(host) = host.checked_sub(1) {
            own[host].push(slot - starts[host] as u32);
        }
    }
    let mut joined: Vec<EqualHosts> = Vec::new();
    // By document and order.
    let mut known: BTreeMap<(*const Document, Vec<u32>), Arc<Document>> = BTreeMap::new();
    let mut own = own.into_iter();
    for host in hosts.iter() {
        let mut last: Option<Vec<u32>> = None;
        for order in own.by_ref().take(host.count as usize) {
            if last.as_ref() == Some(&order)
                && let Some(same) = joined.last_mut()
            {
                same.count += 1;
                continue;
            }
            let key = (Arc::as_ptr(&host.document), order.clone());
            let document = known.entry(key).or_insert_with(|| {
                let new = join::by_ranks(&host.document, Some(&order));
                new.map_or_else(|| Arc::clone(&host.document), Arc::new)
            });
            let document = Arc::clone(document);
            joined.push(EqualHosts {
                document,
                ..host.with_count(1)
            });
            last = Some(order);
        }
    }
    *hosts = Cow::Owned(joined);
}
