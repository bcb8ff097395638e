//! Frames as messages of a net plug-in.
//!
//! A message is a slot's bytes followed by the header of the frame. Slots are copied into the
//! connection's registered memory, which has as many places as a FIFO has slots.
//!
//! The receiver always has receives posted, since it cannot know how many messages will arrive. At
//! the end the sender sends as many empty frames as there are receives left, so that no request is
//! under way when a connection is closed.

use std::time::Duration;

use net_plugin::Shape;

use super::MESSAGES;
use super::ends::{ReceiveEnd, SendEnd};
use crate::framing::{HEADER_BYTES, Header, ReceiveFrames, SendFrames};
use crate::nic::{ConnectionError, Waits};

/// The shape of both ends of a connection, for slots of `most_bytes`. The tag is the sender's rank,
/// as in NCCL.
pub fn shape(most_bytes: usize, from: u32) -> Shape {
    Shape {
        messages: MESSAGES,
        bytes: most_bytes + HEADER_BYTES,
        tag: from as i32,
        memory: None,
    }
}

/// The sending end of a connection whose messages are frames.
pub struct MessagesOut {
    end: SendEnd,
    /// Whether the next message is in the connection's memory.
    copied: bool,
    /// Empty frames that are still to be sent at the end.
    ends: usize,
}

impl MessagesOut {
    /// Sends frames by this end.
    pub const fn new(end: SendEnd) -> Self {
        Self {
            end,
            copied: false,
            ends: MESSAGES,
        }
    }
}

impl SendFrames for MessagesOut {
    fn complete(&mut self) -> Result<bool, ConnectionError> {
        let mut any = false;
        if let Some(sending) = self.end.open()? {
            while sending.is_sent()? {
                any = true;
            }
        }
        Ok(any)
    }

    fn send(
        &mut self,
        header: &Header,
        bytes: &[u8],
        _now: Duration,
    ) -> Result<bool, ConnectionError> {
        let Some(sending) = self.end.open()? else {
            return Ok(false);
        };
        if !self.copied {
            let Some(room) = sending.room() else {
                return Ok(false);
            };
            let (data, rest) = room.split_at_mut(bytes.len());
            data.copy_from_slice(bytes);
            rest[..HEADER_BYTES].copy_from_slice(header);
            self.copied = true;
        }
        let sent = sending.send(bytes.len() + HEADER_BYTES)?;
        self.copied = !sent;
        Ok(sent)
    }

    fn send_empty(&mut self, header: &Header, now: Duration) -> Result<bool, ConnectionError> {
        let sent = self.send(header, &[], now)?;
        self.ends -= usize::from(sent);
        Ok(sent)
    }

    fn wants_empty(&mut self, _now: Duration, ending: bool) -> bool {
        ending && self.end.is_open() && self.ends > 0
    }

    /// A connection that no receiver accepted has nothing to end.
    fn is_drained(&self) -> bool {
        !self.end.is_open() || self.ends == 0 && self.end.in_flight() == 0
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.polled |= self.copied || self.end.is_busy();
    }
}

/// The receiving end of a connection whose messages are frames.
pub struct MessagesIn {
    end: ReceiveEnd,
    /// Empty frames that have arrived.
    ends: usize,
}

impl MessagesIn {
    /// Receives frames by this end.
    pub const fn new(end: ReceiveEnd) -> Self {
        Self { end, ends: 0 }
    }
}

impl ReceiveFrames for MessagesIn {
    fn header(&mut self) -> Result<Option<Header>, ConnectionError> {
        if self.ends == MESSAGES {
            return Ok(None);
        }
        let Some(receiving) = self.end.open()? else {
            return Ok(None);
        };
        // After the first empty frame exactly the others are awaited.
        while receiving.has_room()
            && receiving.posted() < MESSAGES - self.ends
            && receiving.post()?
        {}
        let Some(message) = receiving.arrived()? else {
            return Ok(None);
        };
        let header = message.last_chunk().copied();
        header
            .ok_or(ConnectionError::Altered("a message is too short"))
            .map(Some)
    }

    fn read(&mut self, room: &mut [u8]) -> Result<bool, ConnectionError> {
        let Some(receiving) = self.end.open()? else {
            return Ok(false);
        };
        let Some(message) = receiving.arrived()? else {
            return Ok(false);
        };
        if message.len() != room.len() + HEADER_BYTES {
            let what = "a slot has another length than was sent";
            return Err(ConnectionError::Altered(what));
        }
        room.copy_from_slice(&message[..room.len()]);
        receiving.give_back();
        Ok(true)
    }

    fn take_empty(&mut self) {
        self.end.give_back();
        self.ends += 1;
    }

    fn awaits_end(&self) -> bool {
        self.end.is_open() && self.ends < MESSAGES
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.polled = true;
    }
}
