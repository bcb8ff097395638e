//! Slots as bytes, for proxies that forward them without knowing their contents.

use thiserror::Error;

use super::{Receiver, Sender};

/// The announced length of a slot is impossible: the sender's memory was overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "announces a slot of {bytes} bytes, more than the {most} that fit; its memory was overwritten"
)]
pub struct Oversized {
    /// The announced length.
    pub bytes: usize,
    /// Most bytes of a slot.
    pub most: usize,
}

/// The end of a FIFO whose slots are sent over a network. Its sender announces lengths.
pub trait Outflow: Send {
    /// Most bytes of a slot.
    fn most_bytes(&self) -> usize;

    /// The bytes of the next slot; `None` until it is posted.
    ///
    /// # Errors
    /// The announced length is impossible.
    fn next(&mut self) -> Result<Option<&[u8]>, Oversized>;

    /// Releases that slot.
    fn release(&mut self);
}

/// The end of a FIFO whose slots are received over a network.
pub trait Inflow: Send {
    /// Most bytes of a slot.
    fn most_bytes(&self) -> usize;

    /// Room for a slot of `bytes` bytes, if one is free.
    ///
    /// # Panics
    /// A slot has fewer bytes.
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]>;

    /// Posts the slot whose bytes were written to [`Self::room`].
    fn post(&mut self, bytes: usize);
}

impl<R: Receiver> Outflow for R {
    fn most_bytes(&self) -> usize {
        self.slot_bytes()
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Oversized> {
        let Some(bytes) = self.announced() else {
            return Ok(None);
        };
        let most = self.slot_bytes();
        if bytes > most {
            return Err(Oversized { bytes, most });
        }
        if !self.is_complete(bytes) {
            return Ok(None);
        }
        let Some(slot) = self.slot(bytes) else {
            return Ok(None);
        };
        // SAFETY: the slot was posted with this length and is not released, so nobody writes it
        // while it is borrowed through this end, the only one that can release it.
        Ok(Some(unsafe { std::slice::from_raw_parts(slot, bytes) }))
    }

    fn release(&mut self) {
        Receiver::release(self);
    }
}

impl<S: Sender> Inflow for S {
    fn most_bytes(&self) -> usize {
        self.slot_bytes()
    }

    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        assert!(bytes <= self.slot_bytes());
        if !self.is_free() {
            return None;
        }
        let slot = self.slot(bytes);
        // SAFETY: a free slot's bytes belong to this end until it posts them. Memory of mappings
        // and staging was zeroed, so it holds bytes.
        Some(unsafe { std::slice::from_raw_parts_mut(slot, bytes) })
    }

    fn post(&mut self, bytes: usize) {
        self.post_slot(bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fifo::{FifoProtocol, LowLatency, LowLatency128, Simple};
    use crate::{Item, Segment};

    fn forwards<P: FifoProtocol>()
    where
        P::Sender: 'static,
        P::Receiver: 'static,
    {
        let items = [Item::Fifo {
            protocol: P::PROTOCOL,
            slot_bytes: 1000,
        }];
        let (from, to) = (
            Segment::private("from", &items).unwrap(),
            Segment::private("to", &items).unwrap(),
        );
        let mut sender = from.sender::<P>(0).unwrap();
        sender.announce_lengths();
        let mut out: Box<dyn Outflow> = Box::new(from.receiver::<P>(0).unwrap());
        let mut into: Box<dyn Inflow> = Box::new(to.sender::<P>(0).unwrap());
        let mut receiver = to.receiver::<P>(0).unwrap();
        assert_eq!(out.next(), Ok(None));
        for length in [0, 1, 7, 1000, 4, 120, 999, 8, 0, 33, 1000, 0] {
            let message: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            assert!(sender.try_send_from(&message));
            let slot = out.next().unwrap().unwrap();
            assert_eq!(slot, message);
            into.room(slot.len()).unwrap().copy_from_slice(slot);
            into.post(slot.len());
            out.release();
            assert_eq!(out.next(), Ok(None));
            let mut got = vec![0; length];
            assert!(receiver.try_receive_into(&mut got));
            assert_eq!(got, message);
        }
        for _ in 0..crate::fifo::SLOTS {
            assert!(into.room(1).is_some());
            into.post(1);
        }
        assert!(into.room(1).is_none());
    }

    #[test]
    fn slots_are_forwarded_as_bytes() {
        forwards::<Simple>();
        forwards::<LowLatency>();
        forwards::<LowLatency128>();
    }
}
