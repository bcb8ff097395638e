//! Ranks that meet by a file: rank 0 writes its id there, the others read it.
//!
//! Other users may know the name, and an earlier job may have left a file there. So only a file of
//! this user without access for others is trusted, and only a root that proves to know the token.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::id::PREFIX;
use crate::interface::{self, Wanted};
use crate::link::{Kind, LinkError};
use crate::machine::Ending;
use crate::socket::blocking::Connection;
use crate::socket::listen;
use crate::{Key, UniqueId};
use anyhow::{Context, Result, anyhow, bail};
use files::{Folder, Replaces};

use crate::rendezvous::found::FoundJob;
use crate::rendezvous::launcher::LaunchedRank;
use crate::rendezvous::{Variables, split};

/// Largest rendezvous file that is read, bytes.
const FILE_LIMIT: u64 = 16 << 10;

/// Pause between two looks at the file.
const LOOK: Duration = Duration::from_millis(20);

/// Pause before a root is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How long a root may take to prove that it knows the token.
const PROOF_TIME: Duration = Duration::from_secs(5);

/// Longest name of a file that is made of a job's name, bytes.
const LONGEST_NAME: usize = 200;

#[derive(Debug)]
pub(crate) struct RendezvousFile {
    folder: PathBuf,
    name: OsString,
    /// Whether the folder is made for this, and must be this user's alone.
    own: bool,
}

impl RendezvousFile {
    pub(crate) fn named(path: &Path) -> Result<Self> {
        let (folder, name) = split(path)?;
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            own: false,
        })
    }

    /// A file on this host for a job: in XDG_RUNTIME_DIR, or in a folder for this user below
    /// TMPDIR.
    pub(crate) fn of_job(job: &str, variables: &Variables) -> Self {
        let mut name: String = job
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
            .collect();
        if name.len() > LONGEST_NAME {
            let mut hasher = DefaultHasher::new();
            job.hash(&mut hasher);
            name.truncate(LONGEST_NAME);
            name.push_str(&format!("-{:016x}", hasher.finish()));
        }
        let folder = |name: &str| {
            variables
                .get(name)
                .filter(|it| !it.is_empty())
                .map(PathBuf::from)
        };
        // The folder may belong to another user (after su) or be missing (in a container).
        let runtime = folder("XDG_RUNTIME_DIR");
        let runtime = runtime.filter(|it| it.is_absolute() && Folder::open_own(it).is_ok());
        let (folder, name) = match runtime {
            Some(folder) => (folder, format!("topo-{name}")),
            None => {
                let user = rustix::process::geteuid().as_raw();
                let temporary = folder("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
                (temporary.join(format!("topo-{user}")), name)
            }
        };
        Self {
            folder,
            name: name.into(),
            own: true,
        }
    }

    fn open(&self) -> Result<Folder> {
        if !self.own {
            return Ok(Folder::open(&self.folder)?);
        }
        Folder::make_own(&self.folder).context(
            "the ranks of this host cannot meet in their own folder (give another place: file:PATH)",
        )
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

pub(crate) fn find(
    place: &RendezvousFile,
    launched: &LaunchedRank,
    interfaces: &Wanted,
    longest: Duration,
) -> Result<FoundJob> {
    if launched.rank == 0 {
        return announce(place, interfaces);
    }
    if place.own {
        // Waiting does not repair a folder that other users may change.
        place
            .open()
            .with_context(|| format!("rank {}", launched.rank))?;
    }
    let until = Instant::now() + longest;
    let mut problem = "there is no such file".to_owned();
    let mut tried: Option<(UniqueId, Instant)> = None;
    while Instant::now() < until {
        match read(place) {
            Ok(Some(id)) => {
                let wait = tried
                    .as_ref()
                    .is_some_and(|(known, at)| *known == id && at.elapsed() < RETRY);
                if !wait {
                    match check_root(
                        &id,
                        PROOF_TIME.min(until.saturating_duration_since(Instant::now())),
                    ) {
                        Ok(()) => return Ok(FoundJob::without_root(id)),
                        Err(why) => problem = why,
                    }
                    tried = Some((id, Instant::now()));
                }
            }
            Ok(None) => {}
            Err(error) => problem = format!("{error:#}"),
        }
        std::thread::sleep(LOOK);
    }
    bail!(
        "rank {}: rank 0 did not say in {} within {} s where it listens: {problem}",
        launched.rank,
        place.path().display(),
        longest.as_secs()
    )
}

fn announce(place: &RendezvousFile, interfaces: &Wanted) -> Result<FoundJob> {
    let all = interface::list().context("cannot list network interfaces")?;
    let chosen = interface::choose(&all, interfaces).map_err(|why| anyhow!(why))?;
    let listener = listen(chosen[0].address)?;
    let id = UniqueId {
        key: Key::random().context("there are no random bytes for a token")?,
        roots: vec![listener.local_addr()?],
    };
    let cannot = || {
        format!(
            "cannot write the rendezvous file {}",
            place.path().display()
        )
    };
    let folder = place.open().with_context(cannot)?;
    let file = folder.write(
        &place.name,
        format!("{id}\n").as_bytes(),
        Replaces::Begins(PREFIX),
    );
    Ok(FoundJob {
        id,
        roots: vec![(0, listener)],
        file: Some(file.with_context(cannot)?),
        weak: false,
    })
}

fn read(place: &RendezvousFile) -> Result<Option<UniqueId>> {
    let Some(bytes) = place.open()?.read(&place.name, FILE_LIMIT)? else {
        return Ok(None);
    };
    Ok(Some(String::from_utf8_lossy(&bytes).trim().parse()?))
}

/// Whether the root of an id listens. A file of an earlier job names a port that is closed, or that
/// another process uses by now.
fn check_root(id: &UniqueId, longest: Duration) -> Result<(), String> {
    let Some(root) = id.roots.first() else {
        return Err("its id names no root".to_owned());
    };
    let ending = match Connection::open(*root, &id.key, Kind::Root, longest) {
        Ok(_) => return Ok(()),
        Err(ending) => ending,
    };
    Err(match ending {
        Ending::Refused(why) => format!("nobody listens at {root}: {why}"),
        Ending::Distrusted(LinkError::WrongToken) | Ending::Ended => format!(
            "the process that listens at {root} has another token: an earlier job left this file, and another job has the port now"
        ),
        other => {
            format!(
                "the process that listens at {root} is not rank 0 of this job: the connection {other}"
            )
        }
    })
}
