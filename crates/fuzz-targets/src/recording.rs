//! Recordings of small machines with changed, removed or added files, links and folders, probed
//! again.
//!
//! An input is a byte for the machine, a byte of options, and a list of changes (`Changes`).

use std::cell::RefCell;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use arbitrary::{Result, Unstructured};
use probe::record::{Recording, save};
use probe::{Probe, Sysfs};
use tempfile::TempDir;
use testkit::{FakeMachine, Machine};
use topology::xml::{parse, write};

use crate::input::{self, Depth, checked};

/// Machines of the repository whose recordings are changed.
const MACHINES: [&str; 3] = ["workstation-2gpu", "gh200", "pcie-8gpu-broadcom"];

/// A recording of a real machine.
const RECORDED: &str = "crates/probe/tests/recordings/cloud-guest/recording";

/// Most changes of one input.
const MOST_CHANGES: usize = 12;

/// The action of a change, in the low bits of its first byte.
const FILE: u8 = 0;
const LINK: u8 = 1;
const REMOVE: u8 = 2;

/// Flag of a change's first byte: the path is the number of an existing file.
const KNOWN: u8 = 0x80;

thread_local! {
    static TREES: RefCell<Vec<Tree>> = RefCell::new(Tree::all());
}

/// Each file of each machine with its own content, once per file name.
pub fn seeds() -> Vec<Vec<u8>> {
    TREES.with_borrow(|trees| {
        let mut seeds = Vec::new();
        for (machine, tree) in (0u8..).zip(trees) {
            let mut names: Vec<&str> = Vec::new();
            for (number, path) in (0u16..).zip(&tree.files) {
                let name = path.rsplit('/').next().unwrap_or(path);
                let Ok(content) = fs::read(tree.root().join(path)) else {
                    continue;
                };
                if names.contains(&name) || content.len() > usize::from(u16::MAX) {
                    continue;
                }
                names.push(name);
                let mut seed = vec![machine, number as u8, FILE | KNOWN];
                seed.extend(number.to_le_bytes());
                // The last change takes all remaining bytes.
                seed.extend(u16::MAX.to_le_bytes());
                seed.extend(content);
                seeds.push(seed);
            }
        }
        seeds
    })
}

/// The driver's answers or another JSON document in a change.
pub fn document(bytes: &[u8]) -> Option<Range<usize>> {
    let begin = bytes.iter().position(|byte| *byte == b'{')?;
    Some(begin..bytes.len())
}

/// Probes a changed recording.
///
/// # Panics
/// The probed topology cannot be read, a file outside of the recording was read, or a recording of
/// the recording gives another topology.
pub fn run(bytes: &[u8]) -> Depth {
    let mut choices = Unstructured::new(bytes);
    TREES.with_borrow_mut(|trees| {
        let machine = usize::from(choices.arbitrary::<u8>().unwrap_or(0)) % trees.len();
        let options: u8 = choices.arbitrary().unwrap_or(0);
        let tree = &mut trees[machine];
        let mut changes = Changes::default();
        while changes.done.len() < MOST_CHANGES && changes.read(tree, &mut choices).is_ok() {}
        let reached = probe(tree.root(), options);
        changes.undo();
        reached
    })
}

fn probe(root: &Path, asked: u8) -> Depth {
    let Some(recording) = checked(Recording::open(root)) else {
        return Depth::Outside;
    };
    let records = asked & 1 != 0;
    let sysfs = if records {
        Sysfs::recording(root, asked & 2 != 0)
    } else {
        recording.sysfs
    };
    let mut options = recording.options;
    options.all_devices |= asked & 4 != 0;
    options.ib_disable |= asked & 8 != 0;
    let (answers, addresses) = (recording.answers, recording.addresses.as_ref());
    let probe = Probe::of(&sysfs, answers, addresses, &options);
    let text = write(&probe.document);
    let again = parse("probed", text.as_bytes()).expect("what was probed can be read");
    assert!(probe.document.root.same_as(&again.root), "{text}");
    let _ = serde_json::to_string(&probe.findings).expect("findings can be written");
    let _ = serde_json::to_string(&probe.machine).expect("a machine can be written");
    for path in sysfs.seen().keys() {
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        assert!(Path::new(path).components().all(inside), "{path} was read");
    }
    if records && asked & 0x30 == 0x30 {
        replay(&sysfs, &probe, addresses, &text);
    }
    if probe.gpus.is_empty() && probe.nets.is_empty() {
        Depth::Inside
    } else {
        Depth::Accepted
    }
}

/// Records a probe and probes that recording.
fn replay(sysfs: &Sysfs, probe: &Probe, addresses: Option<&probe::Addresses>, text: &str) {
    let folder = temporary();
    // A path that is both file and folder cannot be recorded.
    if checked(save(folder.path(), sysfs, probe, addresses)).is_none() {
        return;
    }
    let recorded = Recording::open(folder.path()).expect("what was recorded can be opened");
    let (addresses, options) = (recorded.addresses.as_ref(), &recorded.options);
    let again = Probe::of(&recorded.sysfs, recorded.answers, addresses, options);
    assert_eq!(
        write(&again.document),
        text,
        "the recording's replay differs"
    );
}

/// A temporary folder, in memory if possible.
fn temporary() -> TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.unwrap_or_else(|_| tempfile::tempdir().expect("a temporary folder"))
}

/// A recording on disk.
struct Tree {
    folder: TempDir,
    /// The recording's folder in it.
    root: PathBuf,
    /// The paths of its files and links, sorted.
    files: Vec<String>,
}

impl Tree {
    fn all() -> Vec<Self> {
        let fake = |name: &&str| {
            let machine = Machine::named(name).and_then(|machine| machine.document());
            let fake = machine.and_then(|document| FakeMachine::of(&document));
            let fake = fake.unwrap_or_else(|error| panic!("{name}: {error:#}"));
            Self::new(|folder| {
                fake.write(folder)
                    .unwrap_or_else(|error| panic!("{error:#}"))
            })
        };
        let recorded = Self::new(|folder| copy(&input::repository().join(RECORDED), folder));
        MACHINES.iter().map(fake).chain([recorded]).collect()
    }

    fn new(fill: impl FnOnce(&Path)) -> Self {
        let folder = temporary();
        let root = fs::canonicalize(folder.path()).expect("a folder that was made");
        let root = root.join("root");
        fs::create_dir_all(&root).expect("a folder can be made");
        fs::create_dir_all(folder.path().join("aside")).expect("a folder can be made");
        fill(&root);
        let mut files = Vec::new();
        list(&root, &root, &mut files);
        files.sort();
        Self {
            folder,
            root,
            files,
        }
    }

    fn root(&self) -> &Path {
        &self.root
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from)
        .expect("a recording can be read")
        .flatten()
    {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if let Ok(target) = fs::read_link(&path) {
            std::os::unix::fs::symlink(target, to).expect("a link can be made");
        } else if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file can be copied");
        }
    }
}

fn list(folder: &Path, root: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder)
        .expect("a recording can be read")
        .flatten()
    {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, root, files);
        } else if let Ok(path) = path.strip_prefix(root) {
            files.push(path.display().to_string());
        }
    }
}

/// Changes of a tree that can be undone.
#[derive(Default)]
struct Changes {
    done: Vec<Change>,
}

/// The traces of a change.
struct Change {
    /// The file, link or topmost folder that was made.
    made: Option<PathBuf>,
    /// Where an existing file was moved to, and from where.
    moved: Option<(PathBuf, PathBuf)>,
}

impl Changes {
    /// Reads a change and makes it.
    fn read(&mut self, tree: &Tree, choices: &mut Unstructured<'_>) -> Result<()> {
        if choices.is_empty() {
            return Err(arbitrary::Error::NotEnoughData);
        }
        let kind: u8 = choices.arbitrary()?;
        let path = if kind & KNOWN != 0 {
            let number: u16 = choices.arbitrary()?;
            tree.files[usize::from(number) % tree.files.len()].clone()
        } else {
            let length: u8 = choices.arbitrary()?;
            let length = usize::from(length).min(choices.len());
            String::from_utf8_lossy(choices.bytes(length)?).into_owned()
        };
        let length: u16 = choices.arbitrary()?;
        let length = usize::from(length).min(choices.len());
        let content = choices.bytes(length)?;
        self.change(tree, kind & 3, &path, content);
        Ok(())
    }

    /// Changes nothing outside of the tree: neither through the path nor through an earlier link.
    fn change(&mut self, tree: &Tree, kind: u8, path: &str, content: &[u8]) {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let path = Path::new(path);
        if path.as_os_str().is_empty() || !path.components().all(plain) || path.to_str().is_none() {
            return;
        }
        let root = tree.root();
        let full = root.join(path);
        let Some(there) = full.ancestors().skip(1).find(|it| it.exists()) else {
            return;
        };
        let inside = fs::canonicalize(there).is_ok_and(|real| real.starts_with(root));
        if !inside || !there.is_dir() {
            return;
        }
        let aside = tree
            .folder
            .path()
            .join(format!("aside/{}", self.done.len()));
        let moved = fs::rename(&full, &aside).is_ok();
        let topmost = full
            .ancestors()
            .take_while(|it| *it != there)
            .last()
            .map(Path::to_owned);
        let parent = full.parent().unwrap_or(root);
        let made = kind != REMOVE && fs::create_dir_all(parent).is_ok() && {
            match kind {
                FILE => fs::write(&full, content).is_ok(),
                LINK => {
                    let target = String::from_utf8_lossy(content);
                    std::os::unix::fs::symlink(target.as_ref(), &full).is_ok()
                }
                _ => fs::create_dir(&full).is_ok(),
            }
        };
        let made_folders = kind != REMOVE && !moved;
        self.done.push(Change {
            made: if made_folders {
                topmost
            } else {
                made.then(|| full.clone())
            },
            moved: moved.then_some((aside, full)),
        });
    }

    fn undo(self) {
        for change in self.done.into_iter().rev() {
            if let Some(made) = change.made
                && let Ok(found) = fs::symlink_metadata(&made)
            {
                let _ = if found.is_dir() {
                    fs::remove_dir_all(&made)
                } else {
                    fs::remove_file(&made)
                };
            }
            if let Some((aside, full)) = change.moved {
                let _ = fs::rename(aside, full);
            }
        }
    }
}
