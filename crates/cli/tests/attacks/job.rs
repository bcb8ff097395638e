//! Ranks of this host as processes, and the memory that they share as another process sees it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::program::{Running, Said, clean};
use super::ranks::Ranks;

/// Ranks of this host.
pub(crate) struct Job {
    ranks: Ranks,
    _folder: Option<tempfile::TempDir>,
}

/// `topo run`, of any program file.
fn topo(program: &Path) -> Command {
    let mut command = clean(program);
    command.arg("run");
    command
}

impl Job {
    /// Starts each rank as a process; the ranks meet by a file.
    pub(crate) fn by_hand(program: &Path, ranks: u32, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let meeting = format!("file:{}", folder.path().join("meeting").display());
        let ranks = (0..ranks).map(|rank| {
            let mut command = topo(program);
            command.args(["--rank", &rank.to_string(), "--world", &ranks.to_string()]);
            command.args(["--rendezvous", &meeting]).args(arguments);
            command
        });
        Self {
            ranks: Ranks::start(ranks),
            _folder: Some(folder),
        }
    }

    /// Starts one process, which starts the other ranks.
    pub(crate) fn started_together(program: &Path, ranks: u32, arguments: &[&str]) -> Self {
        let mut command = topo(program);
        command.args(["--processes", "--ranks", &ranks.to_string()]);
        command.args(arguments);
        Self {
            ranks: Ranks::start([command]),
            _folder: None,
        }
    }

    /// Whether all ranks have ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.ranks.0.iter_mut().all(Running::is_over)
    }

    /// Memory files that the ranks have open, by the beginning of their names, once for each
    /// descriptor. `baseofrank1` holds the bell and the buffer table of rank 1,
    /// `connections1ofrank0` the first FIFOs and signals towards rank 0, `buffersofrank0` its
    /// buffers.
    pub(crate) fn memory(&self, name: &str) -> Vec<Memory> {
        let mut found = Vec::new();
        for rank in &self.ranks.0 {
            for process in family(rank.id()) {
                let folder = format!("/proc/{process}/fd");
                // A process that has just ended has no files.
                for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                    found.extend(Memory::at(entry.path()).filter(|it| it.name.starts_with(name)));
                }
            }
        }
        found
    }

    /// Waits for such memory.
    pub(crate) fn await_memory(&mut self, name: &str) -> Vec<Memory> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let found = self.memory(name);
            if !found.is_empty() || self.is_over() {
                return found;
            }
            assert!(Instant::now() < until, "no memory {name}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for all ranks until the deadline, and kills the others.
    pub(crate) fn finish(mut self, until: Instant) -> Vec<Said> {
        while !self.is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        self.ranks.0.into_iter().map(Running::end).collect()
    }
}

/// A process and its children.
fn family(process: u32) -> Vec<u32> {
    let file = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let children = text.split_whitespace().filter_map(|it| it.parse().ok());
    std::iter::once(process).chain(children).collect()
}

/// A memory file of a rank, open for writing.
pub(crate) struct Memory {
    pub name: String,
    file: File,
    /// The length.
    pub words: u64,
}

impl Memory {
    fn at(path: PathBuf) -> Option<Self> {
        let link = std::fs::read_link(&path).ok()?;
        let name = link.to_str()?.strip_prefix("/memfd:")?;
        let name = name.trim_end_matches(" (deleted)").to_owned();
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let words = file.metadata().ok()?.len() / 8;
        // A new file is empty.
        (words > 0).then_some(Self { name, file, words })
    }

    pub(crate) fn read(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, word * 8).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Up to `most` words from the beginning.
    pub(crate) fn words(&self, most: u64) -> Vec<u64> {
        let mut bytes = vec![0; 8 * self.words.min(most) as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    pub(crate) fn write(&self, word: u64, value: u64) {
        self.file
            .write_all_at(&value.to_le_bytes(), word * 8)
            .unwrap();
    }
}
