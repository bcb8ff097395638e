//! FIFOs whose slots are copied into frames.
//!
//! A frame is a header of 16 bytes (step, length, checksum of the bytes or 0, checksum of the
//! header; little endian) and the bytes of a slot. A slot is released when the connection has taken
//! its bytes, and a frame is read only when there is room for it, so a slow receiver holds the
//! sender up. A frame of length `EMPTY` has no bytes; what it says is the connection's business.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use shared_memory::fifo::relay::{Inflow, Outflow};

use crate::nic::{ConnectionError, Incoming, Outgoing, Waits};

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 16;

/// The head of a frame.
pub type Header = [u8; HEADER_BYTES];

/// The length in an empty frame. No slot is so long.
const EMPTY: usize = u32::MAX as usize;

/// The sending end of a connection that keeps frames whole and in order.
pub trait SendFrames: Send {
    /// Completes sends that are under way. Returns `true` if any is complete.
    ///
    /// # Errors
    /// The connection is over.
    fn complete(&mut self) -> Result<bool, ConnectionError> {
        Ok(false)
    }

    /// Takes a frame, which leaves at the next [`Self::flush`] at the latest. Returns `false` if it
    /// is to be called again with the same frame.
    ///
    /// # Errors
    /// The connection is over.
    fn send(
        &mut self,
        header: &Header,
        bytes: &[u8],
        now: Duration,
    ) -> Result<bool, ConnectionError>;

    /// Sends an empty frame, as [`Self::send`].
    ///
    /// # Errors
    /// The connection is over.
    fn send_empty(&mut self, header: &Header, now: Duration) -> Result<bool, ConnectionError> {
        self.send(header, &[], now)
    }

    /// Sends what it took.
    ///
    /// # Errors
    /// The connection is over.
    fn flush(&mut self) -> Result<(), ConnectionError> {
        Ok(())
    }

    /// Whether an empty frame is to be sent now that there is no slot.
    fn wants_empty(&mut self, now: Duration, ending: bool) -> bool;

    /// Whether nothing that it took is left to be sent.
    fn is_drained(&self) -> bool;

    /// Adds what it waits for.
    fn wait_for(&self, awaited: &mut Waits);

    /// As [`Outgoing::sockets`].
    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        Vec::new()
    }

    /// As [`Outgoing::is_blocked`].
    fn is_blocked(&self) -> bool {
        false
    }
}

/// The receiving end of a connection that keeps frames whole and in order.
pub trait ReceiveFrames: Send {
    /// Looks for new data from now on.
    fn begin(&mut self) {}

    /// The header of the next frame, if it has arrived.
    ///
    /// # Errors
    /// The connection is over.
    fn header(&mut self) -> Result<Option<Header>, ConnectionError>;

    /// Reads the bytes of that frame. Returns `false` if it is to be called again, after
    /// [`Self::header`] and with as much room.
    ///
    /// # Errors
    /// The connection is over.
    fn read(&mut self, room: &mut [u8]) -> Result<bool, ConnectionError>;

    /// Takes that frame, which is empty.
    fn take_empty(&mut self);

    /// Notes whether any slots were posted.
    ///
    /// # Errors
    /// The connection is stalled.
    fn check(&mut self, now: Duration, posted: bool) -> Result<(), ConnectionError> {
        let _ = (now, posted);
        Ok(())
    }

    /// As [`Incoming::awaits_end`].
    fn awaits_end(&self) -> bool {
        false
    }

    /// Adds what it waits for.
    fn wait_for(&self, awaited: &mut Waits);

    /// As [`Incoming::sockets`].
    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        Vec::new()
    }

    /// As [`Incoming::is_blocked`].
    fn is_blocked(&self) -> bool {
        false
    }
}

pub(crate) fn header(step: u32, bytes: usize, checksum: u32) -> Header {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&step.to_le_bytes());
    header[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
    let own = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    header
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// A checksum that is never 0: 0 in a header means that there is none.
fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes).max(1)
}

/// A FIFO whose slots are sent as frames.
pub struct FramedOut<C> {
    // The connection ends before the slots.
    connection: C,
    slots: Box<dyn Outflow>,
    checks: bool,
    step: u32,
    /// The header of the slot that is being sent.
    header: Option<Header>,
    /// Whether an empty frame is being sent.
    empty: bool,
}

impl<C: SendFrames> FramedOut<C> {
    /// Sends these slots, with checksums if `checks`.
    pub fn new(connection: C, slots: Box<dyn Outflow>, checks: bool) -> Self {
        Self {
            connection,
            slots,
            checks,
            step: 0,
            header: None,
            empty: false,
        }
    }
}

impl<C: SendFrames> FramedOut<C> {
    /// Gives the connection as many frames as it takes. Returns `true` if it took any.
    fn send(&mut self, now: Duration, ending: bool) -> Result<bool, ConnectionError> {
        let mut progressed = false;
        loop {
            if self.empty {
                let header = header(self.step, EMPTY, 0);
                if !self.connection.send_empty(&header, now)? {
                    return Ok(progressed);
                }
                self.empty = false;
            }
            let Some(bytes) = self.slots.next()? else {
                self.empty = self.connection.wants_empty(now, ending);
                if !self.empty {
                    return Ok(progressed);
                }
                continue;
            };
            let (step, checks) = (self.step, self.checks);
            let header = *self.header.get_or_insert_with(|| {
                let checksum = if checks { checksum(bytes) } else { 0 };
                header(step, bytes.len(), checksum)
            });
            if !self.connection.send(&header, bytes, now)? {
                return Ok(progressed);
            }
            self.header = None;
            self.step = self.step.wrapping_add(1);
            self.slots.release();
            progressed = true;
        }
    }
}

impl<C: SendFrames> Outgoing for FramedOut<C> {
    fn progress(&mut self, now: Duration, ending: bool) -> Result<bool, ConnectionError> {
        let completed = self.connection.complete()?;
        let sent = self.send(now, ending)?;
        self.connection.flush()?;
        Ok(completed || sent)
    }

    fn is_drained(&mut self) -> bool {
        !matches!(self.slots.next(), Ok(Some(_))) && self.connection.is_drained()
    }

    fn wait_for(&self, awaited: &mut Waits) {
        self.connection.wait_for(awaited);
    }

    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        self.connection.sockets()
    }

    fn is_blocked(&self) -> bool {
        self.connection.is_blocked()
    }
}

/// A FIFO to which received frames are posted.
pub struct FramedIn<C> {
    connection: C,
    slots: Box<dyn Inflow>,
    step: u32,
}

impl<C: ReceiveFrames> FramedIn<C> {
    /// Posts what arrives to these slots.
    pub fn new(connection: C, slots: Box<dyn Inflow>) -> Self {
        Self {
            connection,
            slots,
            step: 0,
        }
    }

    fn post(&mut self) -> Result<usize, ConnectionError> {
        let altered = ConnectionError::Altered;
        let mut posted = 0;
        while let Some(header) = self.connection.header()? {
            let bytes = number(&header[4..8]) as usize;
            if crc32fast::hash(&header[..12]) != number(&header[12..]) {
                return Err(altered("the checksum of a header is wrong"));
            }
            if number(&header[..4]) != self.step {
                return Err(altered("a slot came that is not due"));
            }
            if bytes == EMPTY {
                self.connection.take_empty();
                continue;
            }
            let most = self.slots.most_bytes();
            if bytes > most {
                return Err(ConnectionError::Oversized { bytes, most });
            }
            let Some(room) = self.slots.room(bytes) else {
                break;
            };
            if !self.connection.read(room)? {
                break;
            }
            let expected = number(&header[8..12]);
            if expected != 0 && checksum(room) != expected {
                return Err(altered("the checksum of a slot is wrong"));
            }
            self.slots.post(bytes);
            self.step = self.step.wrapping_add(1);
            posted += 1;
        }
        Ok(posted)
    }
}

impl<C: ReceiveFrames> Incoming for FramedIn<C> {
    fn progress(&mut self, now: Duration) -> Result<usize, ConnectionError> {
        self.connection.begin();
        let posted = self.post()?;
        self.connection.check(now, posted > 0)?;
        Ok(posted)
    }

    fn awaits_end(&self) -> bool {
        self.connection.awaits_end()
    }

    fn wait_for(&self, awaited: &mut Waits) {
        self.connection.wait_for(awaited);
    }

    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        self.connection.sockets()
    }

    fn is_blocked(&self) -> bool {
        self.connection.is_blocked()
    }
}
