//! Messages over a connection, in one direction.
//!
//! An end has registered memory of its own: the caller uses a slot while it fills or reads it, the
//! NIC while its request is in progress. Or the caller hands over memory, such as a GPU's, that the
//! NIC sends from or receives into. Requests complete in the order in which they began.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use crate::abi::{MOST_REQUESTS, POINTER_CUDA, POINTER_HOST};
use crate::error::Error;
use crate::functions::Pointer;
use crate::instance::Seat;
use crate::memory::{CallerMemory, Memory, Owner};

/// The dimensions of a connection.
#[derive(Clone)]
pub struct Shape {
    /// Most messages in progress.
    pub messages: usize,
    /// Longest message, bytes.
    pub bytes: usize,
    /// Tag of all messages, equal on both sides.
    pub tag: i32,
    /// Memory to send from or receive into; `None`: the connection has its own.
    pub memory: Option<CallerMemory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// The memory of an end.
enum Region {
    None,
    Own(Memory),
    Given(CallerMemory),
}

/// A send or receive in progress.
struct Request {
    pointer: Pointer,
    place: *mut u8,
}

/// One end of a connection, with its memory and requests.
pub struct End {
    seat: Seat,
    object: Pointer,
    direction: Direction,
    registration: Pointer,
    region: Region,
    messages: usize,
    most_bytes: usize,
    tag: i32,
    /// In progress, the oldest first.
    requests: VecDeque<Request>,
    /// Requests begun so far.
    begun: usize,
}

// SAFETY: plug-ins let an object be used by any thread, one at a time, as NCCL's threads do; the
// requests are the object's.
unsafe impl Send for End {}

impl End {
    pub fn new(
        seat: Seat,
        object: Pointer,
        shape: Shape,
        direction: Direction,
    ) -> Result<Self, Error> {
        let mut end = Self {
            seat,
            object,
            direction,
            registration: null_mut(),
            region: Region::None,
            messages: shape.messages.clamp(1, MOST_REQUESTS),
            most_bytes: shape.bytes,
            tag: shape.tag,
            requests: VecDeque::new(),
            begun: 0,
        };
        let (functions, device) = (end.seat.functions(), end.seat.device());
        if shape.bytes > device.most_bytes {
            let what = format!(
                "device {} ({}) for messages of {} bytes at most; expected {}",
                device.number, device.name, device.most_bytes, shape.bytes
            );
            return Err(functions.place.absurd("getProperties", what));
        }
        (end.registration, end.region) = match shape.memory {
            Some(given) => (end.register(&given)?, Region::Given(given)),
            None => {
                let memory = Memory::new(shape.messages, shape.bytes);
                let (start, bytes) = (memory.start(), memory.bytes());
                // SAFETY: the memory is this end's, which frees it after the registration.
                let registered = unsafe { functions.register(object, start, bytes, POINTER_HOST) };
                (registered?, Region::Own(memory))
            }
        };
        Ok(end)
    }

    /// Registers the caller's memory.
    fn register(&self, given: &CallerMemory) -> Result<Pointer, Error> {
        let (functions, object) = (self.seat.functions(), self.object);
        let (start, bytes) = (given.at(0), given.bytes);
        let device = self.seat.device();
        // SAFETY: `given.kept` keeps the memory until it is deregistered.
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

    /// Whether another request may begin while `taken` slots hold arrived messages.
    fn has_room(&self, taken: usize) -> bool {
        self.requests.len() + taken < self.messages
    }

    /// The slot of the next request in the connection's own memory.
    fn own_place(&self) -> Option<*mut u8> {
        match &self.region {
            Region::Own(memory) => Some(memory.slot(self.begun)),
            Region::None | Region::Given(_) => None,
        }
    }

    /// The address at an offset of the caller's memory, if `bytes` bytes follow it.
    fn given_place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let Region::Given(given) = &self.region else {
            return None;
        };
        let end = offset.checked_add(bytes)?;
        (end <= given.bytes && bytes <= self.most_bytes).then(|| given.at(offset))
    }

    /// Begins to send or receive, as the direction says. Returns `false` if the plug-in began
    /// nothing.
    fn begin(&mut self, place: *mut u8, bytes: usize) -> Result<bool, Error> {
        let (functions, object) = (self.seat.functions(), self.object);
        // SAFETY: the place is registered, and nothing else uses it until the request is complete.
        let pointer = unsafe {
            match self.direction {
                Direction::In => {
                    functions.receive(object, place, bytes, self.tag, self.registration)
                }
                Direction::Out => functions.send(object, place, bytes, self.tag, self.registration),
            }
        }?;
        let began = !pointer.is_null();
        if began {
            self.requests.push_back(Request { pointer, place });
            self.begun += 1;
        }
        Ok(began)
    }

    /// Tests the oldest request. Returns its place and number of bytes if it is complete.
    fn test(&mut self) -> Result<Option<(*mut u8, i32)>, Error> {
        let Some(request) = self.requests.front() else {
            return Ok(None);
        };
        let place = request.place;
        // SAFETY: requests in the queue are in progress.
        let done = unsafe { self.seat.functions().test(request.pointer) };
        if !matches!(done, Ok(None)) {
            // A request that failed has ended too.
            self.requests.pop_front();
        }
        Ok(done?.map(|bytes| (place, bytes)))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let functions = self.seat.functions();
        // SAFETY: this is the only user of the object, and of its registration.
        let ended = unsafe {
            let back = match &self.region {
                Region::Own(_) | Region::Given(_) => {
                    functions.deregister(self.object, self.registration)
                }
                Region::None => Ok(()),
            };
            let closed = match self.direction {
                Direction::In => functions.close_receive(self.object),
                Direction::Out => functions.close_send(self.object),
            };
            back.and(closed)
        };
        // After an error, requests in progress may still write to the memory.
        if ended.is_err() && !self.requests.is_empty() {
            leave(std::mem::replace(&mut self.region, Region::None));
        }
    }
}

/// Memory of ended connections that NICs may still write to, kept until the process ends.
static LEFT: Mutex<Vec<Region>> = Mutex::new(Vec::new());

fn leave(region: Region) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.push(region);
}

/// Frees memory that was kept for NICs: for fuzzers, which end thousands of connections.
///
/// # Safety
/// No NIC writes to that memory any more.
pub unsafe fn free_left() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.clear();
}

/// A sending end.
pub struct SendComm {
    pub(crate) end: End,
}

impl SendComm {
    /// The memory of the next message; `None` if too many are in progress, or the memory is the
    /// caller's.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        if !self.end.has_room(0) {
            return None;
        }
        let (place, bytes) = (self.end.own_place()?, self.end.most_bytes);
        // SAFETY: no request in progress uses this slot, and its memory was zeroed when it was
        // allocated.
        Some(unsafe { std::slice::from_raw_parts_mut(place, bytes) })
    }

    /// Sends the first `bytes` of [`Self::room`]. Returns `false` if it is to be called again.
    ///
    /// # Panics
    /// There is not enough room.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn send(&mut self, bytes: usize) -> Result<bool, Error> {
        assert!(self.end.has_room(0) && bytes <= self.end.most_bytes);
        let place = self.end.own_place().expect("the connection has memory");
        self.end.begin(place, bytes)
    }

    /// Sends `bytes` bytes from `offset` of the caller's memory. Returns `false` if it is to be
    /// called again. They must not change until the message is sent.
    ///
    /// # Panics
    /// The memory has no such bytes, or the message is longer than the connection's shape allows.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn send_at(&mut self, offset: usize, bytes: usize) -> Result<bool, Error> {
        let place = self.end.given_place(offset, bytes);
        let place = place.expect("the bytes are within the memory that was given");
        Ok(self.end.has_room(0) && self.end.begin(place, bytes)?)
    }

    /// Returns `true` once for each message that is sent.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn is_sent(&mut self) -> Result<bool, Error> {
        Ok(self.end.test()?.is_some())
    }

    /// Messages in progress.
    pub fn in_flight(&self) -> usize {
        self.end.requests.len()
    }
}

enum FlushState {
    No,
    Begun(Pointer),
    Done,
}

/// A receiving end.
pub struct ReceiveComm {
    end: End,
    /// Address and length of the oldest message, which has arrived and was not given back.
    arrived: Option<(*mut u8, usize)>,
    flushing: FlushState,
}

// SAFETY: as for `ListenComm`; a flush is a request of the object.
unsafe impl Send for ReceiveComm {}

impl ReceiveComm {
    pub(crate) fn new(end: End) -> Self {
        Self {
            end,
            arrived: None,
            flushing: FlushState::No,
        }
    }

    /// Whether one more receive can be posted.
    pub fn has_room(&self) -> bool {
        self.end.has_room(usize::from(self.arrived.is_some()))
    }

    /// Receives in progress.
    pub fn posted(&self) -> usize {
        self.end.requests.len()
    }

    /// Posts a receive. Returns `false` if it is to be called again.
    ///
    /// # Panics
    /// There is no room, or the memory is the caller's.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn post(&mut self) -> Result<bool, Error> {
        assert!(self.has_room());
        let place = self.end.own_place().expect("the connection has memory");
        self.end.begin(place, self.end.most_bytes)
    }

    /// Posts a receive of a message of any length at `offset` of the caller's memory. Returns
    /// `false` if it is to be called again. That memory must not be used until the message has
    /// arrived.
    ///
    /// # Panics
    /// There is no room, or the memory is too short.
    ///
    /// # Errors
    /// The plug-in fails.
    pub fn post_at(&mut self, offset: usize) -> Result<bool, Error> {
        assert!(self.has_room());
        let place = self.end.given_place(offset, self.end.most_bytes);
        let place = place.expect("the bytes are within the memory that was given");
        self.end.begin(place, self.end.most_bytes)
    }

    /// The length of the oldest message in bytes if it has arrived, until it is given back.
    ///
    /// # Errors
    /// The plug-in fails, or reports more bytes than were posted.
    pub fn arrived_bytes(&mut self) -> Result<Option<usize>, Error> {
        if self.arrived.is_none() {
            let Some((place, bytes)) = self.end.test()? else {
                return Ok(None);
            };
            let most = self.end.most_bytes;
            let length = usize::try_from(bytes).ok().filter(|it| *it <= most);
            let length = length.ok_or_else(|| {
                let what = format!("a message of {bytes} bytes; expected {most} at most");
                self.end.seat.functions().place.absurd("test", what)
            })?;
            self.arrived = Some((place, length));
        }
        Ok(self.arrived.map(|(_, bytes)| bytes))
    }

    /// The oldest message if it has arrived in the connection's own memory, until it is given back.
    ///
    /// # Errors
    /// As [`Self::arrived_bytes`].
    pub fn arrived(&mut self) -> Result<Option<&[u8]>, Error> {
        self.arrived_bytes()?;
        let (Some((place, bytes)), Region::Own(_)) = (self.arrived, &self.end.region) else {
            return Ok(None);
        };
        // SAFETY: its request is complete and its slot not given back, so the NIC does not write to
        // it.
        Ok(Some(unsafe { std::slice::from_raw_parts(place, bytes) }))
    }

    /// Makes the oldest message visible to a GPU (GPUDirect RDMA). Call it until it returns `true`.
    ///
    /// # Panics
    /// No message has arrived.
    ///
    /// # Errors
    /// The plug-in fails, or cannot flush.
    pub fn flush(&mut self) -> Result<bool, Error> {
        let (place, bytes) = self.arrived.expect("a message has arrived");
        let functions = self.end.seat.functions();
        if matches!(self.flushing, FlushState::No) {
            // SAFETY: the message is in this connection's registered memory.
            let request =
                unsafe { functions.flush(self.end.object, place, bytes, self.end.registration) }?;
            self.flushing = if request.is_null() {
                FlushState::Done
            } else {
                FlushState::Begun(request)
            };
        }
        if let FlushState::Begun(request) = self.flushing
            // SAFETY: the request is in progress until its test succeeds.
            && unsafe { functions.test(request) }?.is_some()
        {
            self.flushing = FlushState::Done;
        }
        Ok(matches!(self.flushing, FlushState::Done))
    }

    /// Gives the oldest message's slot back.
    ///
    /// # Panics
    /// No message has arrived.
    pub fn give_back(&mut self) {
        assert!(self.arrived.is_some());
        self.arrived = None;
        self.flushing = FlushState::No;
    }
}
