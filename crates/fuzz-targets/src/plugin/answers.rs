//! The answers of a plug-in, read from the input.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use net_plugin::abi::Code;

use crate::proxy::{checksum, header};

pub type Pointer = *mut c_void;

/// Bytes of a slot's header, after its data.
const HEADER_BYTES: usize = 16;

/// The length in the header of the end-of-stream message.
const END: u32 = u32::MAX;

/// Most devices whose properties the input holds. A plug-in with more is refused or repeats itself.
pub const MOST_DEVICES: i32 = 8;

/// The answers of the functions.
#[derive(Default)]
pub struct Answers {
    bytes: VecDeque<u8>,
    /// Returned texts, which must stay valid.
    texts: Vec<CString>,
    /// Open requests by number: the message's place and its room, bytes.
    pub requests: Vec<Option<(Pointer, usize)>>,
    /// The step of the next message.
    step: u32,
}

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

impl Answers {
    /// The next byte; 0 if none is left.
    pub fn byte(&mut self) -> u8 {
        self.bytes.pop_front().unwrap_or(0)
    }

    pub fn number(&mut self) -> i32 {
        let number = i32::from_le_bytes(std::array::from_fn(|_| self.byte()));
        match self.byte() % 4 {
            0 => number,
            1 => number & 0xff,
            2 => 1,
            _ => -1,
        }
    }

    /// A status, mostly success.
    pub fn code(&mut self) -> Code {
        match self.byte() {
            byte @ 240.. => Code::from(byte) - 239,
            _ => 0,
        }
    }

    pub fn text(&mut self) -> *const c_char {
        let length = match self.byte() {
            0 => return null(),
            length => usize::from(length % 32),
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.byte().max(1)).collect();
        let Ok(text) = CString::new(bytes) else {
            return null();
        };
        self.texts.push(text);
        self.texts.last().map_or(null(), |text| text.as_ptr())
    }

    /// An object, seldom none.
    pub fn object(&mut self) -> Pointer {
        match self.byte() {
            250.. => null_mut(),
            _ => std::ptr::without_provenance_mut(0x1000),
        }
    }

    /// A request for memory of this length, or none yet.
    pub fn request(&mut self, memory: Pointer, bytes: usize) -> Pointer {
        if self.byte() >= 200 {
            return null_mut();
        }
        self.requests.push(Some((memory, bytes)));
        std::ptr::without_provenance_mut(self.requests.len() << 4)
    }

    /// Receives a message, or completes a send. Returns its length. Half of the messages are valid.
    pub fn message(&mut self, memory: Pointer, room: usize) -> c_int {
        if memory.is_null() || room < HEADER_BYTES {
            return 0;
        }
        let kind = self.byte();
        if kind & 3 == 3 {
            return self.number();
        }
        let length = usize::from(self.byte()) % (room - HEADER_BYTES + 1);
        let mut message: Vec<u8> = (0..length).map(|_| self.byte()).collect();
        let (step, said) = match kind & 12 {
            0 => (self.step, length as u32),
            4 => (self.step, END),
            8 => (self.step.wrapping_add(1), length as u32),
            _ => (self.step, self.number() as u32),
        };
        let checksum = match kind & 16 {
            0 => 0,
            _ => checksum(&message),
        };
        if said == END {
            message.clear();
        }
        let mut header = header(step, said, checksum);
        if kind & 3 == 2 {
            header[HEADER_BYTES - 4] ^= self.byte();
        }
        message.extend(header);
        // SAFETY: the request was made for memory with this room, which is registered until it is
        // done.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), memory.cast(), message.len()) };
        self.step = self.step.wrapping_add(1);
        message.len() as c_int
    }
}

/// Runs a function on this thread's answers.
pub fn answer<T>(ask: impl FnOnce(&mut Answers) -> T) -> T {
    ANSWERS.with_borrow_mut(ask)
}

/// Writes a result if the call succeeds.
///
/// # Safety
/// `place` can be written.
pub unsafe fn give<T>(place: *mut T, value: impl FnOnce(&mut Answers) -> T) -> Code {
    let code = answer(Answers::code);
    if code == 0 {
        let value = answer(value);
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
    code
}

/// Starts with the answers of an input.
pub fn begin(bytes: &[u8]) {
    ANSWERS.set(Answers {
        bytes: bytes.iter().copied().collect(),
        ..Answers::default()
    });
}
