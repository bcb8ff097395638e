//! Ranks that meet by a file: rank 0 writes its id there, the others read it.
//!
//! Other users may know the name, and an earlier job may have left a file there. So only a file of this user that nobody
//! else can use is believed, and only a root that proves that it knows the id's token.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bootstrap::interface::{self, Wanted};
use bootstrap::link::{Kind, LinkError};
use bootstrap::machine::Ending;
use bootstrap::socket::blocking::Connection;
use bootstrap::socket::listen;
use bootstrap::{Key, UniqueId};
use files::Folder;

use super::launcher::{Launched, Variables};
use super::meeting::Found;

/// Largest rendezvous file that is read, bytes.
const FILE_LIMIT: u64 = 16 << 10;

/// Between two looks at the file.
const LOOK: Duration = Duration::from_millis(20);

/// Before a root is tried again that did not answer as it should.
const RETRY: Duration = Duration::from_millis(500);

/// How long a root may take to prove that it knows the token.
const PROOF_TIME: Duration = Duration::from_secs(5);

/// Longest name of a file that is made of a job's name, bytes.
const LONGEST_NAME: usize = 200;

/// Where the file is.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    name: OsString,
    /// Whether the folder is made for this, and must be this user's alone.
    own: bool,
}

impl Place {
    /// The file that was named.
    pub fn named(path: &Path) -> Result<Self> {
        let name = path.file_name().with_context(|| {
            format!(
                "--rendezvous file:{}: expected a file's name",
                path.display()
            )
        })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            own: false,
        })
    }

    /// A file of this host for a job's name, in the folder that the system keeps for this user, or in one that is made
    /// for this user in the temporary folder.
    pub fn of_job(job: &str, variables: &Variables) -> Self {
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
        // What belongs to another user (after su), or is not there (in a container), is passed over.
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
            "the ranks of this host cannot meet in their own folder (--rendezvous file:PATH names another place)",
        )
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

/// Meets the other ranks by a file.
pub fn find(
    place: &Place,
    launched: &Launched,
    interfaces: &Wanted,
    longest: Duration,
) -> Result<Found> {
    if launched.rank == 0 {
        return announce(place, interfaces);
    }
    if place.own {
        // Nobody but this user can mend what is wrong with it.
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
                        Ok(()) => return Ok(Found::without_root(id)),
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

/// Makes an id and writes it into the file.
fn announce(place: &Place, interfaces: &Wanted) -> Result<Found> {
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
    let file = folder.write(&place.name, format!("{id}\n").as_bytes());
    Ok(Found {
        id,
        roots: vec![(0, listener)],
        file: Some(file.with_context(cannot)?),
        weak: false,
    })
}

/// The id in the file, if it is there.
fn read(place: &Place) -> Result<Option<UniqueId>> {
    let Some(bytes) = place.open()?.read(&place.name, FILE_LIMIT)? else {
        return Ok(None);
    };
    Ok(Some(String::from_utf8_lossy(&bytes).trim().parse()?))
}

/// Whether the root listens that an id names. A file of an earlier job names a port at which nobody listens, or by now
/// somebody else.
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
            "whoever listens at {root} has another token: an earlier job left this file, and another job has the port now"
        ),
        other => {
            format!("whoever listens at {root} is not rank 0 of this job: the connection {other}")
        }
    })
}
