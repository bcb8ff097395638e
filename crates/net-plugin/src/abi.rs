//! The memory layout of NCCL's net plug-ins, by ABI version.
//!
//! A library exports a table `ncclNetPlugin_vN` for each version N that it supports: a name and
//! functions. The versions differ in a few functions and in the properties of devices. The layouts
//! are those of a 64-bit machine; their sizes are asserted here, and every offset in the tests.
//!
//! Source: NCCL's public plug-in interface (2.20 to 2.30). The names of the fields are NCCL's, in
//! Rust's spelling.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// Most bytes of a handle (`NCCL_NET_HANDLE_MAXSIZE`).
pub const HANDLE_BYTES: usize = 128;

/// Most requests in progress in one communicator (`NCCL_NET_MAX_REQUESTS`).
pub const MOST_REQUESTS: usize = 32;

/// Host memory, as a kind of pointer (`NCCL_PTR_HOST`).
pub const POINTER_HOST: c_int = 1;

/// GPU memory (`NCCL_PTR_CUDA`).
pub const POINTER_CUDA: c_int = 2;

/// Memory that a DMA-BUF describes (`NCCL_PTR_DMABUF`).
pub const POINTER_DMABUF: c_int = 4;

/// No traffic class (`NCCL_NET_TRAFFIC_CLASS_UNDEF`).
pub const NO_TRAFFIC_CLASS: c_int = -1;

/// An unknown rail or plane (`NCCL_NET_ID_UNDEF`).
pub const NO_ID: i16 = -1;

/// Longest message of a version that does not report one: 1 GiB, in bytes. Its lengths are `int`.
pub const MOST_BYTES: usize = 1 << 30;

/// `ncclResult_t`.
pub type Code = c_int;

/// The logger: level, subsystems, file, line, format and arguments.
pub type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// The callback for a plug-in's events: event, type, parent, plug-in's number, details.
pub type Profiler =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> Code;

/// Devices that are used as one, at most `N` (`ncclNetVDeviceProps`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Together<const N: usize> {
    /// Their number.
    pub count: c_int,
    /// Their device numbers.
    pub devices: [c_int; N],
}

impl<const N: usize> Default for Together<N> {
    fn default() -> Self {
        Self {
            count: 0,
            devices: [0; N],
        }
    }
}

/// `ncclNetCommConfig`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Config {
    /// The traffic class, in the plug-in's numbers.
    pub traffic_class: c_int,
}

/// Properties of a device, v8.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV8 {
    pub name: *const c_char,
    pub pci_path: *const c_char,
    pub guid: u64,
    pub pointers: c_int,
    pub registration_is_global: c_int,
    pub speed: c_int,
    pub port: c_int,
    pub latency: f32,
    pub most_communicators: c_int,
    pub most_receives: c_int,
    pub offload: c_int,
    pub offload_version: c_int,
}

/// Properties of a device that v9 and newer have in common; `N` devices can be used as one.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV9<const N: usize> {
    pub name: *const c_char,
    pub pci_path: *const c_char,
    pub guid: u64,
    pub pointers: c_int,
    pub registration_is_global: c_int,
    pub force_flush: c_int,
    pub speed: c_int,
    pub port: c_int,
    pub latency: f32,
    pub most_communicators: c_int,
    pub most_receives: c_int,
    pub offload: c_int,
    pub offload_version: c_int,
    pub together: Together<N>,
    pub most_bytes: usize,
    pub most_collective_bytes: usize,
}

/// Properties of a device, v11.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV11 {
    pub common: PropertiesV9<4>,
    pub most_requests_at_once: c_int,
}

/// Properties of a device, v12.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PropertiesV12 {
    pub common: PropertiesV9<8>,
    pub most_requests_at_once: c_int,
    pub rail: i16,
    pub plane: i16,
}

type Function<T> = Option<T>;
type Pointer = *mut c_void;

/// `init` of v8 and v9.
pub type InitV8 = unsafe extern "C" fn(Logger) -> Code;
/// `init` of v10.
pub type InitV10 = unsafe extern "C" fn(Logger, Profiler) -> Code;
/// `init` of v11 and newer: context, number of the communicator, its configuration.
pub type InitV11 = unsafe extern "C" fn(*mut Pointer, u64, *mut Config, Logger, Profiler) -> Code;
/// `devices`.
pub type Devices = unsafe extern "C" fn(*mut c_int) -> Code;
/// `getProperties`.
pub type GetProperties<P> = unsafe extern "C" fn(c_int, *mut P) -> Code;
/// `listen` up to v10.
pub type ListenV8 = unsafe extern "C" fn(c_int, Pointer, *mut Pointer) -> Code;
/// `listen` of v11 and newer.
pub type ListenV11 = unsafe extern "C" fn(Pointer, c_int, Pointer, *mut Pointer) -> Code;
/// `connect` of v8 and v9.
pub type ConnectV8 = unsafe extern "C" fn(c_int, Pointer, *mut Pointer, *mut Pointer) -> Code;
/// `connect` of v10.
pub type ConnectV10 =
    unsafe extern "C" fn(c_int, *mut Config, Pointer, *mut Pointer, *mut Pointer) -> Code;
/// `connect` of v11 and newer.
pub type ConnectV11 =
    unsafe extern "C" fn(Pointer, c_int, Pointer, *mut Pointer, *mut Pointer) -> Code;
/// `accept`.
pub type Accept = unsafe extern "C" fn(Pointer, *mut Pointer, *mut Pointer) -> Code;
/// `regMr`.
pub type Register = unsafe extern "C" fn(Pointer, Pointer, usize, c_int, *mut Pointer) -> Code;
/// `regMrDmaBuf`.
pub type RegisterDmaBuf =
    unsafe extern "C" fn(Pointer, Pointer, usize, c_int, u64, c_int, *mut Pointer) -> Code;
/// `deregMr`.
pub type Deregister = unsafe extern "C" fn(Pointer, Pointer) -> Code;
/// `isend` of v8.
pub type SendV8 =
    unsafe extern "C" fn(Pointer, Pointer, c_int, c_int, Pointer, *mut Pointer) -> Code;
/// `isend` of v9.
pub type SendV9 =
    unsafe extern "C" fn(Pointer, Pointer, usize, c_int, Pointer, *mut Pointer) -> Code;
/// `isend` of v10 and newer, with a handle for the profiler.
pub type SendV10 =
    unsafe extern "C" fn(Pointer, Pointer, usize, c_int, Pointer, Pointer, *mut Pointer) -> Code;
/// `irecv` of v8.
pub type ReceiveV8 = unsafe extern "C" fn(
    Pointer,
    c_int,
    *mut Pointer,
    *mut c_int,
    *mut c_int,
    *mut Pointer,
    *mut Pointer,
) -> Code;
/// `irecv` of v9.
pub type ReceiveV9 = unsafe extern "C" fn(
    Pointer,
    c_int,
    *mut Pointer,
    *mut usize,
    *mut c_int,
    *mut Pointer,
    *mut Pointer,
) -> Code;
/// `irecv` of v10 and newer.
pub type ReceiveV10 = unsafe extern "C" fn(
    Pointer,
    c_int,
    *mut Pointer,
    *mut usize,
    *mut c_int,
    *mut Pointer,
    *mut Pointer,
    *mut Pointer,
) -> Code;
/// `iflush`.
pub type Flush = unsafe extern "C" fn(
    Pointer,
    c_int,
    *mut Pointer,
    *mut c_int,
    *mut Pointer,
    *mut Pointer,
) -> Code;
/// `test`.
pub type Test = unsafe extern "C" fn(Pointer, *mut c_int, *mut c_int) -> Code;
/// `closeSend`, `closeRecv`, `closeListen` and `finalize`.
pub type Close = unsafe extern "C" fn(Pointer) -> Code;
/// `getDeviceMr`.
pub type GetDeviceRegistration = unsafe extern "C" fn(Pointer, Pointer, *mut Pointer) -> Code;
/// `irecvConsumed`.
pub type ReceiveConsumed = unsafe extern "C" fn(Pointer, c_int, Pointer) -> Code;
/// `makeVDevice`.
pub type MakeTogether = unsafe extern "C" fn(*mut c_int, Pointer) -> Code;
/// `setNetAttr`.
pub type SetAttributes = unsafe extern "C" fn(Pointer, Pointer) -> Code;

/// The table of v8, with which all newer ones begin; functions whose arguments differ are type
/// parameters.
#[derive(Debug)]
#[repr(C)]
pub struct Table<Init, Properties, Listen, Connect, Send, Receive> {
    pub name: *const c_char,
    pub init: Function<Init>,
    pub devices: Function<Devices>,
    pub get_properties: Function<GetProperties<Properties>>,
    pub listen: Function<Listen>,
    pub connect: Function<Connect>,
    pub accept: Function<Accept>,
    pub register: Function<Register>,
    pub register_dma_buf: Function<RegisterDmaBuf>,
    pub deregister: Function<Deregister>,
    pub send: Function<Send>,
    pub receive: Function<Receive>,
    pub flush: Function<Flush>,
    pub test: Function<Test>,
    pub close_send: Function<Close>,
    pub close_receive: Function<Close>,
    pub close_listen: Function<Close>,
    pub get_device_registration: Function<GetDeviceRegistration>,
    pub receive_consumed: Function<ReceiveConsumed>,
}

/// The table of v8.
pub type TableV8 = Table<InitV8, PropertiesV8, ListenV8, ConnectV8, SendV8, ReceiveV8>;

/// The table of v9.
#[derive(Debug)]
#[repr(C)]
pub struct TableV9 {
    pub common: Table<InitV8, PropertiesV9<4>, ListenV8, ConnectV8, SendV9, ReceiveV9>,
    pub make_together: Function<MakeTogether>,
}

/// The table of v10.
#[derive(Debug)]
#[repr(C)]
pub struct TableV10 {
    pub common: Table<InitV10, PropertiesV9<4>, ListenV8, ConnectV10, SendV10, ReceiveV10>,
    pub make_together: Function<MakeTogether>,
}

/// The table of v11 and, with other properties, of v12.
#[derive(Debug)]
#[repr(C)]
pub struct TableV11<Properties> {
    pub common: Table<InitV11, Properties, ListenV11, ConnectV11, SendV10, ReceiveV10>,
    pub make_together: Function<MakeTogether>,
    pub finalize: Function<Close>,
    pub set_attributes: Function<SetAttributes>,
}

/// The table of v12.
pub type TableV12 = TableV11<PropertiesV12>;

// Bytes on a 64-bit machine, summed over the fields: pointers and sizes have 8, numbers 4, ids 2.
const _: () = {
    assert!(size_of::<PropertiesV8>() == 64);
    assert!(size_of::<PropertiesV9<4>>() == 104);
    assert!(size_of::<PropertiesV11>() == 112);
    assert!(size_of::<PropertiesV12>() == 128);
    assert!(size_of::<TableV8>() == 152);
    assert!(size_of::<TableV9>() == 160);
    assert!(size_of::<TableV10>() == 160);
    assert!(size_of::<TableV11<PropertiesV11>>() == 176);
    assert!(size_of::<TableV12>() == 176);
};

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn properties_of_v8_lie_where_the_interface_says() {
        type It = PropertiesV8;
        let offsets = [
            offset_of!(It, name),
            offset_of!(It, pci_path),
            offset_of!(It, guid),
            offset_of!(It, pointers),
            offset_of!(It, registration_is_global),
            offset_of!(It, speed),
            offset_of!(It, port),
            offset_of!(It, latency),
            offset_of!(It, most_communicators),
            offset_of!(It, most_receives),
            offset_of!(It, offload),
            offset_of!(It, offload_version),
        ];
        assert_eq!(offsets, [0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56]);
    }

    fn of_v9<const N: usize>() -> [usize; 16] {
        [
            offset_of!(PropertiesV9<N>, name),
            offset_of!(PropertiesV9<N>, pci_path),
            offset_of!(PropertiesV9<N>, guid),
            offset_of!(PropertiesV9<N>, pointers),
            offset_of!(PropertiesV9<N>, registration_is_global),
            offset_of!(PropertiesV9<N>, force_flush),
            offset_of!(PropertiesV9<N>, speed),
            offset_of!(PropertiesV9<N>, port),
            offset_of!(PropertiesV9<N>, latency),
            offset_of!(PropertiesV9<N>, most_communicators),
            offset_of!(PropertiesV9<N>, most_receives),
            offset_of!(PropertiesV9<N>, offload),
            offset_of!(PropertiesV9<N>, offload_version),
            offset_of!(PropertiesV9<N>, together),
            offset_of!(PropertiesV9<N>, most_bytes),
            offset_of!(PropertiesV9<N>, most_collective_bytes),
        ]
    }

    #[test]
    fn properties_from_v9_on_lie_where_the_interface_says() {
        let first = [0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60];
        let four: Vec<usize> = first.into_iter().chain([64, 88, 96]).collect();
        let eight: Vec<usize> = first.into_iter().chain([64, 104, 112]).collect();
        assert_eq!(of_v9::<4>().to_vec(), four);
        assert_eq!(of_v9::<8>().to_vec(), eight);
        assert_eq!(size_of::<Together<4>>(), 20);
        assert_eq!(size_of::<Together<8>>(), 36);
        assert_eq!(offset_of!(Together<8>, devices), 4);
        assert_eq!(offset_of!(PropertiesV11, most_requests_at_once), 104);
        assert_eq!(offset_of!(PropertiesV12, most_requests_at_once), 120);
        assert_eq!(offset_of!(PropertiesV12, rail), 124);
        assert_eq!(offset_of!(PropertiesV12, plane), 126);
        assert_eq!(size_of::<Config>(), 4);
    }

    #[test]
    fn functions_lie_where_the_interface_says() {
        let offsets = [
            offset_of!(TableV8, name),
            offset_of!(TableV8, init),
            offset_of!(TableV8, devices),
            offset_of!(TableV8, get_properties),
            offset_of!(TableV8, listen),
            offset_of!(TableV8, connect),
            offset_of!(TableV8, accept),
            offset_of!(TableV8, register),
            offset_of!(TableV8, register_dma_buf),
            offset_of!(TableV8, deregister),
            offset_of!(TableV8, send),
            offset_of!(TableV8, receive),
            offset_of!(TableV8, flush),
            offset_of!(TableV8, test),
            offset_of!(TableV8, close_send),
            offset_of!(TableV8, close_receive),
            offset_of!(TableV8, close_listen),
            offset_of!(TableV8, get_device_registration),
            offset_of!(TableV8, receive_consumed),
        ];
        assert_eq!(
            offsets,
            [
                0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144
            ]
        );
        assert_eq!(offset_of!(TableV9, make_together), 152);
        assert_eq!(offset_of!(TableV10, make_together), 152);
        assert_eq!(offset_of!(TableV12, make_together), 152);
        assert_eq!(offset_of!(TableV12, finalize), 160);
        assert_eq!(offset_of!(TableV12, set_attributes), 168);
    }
}
