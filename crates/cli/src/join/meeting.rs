//! Where ranks meet: from the command line, the environment, or the launcher.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bootstrap::interface::{self, Wanted};
use bootstrap::machine::group;
use bootstrap::socket::listen;
use bootstrap::{Key, UniqueId};

use super::launcher::{Launched, Variables};
use crate::arguments::join::JoinArguments;

/// How a rank finds the others.
#[derive(Debug)]
pub struct Found {
    /// The id of the job.
    pub id: UniqueId,
    /// The roots that are in this process.
    pub roots: Vec<(u32, TcpListener)>,
    /// The file to be removed once all have met.
    pub file: Option<PathBuf>,
    /// Whether the token is made of what strangers may know too.
    pub weak: bool,
}

/// Largest rendezvous file that is read, bytes.
const FILE_LIMIT: u64 = 16 << 10;

/// Between two looks at a file that is not there yet.
const LOOK: Duration = Duration::from_millis(20);

enum Where {
    Id(UniqueId),
    File(PathBuf),
    Address(String),
}

/// Finds the others, or says how they can be found.
pub fn find(
    arguments: &JoinArguments,
    variables: &Variables,
    launched: &Launched,
    interfaces: &Wanted,
    longest: Duration,
) -> Result<Found> {
    match choose(arguments, variables, launched)? {
        Where::Id(id) => by_id(id, launched),
        Where::File(path) => by_file(&path, launched, interfaces, longest),
        Where::Address(address) => by_address(&address, variables, launched, longest),
    }
}

fn choose(arguments: &JoinArguments, variables: &Variables, launched: &Launched) -> Result<Where> {
    let variable = |name: &str| variables.get(name).filter(|it| !it.is_empty()).cloned();
    if let Some(id) = arguments.id.clone().or_else(|| variable("TOPO_ID")) {
        return Ok(Where::Id(id.parse()?));
    }
    let given = arguments.rendezvous.clone();
    if let Some(place) = given.or_else(|| variable("TOPO_RENDEZVOUS")) {
        return match place.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Where::File(PathBuf::from(path))),
            Some(("tcp", address)) if address.contains(':') => {
                Ok(Where::Address(address.to_owned()))
            }
            _ => bail!("--rendezvous {place}: expected file:PATH or tcp:HOST:PORT"),
        };
    }
    if let Some(address) = variable("NCCL_COMM_ID") {
        return Ok(Where::Address(address));
    }
    if let Some((host, port)) = &launched.master {
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        return Ok(Where::Address(format!("{host}:{port}")));
    }
    if launched.local == Some(launched.world) && !launched.job.is_empty() {
        // All are on this host, which has a folder for such things.
        let name: String = launched
            .job
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
            .collect();
        let user = rustix::process::getuid().as_raw();
        return Ok(Where::File(
            std::env::temp_dir().join(format!("topo-{user}-{name}")),
        ));
    }
    bail!(
        "{} says which rank this is, but not where the ranks can meet; give --rendezvous file:PATH (on a file system that \
         all hosts share), --rendezvous tcp:HOST:PORT (of rank 0's host), or --id ID (from topo id)",
        launched.by
    )
}

/// Every root is in the process of the first rank that it serves.
fn by_id(id: UniqueId, launched: &Launched) -> Result<Found> {
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
    Ok(Found {
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
    launched: &Launched,
    longest: Duration,
) -> Result<Found> {
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
    let job = format!("{}\n{}", launched.job, secret.map_or("", |it| it));
    let mut roots = Vec::new();
    if launched.rank == 0 {
        let listener = listen(address).with_context(|| taken(0, &address))?;
        roots.push((0, listener));
    }
    Ok(Found {
        id: UniqueId {
            key: Key::of_secret(job.as_bytes()),
            roots: vec![address],
        },
        roots,
        file: None,
        weak: secret.is_none(),
    })
}

fn by_file(
    path: &Path,
    launched: &Launched,
    interfaces: &Wanted,
    longest: Duration,
) -> Result<Found> {
    if launched.rank == 0 {
        let all = interface::list().context("cannot list network interfaces")?;
        let chosen = interface::choose(&all, interfaces).map_err(|why| anyhow!(why))?;
        let listener = listen(chosen[0].address)?;
        let id = UniqueId {
            key: Key::random().context("there are no random bytes for a token")?,
            roots: vec![listener.local_addr()?],
        };
        write(path, &id)?;
        return Ok(Found {
            id,
            roots: vec![(0, listener)],
            file: Some(path.to_owned()),
            weak: false,
        });
    }
    let until = Instant::now() + longest;
    let mut problem = "there is no such file".to_owned();
    while Instant::now() < until {
        match read(path) {
            // A file that was left by another job names a root that is gone.
            Ok(Some(id)) if answers(&id) => {
                return Ok(Found {
                    id,
                    roots: Vec::new(),
                    file: None,
                    weak: false,
                });
            }
            Ok(Some(id)) => problem = format!("nobody listens at {}", id.roots[0]),
            Ok(None) => {}
            Err(error) => problem = format!("{error:#}"),
        }
        std::thread::sleep(LOOK);
    }
    bail!(
        "rank {}: rank 0 did not say in {} within {} s where it listens: {problem}",
        launched.rank,
        path.display(),
        longest.as_secs()
    )
}

/// Whether somebody listens where an id says.
fn answers(id: &UniqueId) -> bool {
    let connects =
        |root: &SocketAddr| TcpStream::connect_timeout(root, Duration::from_secs(1)).is_ok();
    id.roots.first().is_some_and(connects)
}

/// Writes an id beside the file and renames it, for this user alone.
fn write(path: &Path, id: &UniqueId) -> Result<()> {
    let cannot = || format!("cannot write the rendezvous file {}", path.display());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Such files can be read by their owner only.
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    writeln!(file, "{id}").with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

fn read(path: &Path) -> Result<Option<UniqueId>> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if size > FILE_LIMIT {
        bail!("{} has {size} bytes; expected an id", path.display());
    }
    Ok(Some(fs::read_to_string(path)?.trim().parse()?))
}
