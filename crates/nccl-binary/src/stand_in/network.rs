//! The net plug-in with the network ports of the topology file: they connect at once and send
//! nothing.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use net_plugin::abi::{
    Code, Config, HANDLE_BYTES, InitV8, InitV10, InitV11, Logger, MakeTogether, NO_ID,
    POINTER_CUDA, POINTER_HOST, Profiler, PropertiesV9, PropertiesV11, PropertiesV12, ReceiveV9,
    ReceiveV10, SendV9, SendV10, Table, TableV9, TableV10, TableV11, TableV12, Together,
};

use super::{devices, ports};

/// `ncclSuccess`, `ncclInvalidArgument` and `ncclInvalidUsage`.
const SUCCESS: Code = 0;
const INVALID_ARGUMENT: Code = 4;
const INVALID_USAGE: Code = 5;

/// Most ports of a virtual device, in any version of the interface.
const MOST_TOGETHER: usize = 8;

/// Longest transfer that the ports offer: 1 TB, in bytes.
const MOST_BYTES: usize = 1 << 40;

/// Requests at once that the ports offer.
const MOST_REQUESTS: c_int = 1;

/// What connections and registrations are: an address that nobody reads.
const SOMETHING: *mut c_void = ptr::without_provenance_mut(16);

type Pointer = *mut c_void;

extern "C" fn init(_: Logger) -> Code {
    SUCCESS
}

extern "C" fn init_v10(_: Logger, _: Profiler) -> Code {
    SUCCESS
}

unsafe extern "C" fn init_v11(
    context: *mut Pointer,
    _: u64,
    _: *mut Config,
    _: Logger,
    _: Profiler,
) -> Code {
    // NCCL 2.28 hands the context of a plug-in without ports on to its InfiniBand transport, which
    // frees it. Nobody reads it here.
    // SAFETY: NCCL gives an address for the context.
    unsafe { put(context, ptr::null_mut()) }
}

/// Writes a result.
///
/// # Safety
/// `out` is null, or a `T` can be written there, as NCCL's interface says.
unsafe fn put<T>(out: *mut T, value: T) -> Code {
    if !out.is_null() {
        // SAFETY: the caller says so.
        unsafe { out.write(value) };
    }
    SUCCESS
}

unsafe extern "C" fn device_count(out: *mut c_int) -> Code {
    // SAFETY: NCCL gives an address for the result.
    unsafe { put(out, ports::count(&devices::devices().ports) as c_int) }
}

fn properties_of<const N: usize>(device: c_int) -> Option<PropertiesV9<N>> {
    let port = ports::numbered(&devices::devices().ports, device)?;
    let mut devices = [0; N];
    for (room, member) in devices.iter_mut().zip(&port.members) {
        *room = *member;
    }
    let count = port.members.len().min(N) as c_int;
    let together = Together { count, devices };
    Some(PropertiesV9 {
        name: port.name.as_ptr(),
        pci_path: ptr::null(),
        guid: port.guid,
        pointers: match port.gdr {
            true => POINTER_HOST | POINTER_CUDA,
            false => POINTER_HOST,
        },
        registration_is_global: 0,
        force_flush: 0,
        speed: port.speed,
        port: port.port,
        latency: port.latency,
        most_communicators: port.connections,
        most_receives: 1,
        offload: 0,
        offload_version: 0,
        together,
        most_bytes: MOST_BYTES,
        most_collective_bytes: MOST_BYTES,
    })
}

unsafe extern "C" fn properties(device: c_int, out: *mut PropertiesV9<4>) -> Code {
    match properties_of(device) {
        // SAFETY: NCCL gives room for the properties.
        Some(properties) => unsafe { put(out, properties) },
        None => INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn properties_v11(device: c_int, out: *mut PropertiesV11) -> Code {
    let Some(common) = properties_of(device) else {
        return INVALID_ARGUMENT;
    };
    let properties = PropertiesV11 {
        common,
        most_requests_at_once: MOST_REQUESTS,
    };
    // SAFETY: NCCL gives room for the properties.
    unsafe { put(out, properties) }
}

unsafe extern "C" fn properties_v12(device: c_int, out: *mut PropertiesV12) -> Code {
    let Some(common) = properties_of(device) else {
        return INVALID_ARGUMENT;
    };
    let port = ports::numbered(&devices::devices().ports, device);
    let properties = PropertiesV12 {
        common,
        most_requests_at_once: MOST_REQUESTS,
        rail: port.map_or(NO_ID, |port| port.rail),
        plane: port.map_or(NO_ID, |port| port.plane),
    };
    // SAFETY: NCCL gives room for the properties.
    unsafe { put(out, properties) }
}

/// Merges the ports of a `Together`, of which all versions have the same beginning.
unsafe extern "C" fn make_together(out: *mut c_int, wanted: Pointer) -> Code {
    let wanted = wanted.cast::<c_int>();
    // SAFETY: NCCL gives a number of devices, and their numbers behind it.
    let members = unsafe {
        let count = usize::try_from(wanted.read()).unwrap_or(0);
        std::slice::from_raw_parts(wanted.add(1), count.min(MOST_TOGETHER))
    };
    let devices = devices::devices();
    let made = match devices.refuses_merges {
        true => None,
        false => ports::merge(&devices.ports, members),
    };
    match made {
        // SAFETY: NCCL gives an address for the device's number.
        Some(device) => unsafe { put(out, device) },
        None => INVALID_USAGE,
    }
}

/// The function that merges ports, where the network does.
fn merging() -> Option<MakeTogether> {
    devices::devices()
        .merges
        .then_some(make_together as MakeTogether)
}

/// Prepares a handle and a listening connection.
///
/// # Safety
/// As NCCL's interface says.
unsafe fn listen_on(handle: Pointer, out: *mut Pointer) -> Code {
    if !handle.is_null() {
        // SAFETY: NCCL gives room for a handle.
        unsafe { ptr::write_bytes(handle.cast::<u8>(), 0, HANDLE_BYTES) };
    }
    // SAFETY: NCCL gives an address for the result.
    unsafe { put(out, SOMETHING) }
}

unsafe extern "C" fn listen(_: c_int, handle: Pointer, out: *mut Pointer) -> Code {
    // SAFETY: as the caller of this function.
    unsafe { listen_on(handle, out) }
}

unsafe extern "C" fn listen_v11(_: Pointer, _: c_int, handle: Pointer, out: *mut Pointer) -> Code {
    // SAFETY: as the caller of this function.
    unsafe { listen_on(handle, out) }
}

/// Functions that make a connection, a registration or a request: types of the arguments before
/// and behind the place for it.
macro_rules! give_something {
    ($($name:ident($($before:ty),*; $($behind:ty)?);)*) => {$(
        unsafe extern "C" fn $name(
            $(_: $before,)*
            out: *mut Pointer,
            $(_: $behind,)?
        ) -> Code {
            // SAFETY: NCCL gives an address for the result.
            unsafe { put(out, SOMETHING) }
        }
    )*};
}

give_something! {
    connect(c_int, Pointer; *mut Pointer);
    connect_v10(c_int, *mut Config, Pointer; *mut Pointer);
    connect_v11(Pointer, c_int, Pointer; *mut Pointer);
    accept(Pointer; *mut Pointer);
    register(Pointer, Pointer, usize, c_int;);
    register_dma_buf(Pointer, Pointer, usize, c_int, u64, c_int;);
    send(Pointer, Pointer, usize, c_int, Pointer;);
    send_v10(Pointer, Pointer, usize, c_int, Pointer, Pointer;);
    receive(Pointer, c_int, *mut Pointer, *mut usize, *mut c_int, *mut Pointer;);
    receive_v10(Pointer, c_int, *mut Pointer, *mut usize, *mut c_int, *mut Pointer, *mut Pointer;);
}

extern "C" fn deregister(_: Pointer, _: Pointer) -> Code {
    SUCCESS
}

unsafe extern "C" fn flush(
    _: Pointer,
    _: c_int,
    _: *mut Pointer,
    _: *mut c_int,
    _: *mut Pointer,
    out: *mut Pointer,
) -> Code {
    // SAFETY: NCCL gives an address for the request.
    unsafe { put(out, ptr::null_mut()) }
}

/// Every request is done.
unsafe extern "C" fn test(_: Pointer, done: *mut c_int, bytes: *mut c_int) -> Code {
    // SAFETY: NCCL gives addresses for the results, or null.
    unsafe {
        put(bytes, 0);
        put(done, 1)
    }
}

extern "C" fn close(_: Pointer) -> Code {
    SUCCESS
}

extern "C" fn set_attributes(_: Pointer, _: Pointer) -> Code {
    SUCCESS
}

struct Calls<Init, Properties, Listen, Connect, Send, Receive> {
    init: Init,
    properties: unsafe extern "C" fn(c_int, *mut Properties) -> Code,
    listen: Listen,
    connect: Connect,
    send: Send,
    receive: Receive,
}

impl<I, P, L, C, S, R> Calls<I, P, L, C, S, R> {
    fn table(self) -> Table<I, P, L, C, S, R> {
        Table {
            name: c"topo".as_ptr(),
            init: Some(self.init),
            devices: Some(device_count),
            get_properties: Some(self.properties),
            listen: Some(self.listen),
            connect: Some(self.connect),
            accept: Some(accept),
            register: Some(register),
            register_dma_buf: Some(register_dma_buf),
            deregister: Some(deregister),
            send: Some(self.send),
            receive: Some(self.receive),
            flush: Some(flush),
            test: Some(test),
            close_send: Some(close),
            close_receive: Some(close),
            close_listen: Some(close),
            get_device_registration: None,
            receive_consumed: None,
        }
    }
}

struct Tables {
    v9: TableV9,
    v10: TableV10,
    v11: TableV11<PropertiesV11>,
    v12: TableV12,
}

// SAFETY: the tables are never changed; their names are constants.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables {
        v9: TableV9 {
            common: Calls {
                init: init as InitV8,
                properties,
                listen: listen as _,
                connect: connect as _,
                send: send as SendV9,
                receive: receive as ReceiveV9,
            }
            .table(),
            make_together: merging(),
        },
        v10: TableV10 {
            common: Calls {
                init: init_v10 as InitV10,
                properties,
                listen: listen as _,
                connect: connect_v10 as _,
                send: send_v10 as SendV10,
                receive: receive_v10 as ReceiveV10,
            }
            .table(),
            make_together: merging(),
        },
        v11: of_v11(properties_v11),
        v12: of_v11(properties_v12),
    })
}

fn of_v11<P>(properties: unsafe extern "C" fn(c_int, *mut P) -> Code) -> TableV11<P> {
    TableV11 {
        common: Calls {
            init: init_v11 as InitV11,
            properties,
            listen: listen_v11 as _,
            connect: connect_v11 as _,
            send: send_v10 as SendV10,
            receive: receive_v10 as ReceiveV10,
        }
        .table(),
        make_together: merging(),
        finalize: Some(close),
        set_attributes: Some(set_attributes),
    }
}

/// The table that a library of plug-ins exports under a name.
pub(super) fn table(name: &str) -> Option<usize> {
    let tables = tables();
    Some(match name {
        "ncclNetPlugin_v9" => ptr::from_ref(&tables.v9).addr(),
        "ncclNetPlugin_v10" => ptr::from_ref(&tables.v10).addr(),
        "ncclNetPlugin_v11" => ptr::from_ref(&tables.v11).addr(),
        "ncclNetPlugin_v12" => ptr::from_ref(&tables.v12).addr(),
        _ => return None,
    })
}
