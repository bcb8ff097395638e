//! One FIFO through a connection of a net plug-in whose NICs read and write the slots themselves, where they lie: in memory of a
//! GPU (GPUDirect RDMA), or of the host at a sender whose GPU they do not reach.
//!
//! A message is a slot as it is, with its lines and flags; nothing goes before or behind it, for nobody here can read or write
//! there. That messages come whole and in order is the plug-in's word. Empty messages end the connection, as in
//! [`super::carry`].

use std::sync::Arc;

use net_plugin::{Given, Owner, Receiving, Sending, Shape};
use shared_memory::fifo::in_place::{self, InPlaceInflow, InPlaceOutflow, SlotMemory};

use super::carry::{CarryError, MESSAGES};

/// What both ends of a connection do. The tag is the sender's rank, as in NCCL.
pub fn shape(memory: &SlotMemory, from: u32) -> Shape {
    Shape {
        messages: MESSAGES,
        bytes: memory.stride,
        tag: from as i32,
        memory: Some(Given {
            address: memory.address,
            bytes: memory.bytes(),
            owner: match &memory.owner {
                in_place::Owner::Host => Owner::Host,
                in_place::Owner::Device { dma_buf, .. } => {
                    Owner::Device(dma_buf.as_ref().map(|it| (Arc::clone(&it.file), it.offset)))
                }
            },
            kept: Arc::clone(&memory.kept),
        }),
    }
}

/// The sending half.
pub struct Outgoing {
    // Before what it carries: slots end after the connection.
    sending: Sending,
    slots: InPlaceOutflow,
    /// Messages under way that are slots.
    carried: usize,
    /// Empty messages that are still to be sent at the end.
    ends: Option<usize>,
}

impl Outgoing {
    /// Carries these slots.
    pub const fn new(sending: Sending, slots: InPlaceOutflow) -> Self {
        Self {
            sending,
            slots,
            carried: 0,
            ends: None,
        }
    }

    /// Whether everything was sent, the end too.
    pub fn is_over(&self) -> bool {
        self.ends == Some(0) && self.sending.under_way() == 0
    }

    /// Whether something is under way, or wants to be.
    pub fn is_busy(&self) -> bool {
        self.sending.under_way() > 0 || !matches!(self.slots.next(), Ok(None))
    }

    /// Sends what it can, and at the end the end; answers whether anything went on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn go_on(&mut self, ending: bool) -> Result<bool, CarryError> {
        let mut went = false;
        while self.sending.is_sent()? {
            if self.carried > 0 {
                self.carried -= 1;
                self.slots.release();
            }
            went = true;
        }
        while self.ends.is_none()
            && let Some((offset, bytes)) = self.slots.next()?
        {
            if !self.sending.send_at(offset, bytes)? {
                return Ok(went);
            }
            self.slots.take();
            self.carried += 1;
            went = true;
        }
        if !ending {
            return Ok(went);
        }
        let mut left = *self.ends.get_or_insert(MESSAGES);
        while left > 0 && self.sending.send_at(0, 0)? {
            left -= 1;
            went = true;
        }
        self.ends = Some(left);
        Ok(went)
    }
}

/// The receiving half.
pub struct Incoming {
    receiving: Receiving,
    slots: InPlaceInflow,
    /// Whether what comes must be flushed.
    flushes: bool,
    /// Empty messages that came: the end.
    ends: usize,
}

impl Incoming {
    /// Posts what comes; `forced` says whether the NIC wants to be flushed whatever the GPU is.
    pub fn new(receiving: Receiving, slots: InPlaceInflow, forced: bool) -> Self {
        Self {
            receiving,
            flushes: slots.must_flush(forced),
            slots,
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
    /// The connection is over.
    pub fn go_on(&mut self) -> Result<bool, CarryError> {
        let mut went = false;
        loop {
            let taken = self.take()?;
            // After the first empty message exactly the others are awaited.
            let wanted = MESSAGES - self.ends;
            while self.receiving.has_room()
                && self.receiving.posted() < wanted
                && let Some(offset) = self.slots.room()
            {
                if !self.receiving.post_at(offset)? {
                    return Ok(went || taken);
                }
                self.slots.take();
            }
            if !taken {
                return Ok(went);
            }
            went = true;
        }
    }

    /// Posts the oldest message, if it is here.
    fn take(&mut self) -> Result<bool, CarryError> {
        if self.is_over() {
            return Ok(false);
        }
        match self.receiving.arrived_bytes()? {
            None => return Ok(false),
            Some(0) => self.ends += 1,
            Some(_) if self.ends > 0 => {
                return Err(CarryError::Altered("a slot came after the end"));
            }
            Some(_) => {
                if self.flushes && !self.receiving.flush()? {
                    return Ok(false);
                }
                self.slots.post();
            }
        }
        self.receiving.give_back();
        Ok(true)
    }
}
