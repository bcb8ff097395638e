//! Frames over one or more byte streams.
//!
//! Long slots are split over all pipes in equal parts; headers and short slots use the first. Short
//! frames that are due together leave with one write, and one read takes all that have arrived.
//!
//! A sender without slots sends an empty frame now and then, a beat. A receiver that has room but
//! receives neither enough of a slot nor a beat for some time reports a stalled connection. While
//! it has no room it expects nothing, so a rank that computes for long is not mistaken for a
//! stalled connection. The caller tells the time.

use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::arrivals::Arrivals;
use super::pipe::Pipe;
use crate::framing::{HEADER_BYTES, Header, ReceiveFrames, SendFrames};
use crate::nic::{ConnectionError, Waits};

/// Shorter slots use the first pipe only, bytes.
const LEAST_SPLIT: usize = 64 << 10;

/// Fewer bytes of a slot than these are no progress: if some were lost, beats arrive in their
/// place.
const LEAST_PROGRESS: usize = 1 << 10;

/// The bytes of a slot that use a pipe.
fn part(bytes: usize, pipe: usize, pipes: usize) -> Range<usize> {
    if bytes < LEAST_SPLIT || pipes == 1 {
        return if pipe == 0 { 0..bytes } else { 0..0 };
    }
    let edge = |pipe: usize| bytes * pipe / pipes;
    edge(pipe)..edge(pipe + 1)
}

/// Slots up to this length are copied into the bytes that leave with the next write, bytes. Copying
/// them takes less than the system call.
const MOST_COPIED: usize = 4 << 10;

/// Most copied bytes that wait for a write, bytes.
const MOST_AHEAD: usize = 16 << 10;

/// Bytes that a read takes besides those of a long slot. That is the memory of a receiving end.
const READ_BYTES: usize = 16 << 10;

/// Bytes that were read or written, or `None` if the socket would block.
fn moved(mut once: impl FnMut() -> io::Result<usize>) -> Result<Option<usize>, ConnectionError> {
    loop {
        return match once() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok(None),
                ErrorKind::Interrupted => continue,
                _ => Err(ConnectionError::Broken(error)),
            },
        };
    }
}

/// The sockets of the pipes that are marked.
fn sockets(pipes: &[Box<dyn Pipe>], marked: &[bool]) -> impl Iterator<Item = Arc<TcpStream>> {
    let marked = pipes.iter().zip(marked).filter(|(_, marked)| **marked);
    marked.filter_map(|(pipe, _)| pipe.socket())
}

/// The sending end of a connection over pipes.
pub struct SocketsOut {
    pipes: Vec<Box<dyn Pipe>>,
    /// Bytes that the first pipe sends before those of a long slot: short frames, and the header of
    /// that slot.
    ahead: Vec<u8>,
    /// How many of them were written.
    ahead_written: usize,
    /// Whether the header of a long slot is among them.
    begun: bool,
    /// Bytes of the long slot that each pipe has taken.
    written: Vec<usize>,
    /// Pipes that took no more.
    full: Vec<bool>,
    /// Between two beats.
    pace: Duration,
    /// When the last slot or beat was sent.
    sent: Duration,
}

impl SocketsOut {
    /// Sends over these pipes, and a beat after `pace` without slots.
    pub fn new(pipes: Vec<Box<dyn Pipe>>, pace: Duration) -> Self {
        Self {
            ahead: Vec::new(),
            ahead_written: 0,
            begun: false,
            written: vec![0; pipes.len()],
            full: vec![false; pipes.len()],
            pipes,
            pace,
            sent: Duration::ZERO,
        }
    }

    /// Writes the bytes that are ahead, then those of a long slot. Returns `false` if a pipe is
    /// full.
    fn write(&mut self, slot: &[u8]) -> Result<bool, ConnectionError> {
        let count = self.pipes.len();
        let mut done = true;
        for (at, pipe) in self.pipes.iter_mut().enumerate() {
            let own = &slot[part(slot.len(), at, count)];
            let written = &mut self.written[at];
            self.full[at] = false;
            loop {
                let ahead = match at {
                    0 => &self.ahead[self.ahead_written..],
                    _ => &[],
                };
                let rest = &own[*written..];
                if ahead.is_empty() && rest.is_empty() {
                    break;
                }
                let pieces = [IoSlice::new(ahead), IoSlice::new(rest)];
                let Some(bytes) = moved(|| pipe.write(&pieces))? else {
                    (self.full[at], done) = (true, false);
                    break;
                };
                let of_ahead = bytes.min(ahead.len());
                self.ahead_written += of_ahead;
                *written += bytes - of_ahead;
            }
        }
        if self.ahead_written == self.ahead.len() {
            self.ahead.clear();
            self.ahead_written = 0;
        }
        Ok(done)
    }
}

impl SendFrames for SocketsOut {
    fn complete(&mut self) -> Result<bool, ConnectionError> {
        // The rest of a long slot is written with its header.
        Ok(!self.ahead.is_empty() && !self.begun && self.write(&[])?)
    }

    fn send(
        &mut self,
        header: &Header,
        bytes: &[u8],
        now: Duration,
    ) -> Result<bool, ConnectionError> {
        if bytes.len() <= MOST_COPIED {
            let frame = HEADER_BYTES + bytes.len();
            if self.ahead.len() + frame > MOST_AHEAD && !self.write(&[])? {
                return Ok(false);
            }
            self.ahead.extend_from_slice(header);
            self.ahead.extend_from_slice(bytes);
            self.sent = now;
            return Ok(true);
        }
        if !self.begun {
            self.ahead.extend_from_slice(header);
            self.begun = true;
        }
        if !self.write(bytes)? {
            return Ok(false);
        }
        self.written.fill(0);
        (self.begun, self.sent) = (false, now);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        if !self.full[0] {
            self.complete()?;
        }
        Ok(())
    }

    fn wants_empty(&mut self, now: Duration, _ending: bool) -> bool {
        self.ahead.is_empty() && now >= self.sent + self.pace
    }

    /// The kernel sends what sockets took, and closing them is the end of the stream.
    fn is_drained(&self) -> bool {
        self.ahead.is_empty()
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.writable.extend(sockets(&self.pipes, &self.full));
    }

    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        self.pipes.iter().filter_map(|it| it.socket()).collect()
    }

    fn is_blocked(&self) -> bool {
        self.full.contains(&true)
    }
}

/// The receiving end of a connection over pipes.
pub struct SocketsIn {
    /// None until the sender has connected.
    pipes: Vec<Box<dyn Pipe>>,
    arrivals: Option<Arrivals>,
    /// Bytes of the first pipe that were read ahead: those in `unused`.
    ahead: Box<[u8]>,
    unused: Range<usize>,
    /// Whether the first pipe had no more at the last read of this look.
    dry: bool,
    /// The header of the slot that is being read.
    header: Option<Header>,
    /// Bytes of the slot that were read from each pipe.
    read: Vec<usize>,
    /// Pipes with more to read; none if there is no room for the slot.
    wanted: Vec<bool>,
    /// After how long without slots and beats the connection is stalled.
    silence: Duration,
    /// Since when more has been awaited in vain.
    since: Option<Duration>,
    /// Bytes that were received since then.
    received: usize,
    /// The time of the last call.
    seen: Duration,
}

impl SocketsIn {
    /// Receives over these pipes; the connection is stalled after `silence`.
    pub fn new(pipes: Vec<Box<dyn Pipe>>, silence: Duration) -> Self {
        Self {
            read: vec![0; pipes.len()],
            wanted: vec![false; pipes.len()],
            pipes,
            arrivals: None,
            ahead: vec![0; READ_BYTES].into(),
            unused: 0..0,
            dry: false,
            header: None,
            silence,
            since: None,
            received: 0,
            seen: Duration::ZERO,
        }
    }

    /// Receives over the sockets of a sender that has yet to connect.
    pub(super) fn of(arrivals: Arrivals, silence: Duration) -> Self {
        let mut end = Self::new(Vec::new(), silence);
        end.arrivals = Some(arrivals);
        end
    }

    /// Takes the sockets of the sender. Returns `false` if it has not connected yet.
    fn take_arrived(&mut self) -> bool {
        let Some(pipes) = self.arrivals.as_ref().and_then(Arrivals::take) else {
            return false;
        };
        *self = Self::new(pipes, self.silence);
        true
    }

    /// Reads ahead from the first pipe. Returns `false` if it has no more now.
    fn read_ahead(&mut self) -> Result<bool, ConnectionError> {
        if self.dry {
            return Ok(false);
        }
        self.ahead.copy_within(self.unused.clone(), 0);
        self.unused = 0..self.unused.len();
        let room = &mut self.ahead[self.unused.end..];
        let read = moved(|| self.pipes[0].read(room))?;
        // A stream that gives less than there is room for has no more.
        self.dry = read.is_none_or(|it| it < room.len());
        match read {
            Some(0) => Err(ConnectionError::Ended),
            Some(bytes) => {
                self.unused.end += bytes;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Reads bytes of the slot from a pipe. Returns how many; `None` if it has no more now.
    fn read_from(&mut self, at: usize, room: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        let is_short = room.len() <= self.ahead.len() / 2;
        if at == 0 && self.unused.is_empty() && is_short && !self.read_ahead()? {
            return Ok(None);
        }
        if at == 0 && !self.unused.is_empty() {
            let bytes = room.len().min(self.unused.len());
            let from = &self.ahead[self.unused.clone()][..bytes];
            room[..bytes].copy_from_slice(from);
            self.unused.start += bytes;
            return Ok(Some(bytes));
        }
        if at == 0 && self.dry {
            return Ok(None);
        }
        let read = moved(|| self.pipes[at].read(room))?;
        self.dry |= at == 0 && read.is_none_or(|it| it < room.len());
        match read {
            Some(0) => Err(ConnectionError::Ended),
            read => Ok(read),
        }
    }
}

impl ReceiveFrames for SocketsIn {
    fn begin(&mut self) {
        self.dry = false;
    }

    fn header(&mut self) -> Result<Option<Header>, ConnectionError> {
        if self.pipes.is_empty() && !self.take_arrived() {
            return Ok(None);
        }
        self.wanted.fill(false);
        if self.header.is_some() {
            return Ok(self.header);
        }
        while self.unused.len() < HEADER_BYTES {
            if !self.read_ahead()? {
                self.wanted[0] = true;
                return Ok(None);
            }
        }
        let (header, _) = self.ahead[self.unused.clone()].split_at(HEADER_BYTES);
        self.header = header.try_into().ok();
        self.unused.start += HEADER_BYTES;
        Ok(self.header)
    }

    fn read(&mut self, room: &mut [u8]) -> Result<bool, ConnectionError> {
        let (bytes, count) = (room.len(), self.pipes.len());
        let mut done = true;
        for at in 0..count {
            let own = &mut room[part(bytes, at, count)];
            while self.read[at] < own.len() {
                let Some(read) = self.read_from(at, &mut own[self.read[at]..])? else {
                    (self.wanted[at], done) = (true, false);
                    break;
                };
                self.read[at] += read;
                self.received += read;
            }
        }
        if done {
            self.read.fill(0);
            self.header = None;
        }
        Ok(done)
    }

    fn take_empty(&mut self) {
        self.header = None;
        self.since = None;
    }

    fn check(&mut self, now: Duration, posted: bool) -> Result<(), ConnectionError> {
        // After so long between two calls this process was suspended, and knows nothing of the
        // peer.
        if now >= self.seen + self.silence {
            self.since = None;
        }
        self.seen = now;
        if !self.wanted.contains(&true) {
            // The sender waits for this side.
            self.since = None;
        } else if posted || self.received >= LEAST_PROGRESS || self.since.is_none() {
            (self.since, self.received) = (Some(now), 0);
        } else if self.since.is_some_and(|it| now >= it + self.silence) {
            return Err(ConnectionError::Stalled(self.silence));
        }
        Ok(())
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.readable.extend(sockets(&self.pipes, &self.wanted));
    }

    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        self.pipes.iter().filter_map(|it| it.socket()).collect()
    }

    fn is_blocked(&self) -> bool {
        self.wanted.contains(&true)
    }
}
