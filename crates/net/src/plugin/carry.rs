//! One FIFO through a connection of a net plug-in: the sending and the receiving half, which go on as far as they can and
//! never wait.
//!
//! A message is a slot's bytes and behind them the 16 bytes that over TCP go before it (step, length, checksum of the
//! bytes or 0, checksum of these). Slots are copied into the connection's registered memory, of which as many are under
//! way as a FIFO has slots, and given back to the engine at once.
//!
//! A receiver always has receives posted, for it cannot know how many messages come. At the end the sender sends as many
//! empty messages as there are receives left, so that no request is under way when a connection is closed.

use net_plugin::{Receiving, Sending, Shape};
use shared_memory::fifo::SLOTS;
use shared_memory::fifo::relay::{Inflow, Outflow, Oversized};
use thiserror::Error;

use crate::proxy::carry::{HEADER_BYTES, checksum, header, number};

/// Messages of a connection that are under way at most.
pub(super) const MESSAGES: usize = SLOTS as usize;

/// The length that says that nothing follows any more.
const END: usize = u32::MAX as usize;

/// Why a connection cannot be carried further.
#[derive(Debug, Error)]
pub enum CarryError {
    /// The plug-in failed.
    #[error("broke: {0}")]
    Plugin(#[from] net_plugin::Error),
    /// What came is not what was sent.
    #[error("brought bytes that are not those that were sent ({0})")]
    Altered(&'static str),
    /// The sending rank says of a slot that it is longer than slots are.
    #[error(transparent)]
    Announced(#[from] Oversized),
    /// The other side offers something that is no handle.
    #[error("cannot be made: what the other side offers is no handle of a net plug-in")]
    Handle,
    /// One side wants slots in place, and the other one copies them.
    #[error(
        "cannot be made: one side lets NICs reach the slots of its GPU, and the other one copies them; run the same backend on all ranks"
    )]
    Form,
}

/// What both ends of a connection do, for slots of so many bytes. The tag is the sender's rank, as in NCCL.
pub fn shape(most_bytes: usize, from: u32) -> Shape {
    Shape {
        messages: MESSAGES,
        bytes: most_bytes + HEADER_BYTES,
        tag: from as i32,
        memory: None,
    }
}

/// The sending half.
pub struct Outgoing {
    // Before what it carries: slots end after the connection.
    sending: Sending,
    slots: Box<dyn Outflow>,
    checks: bool,
    step: u32,
    /// Length of the message that is in the connection's memory and that the plug-in did not take yet.
    ready: Option<usize>,
    /// Empty messages that are still to be sent at the end.
    ends: Option<usize>,
}

impl Outgoing {
    /// Carries these slots; `checks` says whether each carries a checksum.
    pub fn new(sending: Sending, slots: Box<dyn Outflow>, checks: bool) -> Self {
        Self {
            sending,
            slots,
            checks,
            step: 0,
            ready: None,
            ends: None,
        }
    }

    /// Whether everything was sent, the end too.
    pub fn is_over(&self) -> bool {
        self.ends == Some(0) && self.ready.is_none() && self.sending.under_way() == 0
    }

    /// Whether something is under way, or wants to be.
    pub fn is_busy(&self) -> bool {
        self.ready.is_some() || self.sending.under_way() > 0
    }

    /// Sends what it can, and at the end the end; answers whether anything went on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn go_on(&mut self, ending: bool) -> Result<bool, CarryError> {
        let mut went = false;
        while self.sending.is_sent()? {
            went = true;
        }
        loop {
            if self.ready.is_none() {
                self.ready = self.fill(ending)?;
            }
            let Some(bytes) = self.ready else {
                return Ok(went);
            };
            if !self.sending.send(bytes)? {
                return Ok(went);
            }
            self.ready = None;
            went = true;
        }
    }

    /// Puts the next message into the connection's memory, if there is one and there is room.
    fn fill(&mut self, ending: bool) -> Result<Option<usize>, Oversized> {
        let Some(room) = self.sending.room() else {
            return Ok(None);
        };
        let (bytes, checksum) = match self.slots.next()? {
            Some(slot) => {
                room[..slot.len()].copy_from_slice(slot);
                let checksum = if self.checks { checksum(slot) } else { 0 };
                (slot.len(), checksum)
            }
            None if ending => {
                let ends = self.ends.get_or_insert(MESSAGES);
                if *ends == 0 {
                    return Ok(None);
                }
                *ends -= 1;
                (END, 0)
            }
            None => return Ok(None),
        };
        let length = if bytes == END { 0 } else { bytes };
        room[length..length + HEADER_BYTES].copy_from_slice(&header(self.step, bytes, checksum));
        self.step = self.step.wrapping_add(1);
        if bytes != END {
            self.slots.release();
        }
        Ok(Some(length + HEADER_BYTES))
    }
}

/// The receiving half.
pub struct Incoming {
    receiving: Receiving,
    slots: Box<dyn Inflow>,
    step: u32,
    /// Empty messages that came: the end.
    ends: usize,
}

impl Incoming {
    /// Posts what comes.
    pub fn new(receiving: Receiving, slots: Box<dyn Inflow>) -> Self {
        Self {
            receiving,
            slots,
            step: 0,
            ends: 0,
        }
    }

    /// Whether the end has come, and no receive is posted any more.
    pub const fn is_over(&self) -> bool {
        self.ends == MESSAGES
    }

    /// Takes what has come; answers whether anything did.
    ///
    /// # Errors
    /// The connection is over, or brought something else than was sent.
    pub fn go_on(&mut self) -> Result<bool, CarryError> {
        let mut went = false;
        loop {
            let taken = self.take()?;
            // After the first empty message exactly the others are awaited.
            let wanted = MESSAGES - self.ends;
            while self.receiving.has_room() && self.receiving.posted() < wanted {
                if !self.receiving.post()? {
                    return Ok(went || taken);
                }
            }
            if !taken {
                return Ok(went);
            }
            went = true;
        }
    }

    /// Brings the oldest message to its FIFO, if it is here and there is room.
    fn take(&mut self) -> Result<bool, CarryError> {
        if self.is_over() {
            return Ok(false);
        }
        let Some(message) = self.receiving.arrived()? else {
            return Ok(false);
        };
        let altered = CarryError::Altered;
        let length = message.len().checked_sub(HEADER_BYTES);
        let length = length.ok_or(altered("a message is too short"))?;
        let (bytes, header) = message.split_at(length);
        if crc32fast::hash(&header[..12]) != number(&header[12..]) {
            return Err(altered("the checksum of a header is wrong"));
        }
        if number(&header[..4]) != self.step {
            return Err(altered("a slot came that is not due"));
        }
        let said = number(&header[4..8]) as usize;
        if said == END {
            self.ends += 1;
        } else {
            if said != length || length > self.slots.most_bytes() {
                return Err(altered("a slot has another length than was sent"));
            }
            let Some(room) = self.slots.room(length) else {
                return Ok(false);
            };
            let expected = number(&header[8..12]);
            if expected != 0 && checksum(bytes) != expected {
                return Err(altered("the checksum of a slot is wrong"));
            }
            room.copy_from_slice(bytes);
            self.slots.post(length);
        }
        self.step = self.step.wrapping_add(1);
        self.receiving.give_back();
        Ok(true)
    }
}
