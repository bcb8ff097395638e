//! The place where ranks meet: from the command line, the environment, or the launcher.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::interface::Wanted;
use crate::machine::group;
use crate::socket::listen;
use crate::{Key, UniqueId};
use anyhow::{Context, Result, anyhow, bail};

use crate::rendezvous::found::FoundJob;
use crate::rendezvous::id_file;
use crate::rendezvous::launcher::LaunchedRank;
use crate::rendezvous::meeting_file::{self, RendezvousFile};
use crate::rendezvous::{JobOptions, JobUnknown, Variables};

/// Pause between two lookups of an address.
const LOOK: Duration = Duration::from_millis(20);

enum MeetingPoint {
    Id(UniqueId),
    File(RendezvousFile),
    Address(String),
}

/// Finds the other ranks by id, file or address, within `longest`.
///
/// # Errors
/// Nothing says where the ranks can meet ([`JobUnknown::MeetingPlace`]), what says it is wrong, or
/// rank 0 is not there.
pub fn find(
    given: &JobOptions,
    variables: &Variables,
    launched: &LaunchedRank,
    interfaces: &Wanted,
    longest: Duration,
) -> Result<FoundJob> {
    match choose(given, variables, launched)? {
        MeetingPoint::Id(id) => by_id(id, launched),
        MeetingPoint::File(place) => meeting_file::find(&place, launched, interfaces, longest),
        MeetingPoint::Address(address) => by_address(&address, variables, launched, longest),
    }
}

fn choose(
    given: &JobOptions,
    variables: &Variables,
    launched: &LaunchedRank,
) -> Result<MeetingPoint> {
    let variable = |name: &str| variables.get(name).filter(|it| !it.is_empty()).cloned();
    if let Some(id) = given.id.clone().or_else(|| variable("TOPO_ID")) {
        return Ok(MeetingPoint::Id(id_file::given(&id)?));
    }
    let place = given.place.clone();
    let place = place.map(|place| (format!("meeting place {place}"), place));
    let place = place.or_else(|| {
        let place = variable("TOPO_RENDEZVOUS")?;
        Some((format!("TOPO_RENDEZVOUS={place}"), place))
    });
    if let Some((named, place)) = place {
        return match place.split_once(':') {
            Some(("file", path)) if !path.is_empty() => {
                Ok(MeetingPoint::File(RendezvousFile::named(Path::new(path))?))
            }
            Some(("tcp", address)) => {
                check_address(address)
                    .with_context(|| format!("{named}: expected tcp:{ADDRESS}"))?;
                Ok(MeetingPoint::Address(address.to_owned()))
            }
            _ => bail!("{named}: expected file:PATH or tcp:HOST:PORT"),
        };
    }
    if let Some(address) = variable("NCCL_COMM_ID") {
        check_address(&address)
            .with_context(|| format!("NCCL_COMM_ID={address}: expected {ADDRESS}"))?;
        return Ok(MeetingPoint::Address(address));
    }
    if let Some((host, port)) = &launched.master {
        let host = if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        return Ok(MeetingPoint::Address(format!("{host}:{port}")));
    }
    if launched.local == Some(launched.world) && !launched.job.is_empty() {
        return Ok(MeetingPoint::File(RendezvousFile::of_job(
            &launched.job,
            variables,
        )));
    }
    Err(JobUnknown::MeetingPlace.into())
}

const ADDRESS: &str = "HOST:PORT with a port of 1 to 65535";

/// Whether an address has a host and a port. What host it is shows when it is looked up.
fn check_address(text: &str) -> Option<()> {
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    (!host.is_empty() && port > 0).then_some(())
}

/// Every root is in the process of the first rank that it serves.
fn by_id(id: UniqueId, launched: &LaunchedRank) -> Result<FoundJob> {
    let count = id.roots.len() as u32;
    if count > launched.world {
        bail!(
            "the id has {count} roots for {} ranks; expected as many at most",
            launched.world
        );
    }
    let mut roots = Vec::new();
    for (index, address) in (0..).zip(&id.roots) {
        if group(launched.world, count, index).start == launched.rank {
            let listener = listen(*address).with_context(|| taken(launched.rank, address))?;
            roots.push((index, listener));
        }
    }
    Ok(FoundJob {
        id,
        roots,
        file: None,
        weak: false,
    })
}

fn taken(rank: u32, address: &SocketAddr) -> String {
    format!(
        "rank {rank} holds the root, but cannot listen at {address}; expected a free port of an address of this host"
    )
}

fn by_address(
    text: &str,
    variables: &Variables,
    launched: &LaunchedRank,
    longest: Duration,
) -> Result<FoundJob> {
    let until = Instant::now() + longest;
    // A pod's name is known some time after it runs.
    let address = loop {
        let found = text.to_socket_addrs().map(|mut it| it.next());
        match found {
            Ok(Some(address)) => break address,
            _ if Instant::now() < until && launched.rank != 0 => std::thread::sleep(LOOK),
            Ok(None) => bail!("{text} has no address"),
            Err(error) => return Err(anyhow!(error).context(format!("cannot find {text}"))),
        }
    };
    let secret = variables.get("TOPO_SECRET").filter(|it| !it.is_empty());
    let key = match secret {
        Some(secret) => crate::secret::stretched(secret, &launched.job)?,
        None => Key::of_secret(launched.job.as_bytes()),
    };
    let mut roots = Vec::new();
    if launched.rank == 0 {
        let listener = listen(address).with_context(|| taken(0, &address))?;
        roots.push((0, listener));
    }
    Ok(FoundJob {
        id: UniqueId {
            key,
            roots: vec![address],
        },
        roots,
        file: None,
        weak: secret.is_none(),
    })
}
