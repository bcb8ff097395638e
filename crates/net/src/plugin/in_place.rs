//! FIFOs whose slots the NICs of a net plug-in read and write where they are: in GPU memory
//! (GPUDirect RDMA), or in host memory at a sender whose GPU they do not reach.
//!
//! A message is a slot with its lines and flags, and nothing else, since no CPU reads or writes
//! there. The plug-in guarantees that messages stay whole and in order. Empty messages end the
//! connection, as in [`super::messages`].

use std::sync::Arc;
use std::time::Duration;

use net_plugin::{CallerMemory, Owner, Shape};
use shared_memory::fifo::in_place::{self, InPlaceInflow, InPlaceOutflow, SlotMemory};

use super::MESSAGES;
use super::ends::{ReceiveEnd, SendEnd};
use crate::nic::{ConnectionError, Incoming, Outgoing, Waits};

/// The shape of both ends of a connection. The tag is the sender's rank, as in NCCL.
pub fn shape(memory: &SlotMemory, from: u32) -> Shape {
    Shape {
        messages: MESSAGES,
        bytes: memory.stride,
        tag: from as i32,
        memory: Some(CallerMemory {
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

/// A FIFO whose slots the NIC reads.
pub struct InPlaceOut {
    // The connection ends before the slots.
    end: SendEnd,
    slots: InPlaceOutflow,
    /// Messages in flight that are slots.
    slots_in_flight: usize,
    /// Empty messages that are still to be sent at the end.
    ends: usize,
}

impl InPlaceOut {
    /// Sends these slots.
    pub const fn new(end: SendEnd, slots: InPlaceOutflow) -> Self {
        Self {
            end,
            slots,
            slots_in_flight: 0,
            ends: MESSAGES,
        }
    }
}

impl Outgoing for InPlaceOut {
    fn progress(&mut self, _now: Duration, ending: bool) -> Result<bool, ConnectionError> {
        let mut progressed = false;
        let Some(sending) = self.end.open()? else {
            return Ok(false);
        };
        while sending.is_sent()? {
            if self.slots_in_flight > 0 {
                self.slots_in_flight -= 1;
                self.slots.release();
            }
            progressed = true;
        }
        while self.ends == MESSAGES
            && let Some((offset, bytes)) = self.slots.next()?
        {
            if !sending.send_at(offset, bytes)? {
                return Ok(progressed);
            }
            self.slots.take();
            self.slots_in_flight += 1;
            progressed = true;
        }
        while ending && self.ends > 0 && sending.send_at(0, 0)? {
            self.ends -= 1;
            progressed = true;
        }
        Ok(progressed)
    }

    fn is_drained(&mut self) -> bool {
        match self.end.is_open() {
            true => self.ends == 0 && self.end.in_flight() == 0,
            false => !matches!(self.slots.next(), Ok(Some(_))),
        }
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.polled |= self.end.is_busy() || !matches!(self.slots.next(), Ok(None));
    }
}

/// A FIFO whose slots the NIC writes.
pub struct InPlaceIn {
    end: ReceiveEnd,
    slots: InPlaceInflow,
    /// Whether received data must be flushed.
    flushes: bool,
    /// Empty messages that have arrived.
    ends: usize,
}

impl InPlaceIn {
    /// Posts received slots. `forced` says whether the NIC must be flushed for any GPU.
    pub fn new(end: ReceiveEnd, slots: InPlaceInflow, forced: bool) -> Self {
        Self {
            end,
            flushes: slots.must_flush(forced),
            slots,
            ends: 0,
        }
    }

    /// Posts the oldest message. Returns `false` if it has not arrived.
    fn post(&mut self) -> Result<bool, ConnectionError> {
        let Some(receiving) = self.end.open()?.filter(|_| self.ends < MESSAGES) else {
            return Ok(false);
        };
        match receiving.arrived_bytes()? {
            None => return Ok(false),
            Some(0) => self.ends += 1,
            Some(_) if self.ends > 0 => {
                return Err(ConnectionError::Altered("a slot came after the end"));
            }
            Some(_) => {
                if self.flushes && !receiving.flush()? {
                    return Ok(false);
                }
                self.slots.post();
            }
        }
        receiving.give_back();
        Ok(true)
    }

    /// Posts receives for the slots that have room.
    fn post_receives(&mut self) -> Result<(), ConnectionError> {
        let Some(receiving) = self.end.open()? else {
            return Ok(());
        };
        // After the first empty message exactly the others are awaited.
        let wanted = MESSAGES - self.ends;
        while receiving.has_room()
            && receiving.posted() < wanted
            && let Some(offset) = self.slots.room()
            && receiving.post_at(offset)?
        {
            self.slots.take();
        }
        Ok(())
    }
}

impl Incoming for InPlaceIn {
    fn progress(&mut self, _now: Duration) -> Result<usize, ConnectionError> {
        let mut posted = 0;
        self.post_receives()?;
        while self.post()? {
            posted += usize::from(self.ends == 0);
            self.post_receives()?;
        }
        Ok(posted)
    }

    fn awaits_end(&self) -> bool {
        self.end.is_open() && self.ends < MESSAGES
    }

    fn wait_for(&self, awaited: &mut Waits) {
        awaited.polled = true;
    }
}
