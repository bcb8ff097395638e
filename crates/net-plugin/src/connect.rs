//! Connecting: one rank listens, another connects with the listener's handle, and both poll until
//! the connection is open.

use std::sync::Arc;

use crate::abi::HANDLE_BYTES;
use crate::connection::{Direction, End, ReceiveComm, SendComm, Shape};
use crate::error::Error;
use crate::functions::Pointer;
use crate::instance::{Instance, Seat};

/// The handle of a listening rank. Its contents are the plug-in's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Handle([u8; HANDLE_BYTES]);

impl Handle {
    /// Its bytes, for the connecting rank.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A handle of these bytes; `None` if their number is wrong.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// A rank that waits for a connection.
pub struct ListenComm {
    instance: Arc<Instance>,
    object: Pointer,
    /// Until a sender has connected.
    seat: Option<Seat>,
}

// SAFETY: plug-ins let an object be used by any thread, one at a time, as NCCL's threads do.
unsafe impl Send for ListenComm {}

impl ListenComm {
    pub(crate) fn new(seat: Seat) -> Result<(Self, Handle), Error> {
        let mut handle = Handle([0; HANDLE_BYTES]);
        let to: Pointer = (&raw mut handle).cast();
        let (instance, device) = (Arc::clone(&seat.instance), seat.device().number);
        // SAFETY: a handle has as many bytes as the ABI says.
        let object = unsafe { seat.functions().listen(instance.context, device, to) }?;
        let listening = Self {
            instance,
            object,
            seat: Some(seat),
        };
        Ok((listening, handle))
    }

    /// Polls for the sender. Returns the receiving end once, when it has connected.
    ///
    /// # Errors
    /// The plug-in fails, or messages are too long for the device.
    pub fn accept(&mut self, shape: Shape) -> Result<Option<ReceiveComm>, Error> {
        if self.seat.is_none() {
            return Ok(None);
        }
        // SAFETY: the object is not closed before this is dropped.
        let object = unsafe { self.instance.functions.accept(self.object) }?;
        let Some(seat) = self.seat.take_if(|_| !object.is_null()) else {
            return Ok(None);
        };
        let end = End::new(seat, object, shape, Direction::In)?;
        Ok(Some(ReceiveComm::new(end)))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        // SAFETY: this is its only user. Nothing can be done about an error.
        let _ = unsafe { self.instance.functions.close_listen(self.object) };
    }
}

/// A rank that connects.
pub struct ConnectAttempt {
    /// It must not move: the plug-in keeps state in it between calls.
    handle: Box<Handle>,
    /// Until the connection is open.
    seat: Option<Seat>,
}

impl ConnectAttempt {
    pub(crate) fn new(seat: Seat, handle: &Handle) -> Self {
        Self {
            handle: Box::new(*handle),
            seat: Some(seat),
        }
    }

    /// Polls the connection. Returns the sending end once, when it is connected.
    ///
    /// # Errors
    /// The plug-in fails, or messages are too long for the device.
    pub fn poll(&mut self, shape: Shape) -> Result<Option<SendComm>, Error> {
        let Some(seat) = &self.seat else {
            return Ok(None);
        };
        let (context, device) = (seat.instance.context, seat.device().number);
        let handle: Pointer = (&raw mut *self.handle).cast();
        // SAFETY: the handle does not move.
        let object = unsafe { seat.functions().connect(context, device, handle) }?;
        let Some(seat) = self.seat.take_if(|_| !object.is_null()) else {
            return Ok(None);
        };
        let end = End::new(seat, object, shape, Direction::Out)?;
        Ok(Some(SendComm { end }))
    }
}
