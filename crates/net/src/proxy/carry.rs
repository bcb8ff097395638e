//! One FIFO through one or more pipes: the sending and the receiving half, which go on as far as they can and never wait.
//!
//! A slot is a header of 16 bytes (step, length, checksum of the bytes or 0, checksum of the header; little endian) and
//! its bytes. Long slots are split over all pipes in equal parts; the header and short slots go through the first.
//! A slot is given back when all its bytes are with the kernel, and read only when there is room for it, so a receiver
//! that is slow holds the sender up.
//!
//! A sender that has nothing to send says so now and then by a header alone, a beat. A receiver that could take more and
//! gets neither enough of a slot nor a beat for some time gives the connection up. While it has no room it awaits nothing,
//! so a rank that computes for long is not taken for a connection that stands still. Time is what the caller says it is.

use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use shared_memory::fifo::relay::{self, Inflow, Outflow};
use thiserror::Error;

use crate::tcp::pipe::Pipe;

/// Bytes of a slot that say what it is.
pub(crate) const HEADER_BYTES: usize = 16;

/// Shorter slots go through the first pipe alone, bytes.
const LEAST_SPLIT: usize = 64 << 10;

/// The length in a beat. No slot is so long.
const BEAT: usize = u32::MAX as usize;

/// Fewer bytes of a slot than these are no progress: where some were lost, beats come in their place.
const LEAST_PROGRESS: usize = 1 << 10;

/// Why a connection cannot be carried further.
#[derive(Debug, Error)]
pub enum CarryError {
    /// The other side closed it.
    #[error("was closed by the other side")]
    Ended,
    /// It broke.
    #[error("broke: {0}")]
    Broken(io::Error),
    /// What came is not what was sent.
    #[error("brought bytes that are not those that were sent ({0})")]
    Altered(&'static str),
    /// A slot that no sender of this job has.
    #[error("brought a slot of {bytes} bytes, more than the {most} that fit")]
    Oversized {
        /// Its length.
        bytes: usize,
        /// Bytes of a slot of the FIFO.
        most: usize,
    },
    /// The sending rank says of a slot that it is longer than slots are.
    #[error(transparent)]
    Announced(#[from] relay::Oversized),
    /// Neither slots nor beats come.
    #[error("brought nothing for {} s, although its sender says every second that it is there", .0.as_secs_f32())]
    Stalled(Duration),
}

/// The bytes of a slot that go through a pipe.
fn part(bytes: usize, pipe: usize, pipes: usize) -> std::ops::Range<usize> {
    if bytes < LEAST_SPLIT || pipes == 1 {
        return if pipe == 0 { 0..bytes } else { 0..0 };
    }
    let edge = |pipe: usize| bytes * pipe / pipes;
    edge(pipe)..edge(pipe + 1)
}

pub(crate) fn header(step: u32, bytes: usize, checksum: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&step.to_le_bytes());
    header[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
    let own = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    header
}

pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// A checksum that is never 0, which stands for none.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes).max(1)
}

/// What a pipe said, as far as it is no reason to go on later.
fn progress(result: io::Result<usize>) -> Result<Option<usize>, CarryError> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock => Ok(None),
            ErrorKind::Interrupted => Ok(Some(0)),
            _ => Err(CarryError::Broken(error)),
        },
    }
}

/// The sending half.
pub struct Outgoing {
    slots: Box<dyn Outflow>,
    pipes: Vec<Box<dyn Pipe>>,
    checks: bool,
    step: u32,
    /// The header of the slot that is on its way.
    header: Option<[u8; HEADER_BYTES]>,
    /// Bytes that each pipe took of it; of the first, with the header.
    written: Vec<usize>,
    /// Pipes that took no more.
    pub full: Vec<bool>,
    /// The rest of a beat that is on its way.
    beat: Vec<u8>,
    /// Between two beats.
    pace: Duration,
    /// When the last slot or beat was sent.
    said: Duration,
}

impl Outgoing {
    /// Carries these slots through these pipes; `checks` says whether each slot carries a checksum, `pace` after how long
    /// without a slot there is a beat.
    pub fn new(
        slots: Box<dyn Outflow>,
        pipes: Vec<Box<dyn Pipe>>,
        checks: bool,
        pace: Duration,
    ) -> Self {
        Self {
            slots,
            checks,
            beat: Vec::new(),
            pace,
            said: Duration::ZERO,
            step: 0,
            header: None,
            written: vec![0; pipes.len()],
            full: vec![false; pipes.len()],
            pipes,
        }
    }

    /// Its pipes.
    pub fn pipes(&self) -> &[Box<dyn Pipe>] {
        &self.pipes
    }

    /// Whether nothing is left to be sent.
    pub fn is_empty(&mut self) -> bool {
        !matches!(self.slots.next(), Ok(Some(_)))
    }

    /// Sends the rest of a beat; answers whether nothing is left of it.
    fn end_beat(&mut self) -> Result<bool, CarryError> {
        while !self.beat.is_empty() {
            match progress(self.pipes[0].write(&[IoSlice::new(&self.beat)]))? {
                Some(written) => drop(self.beat.drain(..written)),
                None => {
                    self.full[0] = true;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends what it can; answers how many slots it gave back. `now` is the time since some moment that stays the same.
    ///
    /// # Errors
    /// The connection is over.
    pub fn go_on(&mut self, now: Duration) -> Result<usize, CarryError> {
        let mut sent = 0;
        let count = self.pipes.len();
        self.full[0] = false;
        while self.end_beat()? {
            let Some(bytes) = self.slots.next()? else {
                if now < self.said + self.pace {
                    break;
                }
                self.said = now;
                self.beat.extend(header(self.step, BEAT, 0));
                continue;
            };
            let (step, checks) = (self.step, self.checks);
            let header = *self.header.get_or_insert_with(|| {
                let checksum = if checks { checksum(bytes) } else { 0 };
                header(step, bytes.len(), checksum)
            });
            let mut done = true;
            for (at, pipe) in self.pipes.iter_mut().enumerate() {
                let own = &bytes[part(bytes.len(), at, count)];
                let head = if at == 0 { HEADER_BYTES } else { 0 };
                let written = &mut self.written[at];
                self.full[at] = false;
                while *written < head + own.len() {
                    let pieces = [
                        IoSlice::new(&header[(*written).min(head)..head]),
                        IoSlice::new(&own[written.saturating_sub(head)..]),
                    ];
                    match progress(pipe.write(&pieces))? {
                        Some(bytes) => *written += bytes,
                        None => {
                            (self.full[at], done) = (true, false);
                            break;
                        }
                    }
                }
            }
            if !done {
                break;
            }
            self.written.fill(0);
            self.header = None;
            self.step = self.step.wrapping_add(1);
            self.slots.release();
            self.said = now;
            sent += 1;
        }
        Ok(sent)
    }
}

/// The receiving half.
pub struct Incoming {
    slots: Box<dyn Inflow>,
    pipes: Vec<Box<dyn Pipe>>,
    step: u32,
    header: [u8; HEADER_BYTES],
    header_read: usize,
    /// Bytes that each pipe brought of the slot that is on its way.
    read: Vec<usize>,
    /// Pipes of which more is awaited; none if there is no room for the slot that is on its way.
    pub wanted: Vec<bool>,
    /// After how long without a sign of life the connection is given up.
    silence: Duration,
    /// Since when more has been awaited in vain.
    since: Option<Duration>,
    /// Bytes that came since then.
    came: usize,
    /// When it last went on.
    seen: Duration,
}

impl Incoming {
    /// Posts what these pipes bring; gives up after so long a silence.
    pub fn new(slots: Box<dyn Inflow>, pipes: Vec<Box<dyn Pipe>>, silence: Duration) -> Self {
        Self {
            slots,
            silence,
            since: None,
            came: 0,
            seen: Duration::ZERO,
            step: 0,
            header: [0; HEADER_BYTES],
            header_read: 0,
            read: vec![0; pipes.len()],
            wanted: vec![false; pipes.len()],
            pipes,
        }
    }

    /// Its pipes.
    pub fn pipes(&self) -> &[Box<dyn Pipe>] {
        &self.pipes
    }

    /// Takes what has come; answers how many slots it posted. `now` is the time since some moment that stays the same.
    ///
    /// # Errors
    /// The connection is over, stands still, or brought something else than was sent.
    pub fn go_on(&mut self, now: Duration) -> Result<usize, CarryError> {
        let posted = self.take()?;
        // A process that did not run itself knows nothing of the other.
        if now >= self.seen + self.silence {
            self.since = None;
        }
        self.seen = now;
        if !self.wanted.contains(&true) {
            // This side is the one that is waited for.
            self.since = None;
        } else if posted > 0 || self.came >= LEAST_PROGRESS || self.since.is_none() {
            (self.since, self.came) = (Some(now), 0);
        } else if self.since.is_some_and(|it| now >= it + self.silence) {
            return Err(CarryError::Stalled(self.silence));
        }
        Ok(posted)
    }

    fn take(&mut self) -> Result<usize, CarryError> {
        let mut posted = 0;
        let count = self.pipes.len();
        self.wanted.fill(false);
        loop {
            while self.header_read < HEADER_BYTES {
                let rest = &mut self.header[self.header_read..];
                match progress(self.pipes[0].read(rest))? {
                    Some(0) => return Err(CarryError::Ended),
                    Some(read) => self.header_read += read,
                    None => {
                        self.wanted[0] = true;
                        return Ok(posted);
                    }
                }
            }
            let bytes = number(&self.header[4..8]) as usize;
            if crc32fast::hash(&self.header[..12]) != number(&self.header[12..]) {
                return Err(CarryError::Altered("the checksum of a header is wrong"));
            }
            if number(&self.header[..4]) != self.step {
                return Err(CarryError::Altered("a slot came that is not due"));
            }
            if bytes == BEAT {
                self.header_read = 0;
                self.since = None;
                continue;
            }
            let most = self.slots.most_bytes();
            if bytes > most {
                return Err(CarryError::Oversized { bytes, most });
            }
            let Some(room) = self.slots.room(bytes) else {
                return Ok(posted);
            };
            let mut done = true;
            for (at, pipe) in self.pipes.iter_mut().enumerate() {
                let own = &mut room[part(bytes, at, count)];
                while self.read[at] < own.len() {
                    match progress(pipe.read(&mut own[self.read[at]..]))? {
                        Some(0) => return Err(CarryError::Ended),
                        Some(read) => {
                            self.read[at] += read;
                            self.came += read;
                        }
                        None => {
                            (self.wanted[at], done) = (true, false);
                            break;
                        }
                    }
                }
            }
            if !done {
                return Ok(posted);
            }
            let expected = number(&self.header[8..12]);
            if expected != 0 && checksum(room) != expected {
                return Err(CarryError::Altered("the checksum of a slot is wrong"));
            }
            self.slots.post(bytes);
            self.read.fill(0);
            self.header_read = 0;
            self.step = self.step.wrapping_add(1);
            posted += 1;
        }
    }
}
