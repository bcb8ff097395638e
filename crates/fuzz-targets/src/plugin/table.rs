//! The table of functions, whose answers come from the input.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use net_plugin::abi::{
    Code, Config, HANDLE_BYTES, Logger, Profiler, PropertiesV8, PropertiesV9, PropertiesV11,
    PropertiesV12, Table, TableV8, TableV9, TableV10, TableV11, TableV12, Together,
};

use super::{SLOT_BYTES, with_table};
use crate::target::Reached;

type Pointer = *mut c_void;

/// Bytes that describe a slot, behind its data.
const HEADER_BYTES: usize = 16;

/// The length that says that nothing follows.
const END: u32 = u32::MAX;

/// Most devices whose properties the input holds. A plug-in with more is refused, or repeats itself.
const MOST_DEVICES: i32 = 8;

/// What functions answer.
#[derive(Default)]
struct Answers {
    bytes: VecDeque<u8>,
    /// Texts that were given out, which must stay.
    texts: Vec<CString>,
    /// Requests under way, by their numbers: where a message belongs and how long it may be.
    requests: Vec<Option<(Pointer, usize)>>,
    /// The step of the next message.
    step: u32,
}

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

impl Answers {
    /// The next byte; 0 where there are none left.
    fn byte(&mut self) -> u8 {
        self.bytes.pop_front().unwrap_or(0)
    }

    fn number(&mut self) -> i32 {
        let number = i32::from_le_bytes(std::array::from_fn(|_| self.byte()));
        match self.byte() % 4 {
            0 => number,
            1 => number & 0xff,
            2 => 1,
            _ => -1,
        }
    }

    /// Mostly success.
    fn code(&mut self) -> Code {
        match self.byte() {
            byte @ 240.. => Code::from(byte) - 239,
            _ => 0,
        }
    }

    fn text(&mut self) -> *const c_char {
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

    /// An object, or mostly so.
    fn object(&mut self) -> Pointer {
        match self.byte() {
            250.. => null_mut(),
            _ => std::ptr::without_provenance_mut(0x1000),
        }
    }

    /// A request for memory of a length, or none now.
    fn request(&mut self, memory: Pointer, bytes: usize) -> Pointer {
        if self.byte() >= 200 {
            return null_mut();
        }
        self.requests.push(Some((memory, bytes)));
        std::ptr::without_provenance_mut(self.requests.len() << 4)
    }

    /// Brings a message, or says that it was sent; answers its length. Half of the messages are as a sender makes them.
    fn message(&mut self, memory: Pointer, room: usize) -> c_int {
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
            _ => crc32fast::hash(&message).max(1),
        };
        if said == END {
            message.clear();
        }
        let mut header: Vec<u8> = [step, said, checksum]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let mut own = crc32fast::hash(&header);
        if kind & 3 == 2 {
            own ^= u32::from(self.byte());
        }
        header.extend(own.to_le_bytes());
        message.extend(header);
        // SAFETY: the request was made for memory with so much room, which is registered until it is done.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), memory.cast(), message.len()) };
        self.step = self.step.wrapping_add(1);
        message.len() as c_int
    }
}

fn answer<T>(ask: impl FnOnce(&mut Answers) -> T) -> T {
    ANSWERS.with_borrow_mut(ask)
}

/// Writes a result, if the call succeeds.
///
/// # Safety
/// The place can be written.
unsafe fn give<T>(place: *mut T, value: impl FnOnce(&mut Answers) -> T) -> Code {
    let code = answer(Answers::code);
    if code == 0 {
        let value = answer(value);
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
    code
}

// Up to v10 a process calls `init` once for a table, so an answer from the input would shift all others.
unsafe extern "C" fn init_v8(_: Logger) -> Code {
    0
}

unsafe extern "C" fn init_v10(_: Logger, _: Profiler) -> Code {
    0
}

unsafe extern "C" fn init_v11(
    context: *mut Pointer,
    _: u64,
    _: *mut Config,
    _: Logger,
    _: Profiler,
) -> Code {
    // SAFETY: the caller has a place for the context.
    unsafe { give(context, Answers::object) }
}

unsafe extern "C" fn devices(count: *mut c_int) -> Code {
    // SAFETY: the caller has a place for the number.
    unsafe {
        give(count, |answers| match answers.number() {
            count @ 1..=1024 => 1 + count % MOST_DEVICES,
            count => count,
        })
    }
}

fn properties_v8(answers: &mut Answers) -> PropertiesV8 {
    PropertiesV8 {
        name: answers.text(),
        pci_path: answers.text(),
        guid: answers.number() as u64,
        pointers: answers.number() | 1,
        registration_is_global: answers.number(),
        speed: answers.number(),
        port: answers.number(),
        latency: f32::from_bits(answers.number() as u32),
        most_communicators: answers.number(),
        most_receives: answers.number(),
        offload: 0,
        offload_version: answers.number(),
    }
}

fn properties_v9<const N: usize>(answers: &mut Answers) -> PropertiesV9<N> {
    let it = properties_v8(answers);
    PropertiesV9 {
        name: it.name,
        pci_path: it.pci_path,
        guid: it.guid,
        pointers: it.pointers,
        registration_is_global: it.registration_is_global,
        force_flush: answers.number(),
        speed: it.speed,
        port: it.port,
        latency: it.latency,
        most_communicators: it.most_communicators,
        most_receives: it.most_receives,
        offload: 0,
        offload_version: it.offload_version,
        together: Together::default(),
        most_bytes: match answers.byte() % 4 {
            0 => answers.number() as usize,
            1 => SLOT_BYTES,
            _ => 1 << 20,
        },
        most_collective_bytes: answers.number() as usize,
    }
}

unsafe extern "C" fn get_v8(_: c_int, place: *mut PropertiesV8) -> Code {
    // SAFETY: the caller has a place for properties of this version.
    unsafe { give(place, properties_v8) }
}

unsafe extern "C" fn get_v9(_: c_int, place: *mut PropertiesV9<4>) -> Code {
    // SAFETY: as for `get_v8`.
    unsafe { give(place, properties_v9) }
}

unsafe extern "C" fn get_v11(_: c_int, place: *mut PropertiesV11) -> Code {
    let get = |answers: &mut Answers| PropertiesV11 {
        common: properties_v9(answers),
        most_requests_at_once: answers.number(),
    };
    // SAFETY: as for `get_v8`.
    unsafe { give(place, get) }
}

unsafe extern "C" fn get_v12(_: c_int, place: *mut PropertiesV12) -> Code {
    let get = |answers: &mut Answers| PropertiesV12 {
        common: properties_v9(answers),
        most_requests_at_once: answers.number(),
        rail: answers.number() as i16,
        plane: answers.number() as i16,
    };
    // SAFETY: as for `get_v8`.
    unsafe { give(place, get) }
}

/// # Safety
/// The handle has as many bytes as handles have, and there is a place for the object.
unsafe fn listens(handle: Pointer, object: *mut Pointer) -> Code {
    let byte = answer(Answers::byte);
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::write_bytes(handle.cast::<u8>(), byte, HANDLE_BYTES);
        give(object, Answers::object)
    }
}

unsafe extern "C" fn listen_v8(_: c_int, handle: Pointer, object: *mut Pointer) -> Code {
    // SAFETY: the caller has a handle and a place for the object.
    unsafe { listens(handle, object) }
}

unsafe extern "C" fn listen_v11(
    _: Pointer,
    _: c_int,
    handle: Pointer,
    object: *mut Pointer,
) -> Code {
    // SAFETY: as for `listen_v8`.
    unsafe { listens(handle, object) }
}

unsafe extern "C" fn connect_v8(
    _: c_int,
    _: Pointer,
    object: *mut Pointer,
    _: *mut Pointer,
) -> Code {
    // SAFETY: the caller has a place for the object.
    unsafe { give(object, Answers::object) }
}

unsafe extern "C" fn connect_v10(
    _: c_int,
    _: *mut Config,
    _: Pointer,
    object: *mut Pointer,
    _: *mut Pointer,
) -> Code {
    // SAFETY: as for `connect_v8`.
    unsafe { give(object, Answers::object) }
}

unsafe extern "C" fn connect_v11(
    _: Pointer,
    _: c_int,
    _: Pointer,
    object: *mut Pointer,
    _: *mut Pointer,
) -> Code {
    // SAFETY: as for `connect_v8`.
    unsafe { give(object, Answers::object) }
}

unsafe extern "C" fn accept(_: Pointer, object: *mut Pointer, _: *mut Pointer) -> Code {
    // SAFETY: as for `connect_v8`.
    unsafe { give(object, Answers::object) }
}

unsafe extern "C" fn register(
    _: Pointer,
    _: Pointer,
    _: usize,
    _: c_int,
    registration: *mut Pointer,
) -> Code {
    // SAFETY: the caller has a place for the registration.
    unsafe { give(registration, Answers::object) }
}

unsafe extern "C" fn deregister(_: Pointer, _: Pointer) -> Code {
    answer(Answers::code)
}

unsafe extern "C" fn send_v8(
    _: Pointer,
    _: Pointer,
    _: c_int,
    _: c_int,
    _: Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: the caller has a place for the request.
    unsafe { give(request, |answers| answers.request(null_mut(), 0)) }
}

unsafe extern "C" fn send_v9(
    _: Pointer,
    _: Pointer,
    _: usize,
    _: c_int,
    _: Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: as for `send_v8`.
    unsafe { give(request, |answers| answers.request(null_mut(), 0)) }
}

unsafe extern "C" fn send_v10(
    _: Pointer,
    _: Pointer,
    _: usize,
    _: c_int,
    _: Pointer,
    _: Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: as for `send_v8`.
    unsafe { give(request, |answers| answers.request(null_mut(), 0)) }
}

unsafe extern "C" fn receive_v8(
    _: Pointer,
    _: c_int,
    memory: *mut Pointer,
    bytes: *mut c_int,
    _: *mut c_int,
    _: *mut Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: the caller gives lists of one element, and has a place for the request.
    unsafe {
        let (memory, bytes) = (*memory, *bytes as usize);
        give(request, |answers| answers.request(memory, bytes))
    }
}

unsafe extern "C" fn receive_v9(
    _: Pointer,
    _: c_int,
    memory: *mut Pointer,
    bytes: *mut usize,
    _: *mut c_int,
    _: *mut Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: as for `receive_v8`.
    unsafe {
        let (memory, bytes) = (*memory, *bytes);
        give(request, |answers| answers.request(memory, bytes))
    }
}

unsafe extern "C" fn receive_v10(
    _: Pointer,
    _: c_int,
    memory: *mut Pointer,
    bytes: *mut usize,
    _: *mut c_int,
    _: *mut Pointer,
    _: *mut Pointer,
    request: *mut Pointer,
) -> Code {
    // SAFETY: as for `receive_v8`.
    unsafe {
        let (memory, bytes) = (*memory, *bytes);
        give(request, |answers| answers.request(memory, bytes))
    }
}

unsafe extern "C" fn test(request: Pointer, done: *mut c_int, bytes: *mut c_int) -> Code {
    let at = (request.addr() >> 4).wrapping_sub(1);
    let code = answer(Answers::code);
    if code != 0 {
        return code;
    }
    let came = answer(|answers| {
        if answers.byte() >= 192 {
            return None;
        }
        let (memory, room) = answers.requests.get_mut(at)?.take()?;
        Some(answers.message(memory, room))
    });
    // SAFETY: the caller has places for both.
    unsafe {
        done.write(c_int::from(came.is_some()));
        bytes.write(came.unwrap_or(0));
    }
    0
}

unsafe extern "C" fn close(_: Pointer) -> Code {
    answer(Answers::code)
}

/// A table with the functions that differ between versions.
macro_rules! table {
    ($init:ident, $properties:ident, $listen:ident, $connect:ident, $send:ident, $receive:ident) => {
        Table {
            name: c"Fuzz".as_ptr(),
            init: Some($init),
            devices: Some(devices),
            get_properties: Some($properties),
            listen: Some($listen),
            connect: Some($connect),
            accept: Some(accept),
            register: Some(register),
            register_dma_buf: None,
            deregister: Some(deregister),
            send: Some($send),
            receive: Some($receive),
            flush: None,
            test: Some(test),
            close_send: Some(close),
            close_receive: Some(close),
            close_listen: Some(close),
            get_device_registration: None,
            receive_consumed: None,
        }
    };
}
/// Loads the plug-in of a version whose functions answer with these bytes.
pub fn run(version: u8, bytes: &[u8]) -> Reached {
    ANSWERS.set(Answers {
        bytes: bytes.iter().copied().collect(),
        ..Answers::default()
    });
    match version % 5 {
        0 => {
            let table: TableV8 =
                table!(init_v8, get_v8, listen_v8, connect_v8, send_v8, receive_v8);
            with_table(8, &table)
        }
        1 => {
            let table = TableV9 {
                common: table!(init_v8, get_v9, listen_v8, connect_v8, send_v9, receive_v9),
                make_together: None,
            };
            with_table(9, &table)
        }
        2 => {
            let table = TableV10 {
                common: table!(
                    init_v10,
                    get_v9,
                    listen_v8,
                    connect_v10,
                    send_v10,
                    receive_v10
                ),
                make_together: None,
            };
            with_table(10, &table)
        }
        3 => {
            let table: TableV11<PropertiesV11> = TableV11 {
                common: table!(
                    init_v11,
                    get_v11,
                    listen_v11,
                    connect_v11,
                    send_v10,
                    receive_v10
                ),
                make_together: None,
                finalize: Some(close),
                set_attributes: None,
            };
            with_table(11, &table)
        }
        _ => {
            let table: TableV12 = TableV11 {
                common: table!(
                    init_v11,
                    get_v12,
                    listen_v11,
                    connect_v11,
                    send_v10,
                    receive_v10
                ),
                make_together: None,
                finalize: Some(close),
                set_attributes: None,
            };
            with_table(12, &table)
        }
    }
}
