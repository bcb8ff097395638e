//! Ranks of this host as processes of their own, and the memory that they share as another process reaches it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a rank ended.
#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    /// `None` if it had to be killed.
    pub status: Option<ExitStatus>,
}

impl Said {
    /// Whether the rank ended by itself and says what happened: no signal, no panic.
    pub fn is_orderly(&self) -> bool {
        let told = |code| code != 2 || self.err.contains("error:");
        let status = self.status.filter(|it| it.signal().is_none());
        let code = status.and_then(|it| it.code());
        // A peer whose process is gone without a word was killed by a signal.
        let words = ["panicked", "its process ended", "with signal"];
        code.is_some_and(|code| (0..=2).contains(&code) && told(code))
            && words.iter().all(|word| !self.err.contains(word))
    }
}

/// Processes that end with the test.
pub struct Job {
    children: Vec<Child>,
    _folder: Option<tempfile::TempDir>,
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `topo run` of a program file, with nothing in the environment that a launcher may have set.
fn topo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command.env("NCCL_SOCKET_IFNAME", "=lo");
    command.args(["run"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Job {
    /// Ranks that meet by a file, each a process of this one.
    pub fn by_hand(program: &Path, ranks: u32, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let meeting = format!("file:{}", folder.path().join("meeting").display());
        let ranks = (0..ranks).map(|rank| {
            let mut command = topo(program);
            command.args(["--rank", &rank.to_string(), "--world", &ranks.to_string()]);
            command.args(["--rendezvous", &meeting]).args(arguments);
            command.spawn().unwrap()
        });
        Self {
            children: ranks.collect(),
            _folder: Some(folder),
        }
    }

    /// Ranks of which one starts the others.
    pub fn started_together(program: &Path, ranks: u32, arguments: &[&str]) -> Self {
        let mut command = topo(program);
        command.args(["--processes", "--ranks", &ranks.to_string()]);
        Self {
            children: vec![command.args(arguments).spawn().unwrap()],
            _folder: None,
        }
    }

    /// Whether all ranks have ended.
    pub fn is_over(&mut self) -> bool {
        let over = |child: &mut Child| child.try_wait().unwrap().is_some();
        self.children.iter_mut().all(over)
    }

    /// Memory files that the ranks have open and whose names begin so, each as often as it is open. `baseofrank1` holds
    /// the bell and the buffer table of rank 1, `connections1ofrank0` the first FIFOs and signals towards rank 0,
    /// `buffersofrank0` its buffers.
    pub fn memory(&self, name: &str) -> Vec<Memory> {
        let mut found = Vec::new();
        for child in &self.children {
            for process in family(child.id()) {
                let folder = format!("/proc/{process}/fd");
                // A process that has just ended has no files.
                for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                    found.extend(Memory::at(entry.path()).filter(|it| it.name.starts_with(name)));
                }
            }
        }
        found
    }

    /// Waits until such memory is there.
    pub fn await_memory(&mut self, name: &str) -> Vec<Memory> {
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

    /// Waits for all ranks. Those that have not ended by then are killed.
    pub fn finish(mut self, until: Instant) -> Vec<Said> {
        while !self.is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        let said = self.children.iter_mut().map(|child| {
            let status = child.try_wait().unwrap();
            let _ = child.kill();
            let (mut out, mut err) = (String::new(), String::new());
            let stdout = child.stdout.as_mut().unwrap();
            stdout.read_to_string(&mut out).unwrap();
            let stderr = child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut err).unwrap();
            Said { out, err, status }
        });
        said.collect()
    }
}

/// A process and those that it started.
fn family(process: u32) -> Vec<u32> {
    let file = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let children = text.split_whitespace().filter_map(|it| it.parse().ok());
    std::iter::once(process).chain(children).collect()
}

/// A memory file of a rank, open for writing.
pub struct Memory {
    pub name: String,
    file: File,
    /// Its length.
    pub words: u64,
}

impl Memory {
    fn at(path: PathBuf) -> Option<Self> {
        let link = std::fs::read_link(&path).ok()?;
        let name = link.to_str()?.strip_prefix("/memfd:")?;
        let name = name.trim_end_matches(" (deleted)").to_owned();
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let words = file.metadata().ok()?.len() / 8;
        Some(Self { name, file, words })
    }

    pub fn read(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, word * 8).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// The first words, at most so many.
    pub fn words(&self, most: u64) -> Vec<u64> {
        let mut bytes = vec![0; 8 * self.words.min(most) as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    pub fn write(&self, word: u64, value: u64) {
        self.file
            .write_all_at(&value.to_le_bytes(), word * 8)
            .unwrap();
    }
}
