//! The plug-in's tables of functions, one for each version.

use std::ffi::c_int;
use std::ptr::null_mut;

use net_plugin::abi::{
    Code, Config, HANDLE_BYTES, Logger, Profiler, PropertiesV8, PropertiesV9, PropertiesV11,
    PropertiesV12, Table, TableV8, TableV9, TableV10, TableV11, TableV12, Together,
};

use super::answers::{self, Answers, MOST_DEVICES, Pointer, answer, give};
use super::{SLOT_BYTES, with_table};
use crate::input::Depth;

// Up to v10 a process calls `init` once per table, so an answer from the input would shift all
// others.
unsafe extern "C" fn init_v8(_: Logger) -> Code {
    0
}

unsafe extern "C" fn init_v10(_: Logger, _: Profiler) -> Code {
    0
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

fn properties_v11(answers: &mut Answers) -> PropertiesV11 {
    PropertiesV11 {
        common: properties_v9(answers),
        most_requests_at_once: answers.number(),
    }
}

fn properties_v12(answers: &mut Answers) -> PropertiesV12 {
    PropertiesV12 {
        common: properties_v9(answers),
        most_requests_at_once: answers.number(),
        rail: answers.number() as i16,
        plane: answers.number() as i16,
    }
}

/// # Safety
/// `handle` has `HANDLE_BYTES` bytes, and `object` can be written.
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

/// Functions that write one result, with the arguments before and after its place.
macro_rules! giving {
    ($($name:ident($($before:ty),*; $result:ty $(; $($after:ty),+)?) = $value:expr;)*) => {$(
        unsafe extern "C" fn $name(
            $(_: $before,)*
            place: *mut $result,
            $($(_: $after,)+)?
        ) -> Code {
            // SAFETY: the caller has a place for a result of this type.
            unsafe { give(place, $value) }
        }
    )*};
}

giving! {
    init_v11(; Pointer; u64, *mut Config, Logger, Profiler) = Answers::object;
    get_v8(c_int; PropertiesV8) = properties_v8;
    get_v9(c_int; PropertiesV9<4>) = properties_v9;
    get_v11(c_int; PropertiesV11) = properties_v11;
    get_v12(c_int; PropertiesV12) = properties_v12;
    connect_v8(c_int, Pointer; Pointer; *mut Pointer) = Answers::object;
    connect_v10(c_int, *mut Config, Pointer; Pointer; *mut Pointer) = Answers::object;
    connect_v11(Pointer, c_int, Pointer; Pointer; *mut Pointer) = Answers::object;
    accept(Pointer; Pointer; *mut Pointer) = Answers::object;
    register(Pointer, Pointer, usize, c_int; Pointer) = Answers::object;
    send_v8(Pointer, Pointer, c_int, c_int, Pointer; Pointer) = send;
    send_v9(Pointer, Pointer, usize, c_int, Pointer; Pointer) = send;
    send_v10(Pointer, Pointer, usize, c_int, Pointer, Pointer; Pointer) = send;
}

fn send(answers: &mut Answers) -> Pointer {
    answers.request(null_mut(), 0)
}

/// Functions that receive, with the type of lengths and the arguments before the request.
macro_rules! receiving {
    ($($name:ident($length:ty; $($before:ty),*);)*) => {$(
        unsafe extern "C" fn $name(
            _: Pointer,
            _: c_int,
            memory: *mut Pointer,
            bytes: *mut $length,
            $(_: $before,)*
            request: *mut Pointer,
        ) -> Code {
            // SAFETY: the caller gives lists of one element, and has a place for the request.
            unsafe {
                let (memory, bytes) = (*memory, *bytes as usize);
                give(request, |answers| answers.request(memory, bytes))
            }
        }
    )*};
}

receiving! {
    receive_v8(c_int; *mut c_int, *mut Pointer);
    receive_v9(usize; *mut c_int, *mut Pointer);
    receive_v10(usize; *mut c_int, *mut Pointer, *mut Pointer);
}

unsafe extern "C" fn deregister(_: Pointer, _: Pointer) -> Code {
    answer(Answers::code)
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

/// A table of v11 or v12.
macro_rules! late_table {
    ($properties:ident) => {
        TableV11 {
            common: table!(
                init_v11,
                $properties,
                listen_v11,
                connect_v11,
                send_v10,
                receive_v10
            ),
            make_together: None,
            finalize: Some(close),
            set_attributes: None,
        }
    };
}

/// Loads the plug-in of a version with answers from these bytes.
pub fn run(version: u8, bytes: &[u8]) -> Depth {
    answers::begin(bytes);
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
            let table: TableV11<PropertiesV11> = late_table!(get_v11);
            with_table(11, &table)
        }
        _ => {
            let table: TableV12 = late_table!(get_v12);
            with_table(12, &table)
        }
    }
}
