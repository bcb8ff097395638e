//! Frames over one or more byte streams.
//!
//! Long slots are split over all pipes in equal parts; headers and short slots use the first.
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
use crate::nic::{Awaited, ConnectionError};

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

/// Bytes that were read or written, or `None` if the socket would block.
fn moved(result: io::Result<usize>) -> Result<Option<usize>, ConnectionError> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock => Ok(None),
            ErrorKind::Interrupted => Ok(Some(0)),
            _ => Err(ConnectionError::Broken(error)),
        },
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
    /// Bytes of the frame that each pipe has taken; of the first, with the header.
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
            written: vec![0; pipes.len()],
            full: vec![false; pipes.len()],
            pipes,
            pace,
            sent: Duration::ZERO,
        }
    }
}

impl SendFrames for SocketsOut {
    fn send(
        &mut self,
        header: &Header,
        bytes: &[u8],
        now: Duration,
    ) -> Result<bool, ConnectionError> {
        let count = self.pipes.len();
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
                match moved(pipe.write(&pieces))? {
                    Some(bytes) => *written += bytes,
                    None => {
                        (self.full[at], done) = (true, false);
                        break;
                    }
                }
            }
        }
        if done {
            self.written.fill(0);
            self.sent = now;
        }
        Ok(done)
    }

    fn wants_empty(&mut self, now: Duration, _ending: bool) -> bool {
        now >= self.sent + self.pace
    }

    /// The kernel sends what sockets took, and closing them is the end of the stream.
    fn is_drained(&self) -> bool {
        true
    }

    fn wait_for(&self, awaited: &mut Awaited) {
        awaited.writable.extend(sockets(&self.pipes, &self.full));
    }
}

/// The receiving end of a connection over pipes.
pub struct SocketsIn {
    /// None until the sender has connected.
    pipes: Vec<Box<dyn Pipe>>,
    arrivals: Option<Arrivals>,
    header: Header,
    header_read: usize,
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
            header: [0; HEADER_BYTES],
            header_read: 0,
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
}

impl ReceiveFrames for SocketsIn {
    fn header(&mut self) -> Result<Option<Header>, ConnectionError> {
        if self.pipes.is_empty() && !self.take_arrived() {
            return Ok(None);
        }
        self.wanted.fill(false);
        while self.header_read < HEADER_BYTES {
            let rest = &mut self.header[self.header_read..];
            match moved(self.pipes[0].read(rest))? {
                Some(0) => return Err(ConnectionError::Ended),
                Some(read) => self.header_read += read,
                None => {
                    self.wanted[0] = true;
                    return Ok(None);
                }
            }
        }
        Ok(Some(self.header))
    }

    fn read(&mut self, room: &mut [u8]) -> Result<bool, ConnectionError> {
        let (bytes, count) = (room.len(), self.pipes.len());
        let mut done = true;
        for (at, pipe) in self.pipes.iter_mut().enumerate() {
            let own = &mut room[part(bytes, at, count)];
            while self.read[at] < own.len() {
                match moved(pipe.read(&mut own[self.read[at]..]))? {
                    Some(0) => return Err(ConnectionError::Ended),
                    Some(read) => {
                        self.read[at] += read;
                        self.received += read;
                    }
                    None => {
                        (self.wanted[at], done) = (true, false);
                        break;
                    }
                }
            }
        }
        if done {
            self.read.fill(0);
            self.header_read = 0;
        }
        Ok(done)
    }

    fn take_empty(&mut self) {
        self.header_read = 0;
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

    fn wait_for(&self, awaited: &mut Awaited) {
        awaited.readable.extend(sockets(&self.pipes, &self.wanted));
    }
}
