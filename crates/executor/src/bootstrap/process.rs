//! The bootstrap of ranks that are processes of one host: each has a socket to whoever started them, where a
//! [`Server`] keeps the offers and tells everyone when a process ends that should not.
//!
//! Messages are lines of words. From a rank: `put NAME TEXT`, `get RANK NAME`, `fail TEXT`, `bye`. To a rank:
//! `value TEXT`, `failed RANK TEXT`, `left RANK`.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Bootstrap, Offer};
use crate::error::{Error, Failure};

/// Longest line that is read, bytes. A message names at most one segment with all its items.
const LONGEST_LINE: usize = 1 << 22;

/// Most bytes that a rank may offer and ask for. A thousand ranks that all talk to each other offer about half of it.
const MOST_OFFERED: usize = 64 << 20;

/// How long a line may take to be written. Sockets hold some hundred lines that nobody reads.
const WRITE_TIME: Duration = Duration::from_secs(5);

/// The bootstrap of one rank among processes.
pub struct Client {
    rank: u32,
    ranks: u32,
    stream: UnixStream,
    /// What was read and is no whole line yet, and how much of it has no line break.
    partial: Vec<u8>,
    searched: usize,
    failure: Option<Failure>,
    left: Vec<u32>,
}

impl Client {
    /// The bootstrap of a rank whose socket leads to a [`Server`].
    pub const fn new(rank: u32, ranks: u32, stream: UnixStream) -> Self {
        Self {
            rank,
            ranks,
            stream,
            partial: Vec::new(),
            searched: 0,
            failure: None,
            left: Vec::new(),
        }
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::Bootstrap {
            rank: self.rank,
            why: why.to_string(),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), Error> {
        let limited = self.stream.set_write_timeout(Some(WRITE_TIME));
        let sent = limited.and_then(|()| self.stream.write_all(format!("{line}\n").as_bytes()));
        sent.map_err(|error| self.error(format!("the starting process does not listen: {error}")))
    }

    /// The next line, waiting for `longest` at most; `None` if there is none yet.
    fn line(&mut self, longest: Duration) -> Option<String> {
        loop {
            let new = self.partial[self.searched..].iter();
            if let Some(end) = new.clone().position(|byte| *byte == b'\n') {
                let end = self.searched + end;
                self.searched = 0;
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.searched = self.partial.len();
            if self.searched > LONGEST_LINE {
                self.lost("sent a line that is too long");
                return None;
            }
            let ready = if longest.is_zero() {
                self.stream.set_nonblocking(true)
            } else {
                let set = self.stream.set_nonblocking(false);
                set.and_then(|()| self.stream.set_read_timeout(Some(longest)))
            };
            let mut bytes = [0; 4096];
            let read = ready.and_then(|()| self.stream.read(&mut bytes));
            // Writing wants a socket that blocks.
            let _ = self.stream.set_nonblocking(false);
            match read {
                Ok(0) => self.lost("ended"),
                Ok(read) => {
                    self.partial.extend_from_slice(&bytes[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => self.lost(&format!("cannot be heard: {error}")),
            }
            return None;
        }
    }

    fn lost(&mut self, how: &str) {
        let rank = self.rank;
        let what = format!("the process that started it {how}");
        self.failure.get_or_insert(Failure { rank, what });
    }

    /// Takes a line that is no answer.
    fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "failed" => {
                let (rank, what) = rest.split_once(' ').unwrap_or((rest, ""));
                let rank = rank.parse().unwrap_or(u32::MAX);
                let what = what.to_owned();
                self.failure.get_or_insert(Failure { rank, what });
            }
            "left" => self.left.extend(rest.parse::<u32>()),
            _ => {}
        }
    }

    fn known_failure(&self, waiting_for: Option<u32>) -> Option<Failure> {
        let left = || {
            let rank = waiting_for.filter(|rank| self.left.contains(rank))?;
            let what = "it ended while others still needed it".to_owned();
            Some(Failure { rank, what })
        };
        self.failure.clone().or_else(left)
    }
}

impl Bootstrap for Client {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn shares_memory(&self, peer: u32) -> bool {
        peer == self.rank
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.say(&format!("put {name} {}", offer.text))
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let deadline = Instant::now() + longest;
        self.say(&format!("get {from} {name}"))?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = longest.as_secs_f32();
                return Err(self.error(format!(
                    "rank {from} did not offer `{name}` within {seconds} s"
                )));
            }
            if let Some(line) = self.line(left.min(Duration::from_millis(100))) {
                if let Some(text) = line.strip_prefix("value ") {
                    let text = text.to_owned();
                    return Ok(Offer {
                        text,
                        segment: None,
                    });
                }
                self.note(&line);
            }
            if let Some(failure) = self.known_failure(Some(from)) {
                let rank = self.rank;
                return Err(Error::Aborted { rank, failure });
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let what = failure.what.replace('\n', " ");
        // If nobody listens, everyone is gone already.
        let _ = self.say(&format!("fail {} {what}", failure.rank));
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        while let Some(line) = self.line(Duration::ZERO) {
            self.note(&line);
        }
        self.known_failure(waiting_for)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.say("bye");
        }
    }
}

#[derive(Default)]
struct State {
    offers: FxHashMap<(u32, String), String>,
    /// Who asked for what is not offered yet.
    waiting: FxHashMap<(u32, String), Vec<u32>>,
    writers: Vec<Option<UnixStream>>,
    /// By rank: bytes that it offered and asked for.
    offered: Vec<usize>,
    failure: Option<Failure>,
}

impl State {
    fn tell(&mut self, rank: u32, line: &str) {
        let Some(Some(writer)) = self.writers.get_mut(rank as usize) else {
            return;
        };
        let told = writer.write_all(format!("{line}\n").as_bytes());
        // One that is gone is noticed by its reader.
        if told.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            // Part of the line may be there: nothing can follow.
            self.writers[rank as usize] = None;
            let what = format!(
                "it does not listen to what it asked for, for {} s",
                WRITE_TIME.as_secs()
            );
            self.fail(Failure { rank, what });
        }
    }

    fn tell_all(&mut self, line: &str) {
        for rank in 0..self.writers.len() as u32 {
            self.tell(rank, line);
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            let line = format!("failed {} {}", failure.rank, failure.what);
            self.failure = Some(failure);
            self.tell_all(&line);
        }
    }
}

/// Keeps what ranks offer, and hears when one ends.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
}

impl Server {
    /// A server for ranks with these sockets, in rank order. It runs until the last rank has ended.
    ///
    /// # Errors
    /// The sockets or a thread cannot be had.
    pub fn start(streams: Vec<UnixStream>) -> std::io::Result<Self> {
        let writer = |stream: &UnixStream| {
            stream.set_write_timeout(Some(WRITE_TIME))?;
            stream.try_clone().map(Some)
        };
        let writers: std::io::Result<Vec<_>> = streams.iter().map(writer).collect();
        let state = State {
            offered: vec![0; streams.len()],
            writers: writers?,
            ..State::default()
        };
        let server = Self {
            state: Arc::new(Mutex::new(state)),
        };
        for (stream, rank) in streams.into_iter().zip(0..) {
            let server = server.clone();
            std::thread::Builder::new()
                .name(format!("bootstrap of rank {rank}"))
                .spawn(move || server.serve(rank, stream))?;
        }
        Ok(server)
    }

    /// What made the communicator fail, if anything did.
    pub fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Makes the communicator fail, as when a process was seen to end.
    pub fn fail(&self, failure: Failure) {
        self.lock().fail(failure);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, rank: u32, stream: UnixStream) {
        let mut reader = BufReader::new(stream);
        let mut done = false;
        loop {
            let mut line = String::new();
            let read = reader
                .by_ref()
                .take(LONGEST_LINE as u64)
                .read_line(&mut line);
            if !matches!(read, Ok(1..)) || !line.ends_with('\n') {
                break;
            }
            done |= self.take(rank, line.trim_end_matches('\n'));
        }
        let mut state = self.lock();
        state.writers[rank as usize] = None;
        if done {
            state.tell_all(&format!("left {rank}"));
        } else {
            let what = "its process ended".to_owned();
            state.fail(Failure { rank, what });
        }
    }

    /// Takes a line of a rank; answers whether the rank is done.
    fn take(&self, rank: u32, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut state = self.lock();
        if matches!(word, "put" | "get") {
            let offered = &mut state.offered[rank as usize];
            *offered += line.len();
            if *offered > MOST_OFFERED {
                let most = MOST_OFFERED >> 20;
                let what = format!("it offers more than {most} MiB of descriptions of its memory");
                state.fail(Failure { rank, what });
                return false;
            }
        }
        match word {
            "put" => {
                let key = (rank, first.to_owned());
                for asker in state.waiting.remove(&key).unwrap_or_default() {
                    state.tell(asker, &format!("value {text}"));
                }
                state.offers.insert(key, text.to_owned());
            }
            "get" => {
                let key = (first.parse().unwrap_or(u32::MAX), text.to_owned());
                match state.offers.get(&key).cloned() {
                    Some(text) => state.tell(rank, &format!("value {text}")),
                    None => state.waiting.entry(key).or_default().push(rank),
                }
            }
            "fail" => {
                let rank = first.parse().unwrap_or(rank);
                let what = text.to_owned();
                state.fail(Failure { rank, what });
            }
            "bye" => return true,
            _ => {}
        }
        false
    }
}
