//! Connections: a rank listens and another connects, both call again until it is there, then messages go one way.
//!
//! A connection has its own registered memory. A slot of it is the caller's while it is filled or read, and the NIC's
//! while its request is under way; nobody reaches it then. Or memory is given to it, of a GPU perhaps, from which is sent or
//! into which is received where it lies. Requests end in the order in which they began.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{HANDLE_BYTES, MOST_REQUESTS, POINTER_CUDA, POINTER_HOST};
use crate::error::Error;
use crate::functions::Pointer;
use crate::memory::{Given, Memory, Owner};
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
#[derive(Clone)]
pub struct Shape {
    /// Messages that may be under way.
    pub messages: usize,
    /// Longest message, bytes.
    pub bytes: usize,
    /// The tag of all messages, the same on both sides.
    pub tag: i32,
    /// Memory that messages are sent from or received into; the connection's own if none is given.
    pub memory: Option<Given>,
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
            Direction::In,
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
        let end = End::new(
            &self.inner,
            seat,
            self.device,
            object,
            shape,
            Direction::Out,
        )?;
        Ok(Some(Sending { end }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// The memory of an end.
enum Region {
    None,
    Own(Memory),
    Given(Given),
}

/// What is under way.
struct Request {
    pointer: Pointer,
    place: *mut u8,
}

/// One end of a connection, with its memory and what is under way.
struct End {
    inner: Arc<Inner>,
    _seat: Option<Seat>,
    object: Pointer,
    way: Direction,
    registration: Pointer,
    region: Region,
    messages: usize,
    most_bytes: usize,
    tag: i32,
    /// The oldest first.
    requests: VecDeque<Request>,
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
        way: Direction,
    ) -> Result<Self, Error> {
        let mut end = Self {
            inner: Arc::clone(inner),
            _seat: seat,
            object,
            way,
            registration: null_mut(),
            region: Region::None,
            messages: shape.messages.clamp(1, MOST_REQUESTS),
            most_bytes: shape.bytes,
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
        match shape.memory {
            Some(given) => {
                end.registration = end.register(device, &given)?;
                end.region = Region::Given(given);
            }
            None => {
                let memory = Memory::new(shape.messages, shape.bytes);
                let (start, bytes) = (memory.start(), memory.bytes());
                // SAFETY: the memory is this end's, which gives it back after the registration.
                end.registration =
                    unsafe { (inner.functions).register(object, start, bytes, POINTER_HOST) }?;
                end.region = Region::Own(memory);
            }
        }
        Ok(end)
    }

    /// Registers memory that is somebody else's.
    fn register(&self, device: u32, given: &Given) -> Result<Pointer, Error> {
        let (functions, object) = (&self.inner.functions, self.object);
        let (start, bytes) = (given.at(0), given.bytes);
        let device = &self.inner.devices[device as usize];
        // SAFETY: what keeps the memory is kept until the registration is given back.
        unsafe {
            match &given.owner {
                Owner::Host => functions.register(object, start, bytes, POINTER_HOST),
                Owner::Device(Some((file, offset))) if device.takes_dma_buf() => {
                    let file = (file.as_raw_fd(), *offset);
                    functions.register_dma_buf(object, start, bytes, file)
                }
                Owner::Device(_) => functions.register(object, start, bytes, POINTER_CUDA),
            }
        }
    }

    /// Whether one more request may be under way, if so many places are taken otherwise.
    fn has_room(&self, taken: usize) -> bool {
        self.requests.len() + taken < self.messages
    }

    /// The own memory's place for the next request.
    fn own_place(&self) -> Option<*mut u8> {
        match &self.region {
            Region::Own(memory) => Some(memory.slot(self.begun)),
            Region::None | Region::Given(_) => None,
        }
    }

    /// A place in memory that was given, if so many bytes are there.
    fn given_place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let Region::Given(given) = &self.region else {
            return None;
        };
        let end = offset.checked_add(bytes)?;
        (end <= given.bytes && bytes <= self.most_bytes).then(|| given.at(offset))
    }

    /// Notes a request that the plug-in began; no, if it gave none.
    fn begin(&mut self, pointer: *mut c_void, place: *mut u8) -> bool {
        let began = !pointer.is_null();
        if began {
            self.requests.push_back(Request { pointer, place });
            self.begun += 1;
        }
        began
    }

    fn send(&mut self, place: *mut u8, bytes: usize) -> Result<bool, Error> {
        // SAFETY: the place is registered, and nobody is given it until the request is done.
        let request = unsafe {
            (self.inner.functions).send(self.object, place, bytes, self.tag, self.registration)
        }?;
        Ok(self.begin(request, place))
    }

    fn receive(&mut self, place: *mut u8, bytes: usize) -> Result<bool, Error> {
        // SAFETY: the place is registered, and nobody is given it until the request is done.
        let request = unsafe {
            (self.inner.functions).receive(self.object, place, bytes, self.tag, self.registration)
        }?;
        Ok(self.begin(request, place))
    }

    /// Looks whether the oldest request is done; its place then, and how many bytes it says.
    fn test(&mut self) -> Result<Option<(*mut u8, i32)>, Error> {
        let Some(request) = self.requests.front() else {
            return Ok(None);
        };
        let place = request.place;
        // SAFETY: what is in the queue is under way.
        let done = unsafe { self.inner.functions.test(request.pointer) };
        if !matches!(done, Ok(None)) {
            // One that failed is gone too.
            self.requests.pop_front();
        }
        Ok(done?.map(|bytes| (place, bytes)))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let functions = &self.inner.functions;
        // SAFETY: this is the only user of the object, and of its registration.
        let ended = unsafe {
            let back = match &self.region {
                Region::Own(_) | Region::Given(_) => {
                    functions.deregister(self.object, self.registration)
                }
                Region::None => Ok(()),
            };
            let closed = match self.way {
                Direction::In => functions.close_receive(self.object),
                Direction::Out => functions.close_send(self.object),
            };
            back.and(closed)
        };
        // What did not end well while something was under way may still be written to.
        if ended.is_err() && !self.requests.is_empty() {
            leave(std::mem::replace(&mut self.region, Region::None));
        }
    }
}

/// Memory that NICs may still write to, though its connection has ended. It is kept until the process ends.
static LEFT: Mutex<Vec<Region>> = Mutex::new(Vec::new());

fn leave(region: Region) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.push(region);
}

/// Frees the memory of ended connections that was kept for NICs; for fuzzers, which end thousands of them.
///
/// # Safety
/// No NIC writes to that memory any more.
pub unsafe fn free_left() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.clear();
}

/// The end that sends.
pub struct Sending {
    end: End,
}

impl Sending {
    /// The memory of the next message, if not as many are under way as may be; none where memory was given.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if !self.end.has_room(0) {
            return None;
        }
        let (place, bytes) = (self.end.own_place()?, self.end.most_bytes);
        // SAFETY: no request is under way that has this slot, and all of it was zeroed when it was made.
        Some(unsafe { std::slice::from_raw_parts_mut(place, bytes) })
    }

    /// Sends the first `bytes` bytes of [`Self::room`]; no, if the plug-in wants to be asked again later.
    ///
    /// # Panics
    /// There is no room, or not for so many bytes.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn send(&mut self, bytes: usize) -> Result<bool, Error> {
        assert!(self.end.has_room(0) && bytes <= self.end.most_bytes);
        let place = self.end.own_place().expect("the connection has memory");
        self.end.send(place, bytes)
    }

    /// Sends bytes of memory that was given; no, if the plug-in wants to be asked again later, or as many messages are under way
    /// as may be. Nobody may write them until the message is sent.
    ///
    /// # Panics
    /// They are not there, or are more than the connection's shape says.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn send_at(&mut self, offset: usize, bytes: usize) -> Result<bool, Error> {
        let place = self.end.given_place(offset, bytes);
        let place = place.expect("the bytes are within the memory that was given");
        Ok(self.end.has_room(0) && self.end.send(place, bytes)?)
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
    /// Place and length of the oldest message, which is here and not given back.
    arrived: Option<(*mut u8, usize)>,
    flushing: Flushing,
}

// SAFETY: as for `Listening`; a flush is a request of the object.
unsafe impl Send for Receiving {}

impl Receiving {
    /// Whether one more receive can be posted.
    pub fn has_room(&self) -> bool {
        self.end.has_room(usize::from(self.arrived.is_some()))
    }

    /// Receives that are posted and under way.
    pub fn posted(&self) -> usize {
        self.end.requests.len()
    }

    /// Posts a receive; no, if the plug-in wants to be asked again later.
    ///
    /// # Panics
    /// There is no room for one, or memory was given.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn post(&mut self) -> Result<bool, Error> {
        assert!(self.has_room());
        let place = self.end.own_place().expect("the connection has memory");
        self.end.receive(place, self.end.most_bytes)
    }

    /// Posts a receive into memory that was given, for as many bytes as a message has at most; no, if the plug-in wants to be
    /// asked again later. Nobody may read or write there until the message has arrived.
    ///
    /// # Panics
    /// There is no room for one, or not so much memory.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn post_at(&mut self, offset: usize) -> Result<bool, Error> {
        assert!(self.has_room());
        let place = self.end.given_place(offset, self.end.most_bytes);
        let place = place.expect("the bytes are within the memory that was given");
        self.end.receive(place, self.end.most_bytes)
    }

    /// Length of the oldest message, if it is here; bytes. The same is given until it is given back.
    ///
    /// # Errors
    /// The plug-in fails, or says that more came than there was room for.
    pub fn arrived_bytes(&mut self) -> Result<Option<usize>, Error> {
        if self.arrived.is_none() {
            let Some((place, bytes)) = self.end.test()? else {
                return Ok(None);
            };
            let most = self.end.most_bytes;
            let length = usize::try_from(bytes).ok().filter(|it| *it <= most);
            let length = length.ok_or_else(|| {
                let what = format!("a message of {bytes} bytes; expected {most} at most");
                self.end.inner.functions.place.absurd("test", what)
            })?;
            self.arrived = Some((place, length));
        }
        Ok(self.arrived.map(|(_, bytes)| bytes))
    }

    /// The oldest message, if it is here and in the connection's own memory. The same is given until it is given back.
    ///
    /// # Errors
    /// As [`Self::arrived_bytes`].
    pub fn arrived(&mut self) -> Result<Option<&[u8]>, Error> {
        self.arrived_bytes()?;
        let (Some((place, bytes)), Region::Own(_)) = (self.arrived, &self.end.region) else {
            return Ok(None);
        };
        // SAFETY: its request is done and its slot not given back, so the NIC does not write to it.
        Ok(Some(unsafe { std::slice::from_raw_parts(place, bytes) }))
    }

    /// Makes sure that the message that is here is seen by all, as GPUs' memory needs; to be called until it says yes.
    ///
    /// # Panics
    /// No message is here.
    ///
    /// # Errors
    /// The plug-in fails, or cannot flush.
    pub fn flush(&mut self) -> Result<bool, Error> {
        let (place, bytes) = self.arrived.expect("a message is here");
        let functions = &self.end.inner.functions;
        if matches!(self.flushing, Flushing::No) {
            // SAFETY: the message is this connection's, in its registered memory.
            let request =
                unsafe { functions.flush(self.end.object, place, bytes, self.end.registration) }?;
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
