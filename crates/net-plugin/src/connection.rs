//! Connections: a rank listens and another connects, both call again until it is there, then messages go one way.
//!
//! A connection has its own registered memory. A slot of it is the caller's while it is filled or read, and the NIC's
//! while its request is under way; nobody reaches it then. Requests end in the order in which they began.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use crate::abi::{HANDLE_BYTES, MOST_REQUESTS};
use crate::error::Error;
use crate::functions::Pointer;
use crate::memory::Memory;
use crate::plugin::{Inner, Seat};

/// By what a listening rank is found. Only the plug-in knows what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Handle([u8; HANDLE_BYTES]);

impl Handle {
    /// Its bytes, to be sent to the other rank.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A handle of these bytes, if they are as many as one has.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// How much a connection sends or receives at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Messages that may be under way.
    pub messages: usize,
    /// Longest message, bytes.
    pub bytes: usize,
    /// The tag of all messages, the same on both sides.
    pub tag: i32,
}

/// Whoever waits for a connection.
pub struct Listening {
    inner: Arc<Inner>,
    device: u32,
    object: Pointer,
    seat: Option<Seat>,
}

// SAFETY: plug-ins let an object be used by any thread, one at a time, as NCCL's threads do.
unsafe impl Send for Listening {}

impl Listening {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        seat: Seat,
        device: u32,
    ) -> Result<(Self, Handle), Error> {
        let mut handle = Handle([0; HANDLE_BYTES]);
        let to: Pointer = (&raw mut handle).cast();
        // SAFETY: a handle has as many bytes as it must.
        let object = unsafe { inner.functions.listen(inner.context, device, to) }?;
        let listening = Self {
            inner: Arc::clone(inner),
            device,
            object,
            seat: Some(seat),
        };
        Ok((listening, handle))
    }

    /// The receiving end, once the sender has connected. There is one, so nothing comes after it.
    ///
    /// # Errors
    /// The plug-in fails, or messages are too long for the device.
    pub fn accept(&mut self, shape: Shape) -> Result<Option<Receiving>, Error> {
        if self.seat.is_none() {
            return Ok(None);
        }
        // SAFETY: the object is closed when this is dropped and not before.
        let object = unsafe { self.inner.functions.accept(self.object) }?;
        if object.is_null() {
            return Ok(None);
        }
        let end = End::new(
            &self.inner,
            self.seat.take(),
            self.device,
            object,
            shape,
            Way::In,
        )?;
        Ok(Some(Receiving {
            end,
            arrived: None,
            flushing: Flushing::No,
        }))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: this is its only user. Nothing can be done about one that does not end well.
        let _ = unsafe { self.inner.functions.close_listen(self.object) };
    }
}

/// Whoever connects.
pub struct Connecting {
    inner: Arc<Inner>,
    device: u32,
    /// At one place while the plug-in is called again and again, for it keeps notes in it.
    handle: Box<Handle>,
    seat: Option<Seat>,
}

impl Connecting {
    pub(crate) fn new(inner: &Arc<Inner>, seat: Seat, device: u32, handle: &Handle) -> Self {
        Self {
            inner: Arc::clone(inner),
            device,
            handle: Box::new(*handle),
            seat: Some(seat),
        }
    }

    /// The sending end, once it is connected. There is one, so nothing comes after it.
    ///
    /// # Errors
    /// The plug-in fails, or messages are too long for the device.
    pub fn go_on(&mut self, shape: Shape) -> Result<Option<Sending>, Error> {
        if self.seat.is_none() {
            return Ok(None);
        }
        let (functions, context) = (&self.inner.functions, self.inner.context);
        let handle: Pointer = (&raw mut *self.handle).cast();
        // SAFETY: the handle stays where it is.
        let object = unsafe { functions.connect(context, self.device, handle) }?;
        if object.is_null() {
            return Ok(None);
        }
        let seat = self.seat.take();
        let end = End::new(&self.inner, seat, self.device, object, shape, Way::Out)?;
        Ok(Some(Sending { end }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// One end of a connection, with its memory and what is under way.
struct End {
    inner: Arc<Inner>,
    _seat: Option<Seat>,
    object: Pointer,
    way: Way,
    registration: Pointer,
    memory: Option<Memory>,
    messages: usize,
    tag: i32,
    /// Of slots in order, the oldest first.
    requests: VecDeque<Pointer>,
    /// Requests begun so far.
    begun: usize,
}

// SAFETY: as for `Listening`; the requests are the object's.
unsafe impl Send for End {}

impl End {
    fn new(
        inner: &Arc<Inner>,
        seat: Option<Seat>,
        device: u32,
        object: Pointer,
        shape: Shape,
        way: Way,
    ) -> Result<Self, Error> {
        let memory = Memory::new(shape.messages, shape.bytes);
        let (start, bytes) = (memory.start(), memory.bytes());
        let mut end = Self {
            inner: Arc::clone(inner),
            _seat: seat,
            object,
            way,
            registration: null_mut(),
            memory: None,
            messages: shape.messages.clamp(1, MOST_REQUESTS),
            tag: shape.tag,
            requests: VecDeque::new(),
            begun: 0,
        };
        let most = inner.devices[device as usize].most_bytes;
        if shape.bytes > most {
            let what = format!(
                "device {device} ({}) for messages of {most} bytes at most; expected {}",
                inner.devices[device as usize].name, shape.bytes
            );
            return Err(inner.functions.place.absurd("getProperties", what));
        }
        // SAFETY: the memory is this end's, which gives it back after the registration.
        end.registration = unsafe { inner.functions.register(object, start, bytes) }?;
        end.memory = Some(memory);
        Ok(end)
    }

    /// Notes a request that the plug-in began; no, if it gave none.
    fn begin(&mut self, request: *mut c_void) -> bool {
        let began = !request.is_null();
        if began {
            self.requests.push_back(request);
            self.begun += 1;
        }
        began
    }

    /// The slot of the request after so many, and its length.
    fn slot(&self, number: usize) -> (*mut u8, usize) {
        match &self.memory {
            Some(memory) => (memory.slot(number), memory.slot_bytes()),
            None => (null_mut(), 0),
        }
    }

    /// The number of the oldest request.
    fn oldest(&self) -> usize {
        self.begun - self.requests.len()
    }

    /// Looks whether the oldest request is done.
    fn test(&mut self) -> Result<Option<i32>, Error> {
        let Some(request) = self.requests.front() else {
            return Ok(None);
        };
        // SAFETY: what is in the queue is under way.
        let done = unsafe { self.inner.functions.test(*request) };
        if !matches!(done, Ok(None)) {
            // One that failed is gone too.
            self.requests.pop_front();
        }
        done
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let functions = &self.inner.functions;
        // SAFETY: this is the only user of the object, and of its registration.
        let ended = unsafe {
            let back = match &self.memory {
                Some(_) => functions.deregister(self.object, self.registration),
                None => Ok(()),
            };
            let closed = match self.way {
                Way::In => functions.close_receive(self.object),
                Way::Out => functions.close_send(self.object),
            };
            back.and(closed)
        };
        // What did not end well while something was under way may still be written to.
        if ended.is_err()
            && !self.requests.is_empty()
            && let Some(memory) = self.memory.take()
        {
            memory.leak();
        }
    }
}

/// The end that sends.
pub struct Sending {
    end: End,
}

impl Sending {
    /// The memory of the next message, if not as many are under way as may be.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if self.end.requests.len() >= self.end.messages {
            return None;
        }
        let (slot, bytes) = self.end.slot(self.end.begun);
        // SAFETY: no request is under way that has this slot, and all of it was zeroed when it was made.
        Some(unsafe { std::slice::from_raw_parts_mut(slot, bytes) })
    }

    /// Sends the first `bytes` bytes of [`Self::room`]; no, if the plug-in wants to be asked again later.
    ///
    /// # Panics
    /// There is no room, or not for so many bytes.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn send(&mut self, bytes: usize) -> Result<bool, Error> {
        let end = &mut self.end;
        let (slot, most) = end.slot(end.begun);
        assert!(end.requests.len() < end.messages && bytes <= most);
        // SAFETY: the slot is registered, and nobody is given it until the request is done.
        let request = unsafe {
            end.inner
                .functions
                .send(end.object, slot, bytes, end.tag, end.registration)
        }?;
        Ok(end.begin(request))
    }

    /// Looks whether the oldest message is sent.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn is_sent(&mut self) -> Result<bool, Error> {
        Ok(self.end.test()?.is_some())
    }

    /// Messages that are under way.
    pub fn under_way(&self) -> usize {
        self.end.requests.len()
    }
}

enum Flushing {
    No,
    Begun(Pointer),
    Done,
}

/// The end that receives.
pub struct Receiving {
    end: End,
    /// Length of the oldest message, which is here and not given back.
    arrived: Option<usize>,
    flushing: Flushing,
}

// SAFETY: as for `Listening`; a flush is a request of the object.
unsafe impl Send for Receiving {}

impl Receiving {
    /// Whether one more receive can be posted.
    pub fn has_room(&self) -> bool {
        self.posted() + usize::from(self.arrived.is_some()) < self.end.messages
    }

    /// Receives that are posted and under way.
    pub fn posted(&self) -> usize {
        self.end.requests.len()
    }

    /// Posts a receive; no, if the plug-in wants to be asked again later.
    ///
    /// # Panics
    /// There is no room for one.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn post(&mut self) -> Result<bool, Error> {
        assert!(self.has_room());
        let end = &mut self.end;
        let (slot, bytes) = end.slot(end.begun);
        // SAFETY: the slot is registered, and nobody is given it until the request is done.
        let request = unsafe {
            end.inner
                .functions
                .receive(end.object, slot, bytes, end.tag, end.registration)
        }?;
        Ok(end.begin(request))
    }

    /// The oldest message, if it is here. The same is given until it is given back.
    ///
    /// # Errors
    /// The plug-in fails, or says that more came than there was room for.
    pub fn arrived(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.arrived.is_none() {
            let Some(bytes) = self.end.test()? else {
                return Ok(None);
            };
            let most = self.end.slot(0).1;
            let length = usize::try_from(bytes).ok().filter(|it| *it <= most);
            self.arrived = Some(length.ok_or_else(|| {
                let what = format!("a message of {bytes} bytes; expected {most} at most");
                self.end.inner.functions.place.absurd("test", what)
            })?);
        }
        Ok(self.message())
    }

    fn message(&self) -> Option<&[u8]> {
        let bytes = self.arrived?;
        let (slot, _) = self.end.slot(self.end.oldest() - 1);
        // SAFETY: its request is done and its slot not given back, so the NIC does not write to it.
        Some(unsafe { std::slice::from_raw_parts(slot, bytes) })
    }

    /// Makes sure that the message that is here is seen by all, as GPUs' memory needs; to be called until it says yes.
    ///
    /// # Panics
    /// No message is here.
    ///
    /// # Errors
    /// The plug-in fails, or cannot flush.
    pub fn flush(&mut self) -> Result<bool, Error> {
        let bytes = self.arrived.expect("a message is here");
        let (slot, _) = self.end.slot(self.end.oldest() - 1);
        let functions = &self.end.inner.functions;
        if matches!(self.flushing, Flushing::No) {
            // SAFETY: the message is this connection's, in its registered memory.
            let request =
                unsafe { functions.flush(self.end.object, slot, bytes, self.end.registration) }?;
            self.flushing = if request.is_null() {
                Flushing::Done
            } else {
                Flushing::Begun(request)
            };
        }
        if let Flushing::Begun(request) = self.flushing
            // SAFETY: the request is under way until it is done once.
            && unsafe { functions.test(request) }?.is_some()
        {
            self.flushing = Flushing::Done;
        }
        Ok(matches!(self.flushing, Flushing::Done))
    }

    /// Gives the oldest message's slot back.
    ///
    /// # Panics
    /// No message is here.
    pub fn give_back(&mut self) {
        assert!(self.arrived.is_some());
        self.arrived = None;
        self.flushing = Flushing::No;
    }
}
