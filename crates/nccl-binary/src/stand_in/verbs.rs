//! InfiniBand's verbs (`libibverbs.so`) with the ports of the topology file, for NCCL's own
//! transport. Queue pairs connect at once; signaled writes are done, and carry nothing.
//!
//! Layouts and numbers are those of verbs.h.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::devices::devices;
use super::ports::Port;
use super::{Presented, presented};
use crate::plant::{self, Effect};

/// `IBV_PORT_ACTIVE` and `IBV_PORT_DOWN`.
const ACTIVE: c_uint = 4;
const DOWN: c_uint = 1;
/// `IBV_MTU_4096`.
const MTU: c_uint = 5;
/// `IBV_LINK_LAYER_INFINIBAND` and `IBV_LINK_LAYER_ETHERNET`.
const INFINIBAND: u8 = 1;
const ETHERNET: u8 = 2;
/// `IBV_SEND_SIGNALED`, and `IBV_WC_RDMA_WRITE`.
const SIGNALED: c_uint = 2;
const WRITTEN: c_uint = 1;

/// Places of pointers in `ibv_context_ops`, and their number.
const POLL: usize = 11;
const POST_SEND: usize = 25;
const POST_RECEIVE: usize = 26;
const CALLS: usize = 32;

/// Bytes of a name in `ibv_device`.
const NAME_BYTES: usize = 64;

/// `ibv_device`: two functions, two kinds, names and paths.
#[repr(C)]
struct Device {
    functions: [usize; 2],
    kinds: [c_int; 2],
    name: [u8; NAME_BYTES],
    names: [u8; NAME_BYTES + 256 + 256],
    port: &'static Port,
}

/// `ibv_context`.
#[repr(C)]
struct Context {
    device: *mut Device,
    calls: [usize; CALLS],
    descriptors: [c_int; 4],
    rest: [u64; 8],
}

/// `ibv_pd`, `ibv_mr`, `ibv_cq` and `ibv_qp` begin with their context; what NCCL reads of them is
/// here at its place.
#[repr(C)]
struct Region {
    context: *mut Context,
    domain: *mut c_void,
    address: *mut c_void,
    bytes: usize,
    keys: [u32; 4],
}

#[repr(C)]
struct CompletionQueue {
    context: *mut Context,
    rest: [u64; 31],
    /// Writes that are done: their ids and the numbers of their queue pairs.
    done: Mutex<VecDeque<(u64, u32)>>,
}

#[repr(C)]
struct QueuePair {
    context: *mut Context,
    own: *mut c_void,
    domain: *mut c_void,
    sends: *mut CompletionQueue,
    receives: *mut CompletionQueue,
    shared: *mut c_void,
    handle: u32,
    number: u32,
    state: [c_int; 2],
    rest: [u64; 32],
}

/// The first fields of `ibv_qp_init_attr`.
#[repr(C)]
struct NewQueuePair {
    own: *mut c_void,
    sends: *mut CompletionQueue,
    receives: *mut CompletionQueue,
}

/// The first fields of `ibv_send_wr`.
#[repr(C)]
struct Send {
    id: u64,
    next: *mut Send,
    list: *mut c_void,
    entries: c_int,
    operation: c_uint,
    flags: c_uint,
}

/// `ibv_wc`.
#[repr(C)]
struct Completion {
    id: u64,
    status: c_uint,
    operation: c_uint,
    vendor_error: u32,
    bytes: u32,
    immediate: u32,
    pair: u32,
    rest: [u32; 4],
}

/// `ibv_port_attr`.
#[repr(C)]
struct PortAttributes {
    state: c_uint,
    mtus: [c_uint; 2],
    gids: c_int,
    capabilities: u32,
    most_bytes: u32,
    counters: [u32; 2],
    keys: u16,
    lid: u16,
    manager: u16,
    bytes: [u8; 5],
    width: u8,
    speed: u8,
    physical: u8,
    link_layer: u8,
    flags: u8,
    more: u16,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn leak<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The number that a fault gives in place of a value.
fn planted(name: &str, value: u64) -> u64 {
    match plant::effect(name) {
        Some(Effect::Returns(number)) => number as u64,
        _ => value,
    }
}

/// The port with a folder below `/sys/class/infiniband`, if verbs are presented.
fn port_of(path: &str) -> Option<&'static Port> {
    let name = path.strip_prefix("/sys/class/infiniband/")?;
    let devices = devices();
    let named = |port: &&Port| port.name.to_bytes() == name.as_bytes();
    devices
        .ports
        .iter()
        .find(named)
        .filter(|_| devices.has_verbs)
}

/// Whether a path is the folder of a port.
pub(super) fn is_device(path: &str) -> bool {
    port_of(path).is_some()
}

/// The folder of a port's PCI function, to which a link in the port's folder leads.
pub(super) fn device_path(path: &str) -> Option<CString> {
    let port = port_of(path.strip_suffix("/device")?)?;
    CString::new(format!("/sys/devices/pci0000:00/{}", port.bus_id)).ok()
}

unsafe extern "C" fn device_list(count: *mut c_int) -> *mut *mut Device {
    let ports = &devices().ports;
    let ports = &ports[..planted("verbs-devices", ports.len() as u64) as usize];
    let device = |port: &'static Port| {
        let mut name = [0; NAME_BYTES];
        let bytes = port.name.to_bytes_with_nul();
        name[..bytes.len().min(NAME_BYTES)].copy_from_slice(&bytes[..bytes.len().min(NAME_BYTES)]);
        leak(Device {
            functions: [0; 2],
            kinds: [1, 0],
            name,
            names: [0; NAME_BYTES + 512],
            port,
        })
    };
    let mut list: Vec<*mut Device> = ports.iter().map(device).collect();
    list.push(ptr::null_mut());
    // SAFETY: NCCL gives an address for the number.
    unsafe { count.write(ports.len() as c_int) };
    list.leak().as_mut_ptr()
}

unsafe extern "C" fn device_name(device: *mut Device) -> *const c_char {
    // SAFETY: NCCL gives a device of the list.
    unsafe { (&raw const (*device).name).cast() }
}

unsafe extern "C" fn open_device(device: *mut Device) -> *mut Context {
    let mut calls = [0; CALLS];
    calls[POLL] = plant::of("ibv_poll_cq", poll as *const () as usize);
    calls[POST_SEND] = plant::of("post_send", post_send as *const () as usize);
    calls[POST_RECEIVE] = plant::of("post_recv", done as *const () as usize);
    leak(Context {
        device,
        calls,
        descriptors: [-1, -1, 1, 0],
        rest: [0; 8],
    })
}

extern "C" fn done() -> c_int {
    0
}

extern "C" fn unsupported() -> c_int {
    libc::EOPNOTSUPP
}

/// `ibv_async_event`.
#[repr(C)]
struct Event {
    port: u64,
    kind: c_int,
}

/// Waits for ever, or reports a planted event first.
unsafe extern "C" fn event(_: *mut Context, out: *mut Event) -> c_int {
    if let Some(Effect::Returns(kind)) = plant::effect("verbs-event") {
        let kind = kind as c_int;
        // SAFETY: NCCL gives room for an event; those that are planted are of port 1.
        unsafe { out.write(Event { port: 1, kind }) };
        return 0;
    }
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

extern "C" fn event_text(kind: c_int) -> *const c_char {
    let text: &CStr = match kind {
        8 => c"local catastrophic error",
        9 => c"port active",
        10 => c"port error",
        11 => c"LID change",
        12 => c"P_Key change",
        18 => c"GID table change",
        _ => c"unknown",
    };
    text.as_ptr()
}

/// What NCCL reads of `ibv_device_attr`: firmware, ids, the most of queue pairs and regions, ports.
unsafe extern "C" fn query_device(context: *mut Context, out: *mut u8) -> c_int {
    // SAFETY: NCCL gives an open context and room for 232 bytes.
    unsafe {
        let port = (*(*context).device).port;
        ptr::write_bytes(out, 0, 232);
        ptr::copy_nonoverlapping(c"28.39.1002".as_ptr().cast(), out, 11);
        for at in [64, 72] {
            out.add(at).cast::<u64>().write_unaligned(port.guid);
        }
        let numbers: [(usize, u32); 8] = [
            (96, 0x2c9),
            (100, 4129),
            (108, 131_072),
            (112, 32_768),
            (120, 30),
            (128, 16_777_216),
            (132, 4_194_303),
            (136, 16_777_216),
        ];
        for (at, number) in numbers {
            out.add(at).cast::<u32>().write_unaligned(number);
        }
        out.add(144).cast::<u32>().write_unaligned(16);
        out.add(227).write(1);
    }
    0
}

unsafe extern "C" fn query_port(context: *mut Context, _: u8, out: *mut PortAttributes) -> c_int {
    // SAFETY: NCCL gives an open context and room for the attributes.
    unsafe {
        let port = (*(*context).device).port;
        let layer = if port.infiniband {
            INFINIBAND
        } else {
            ETHERNET
        };
        let state = planted("verbs-port-state", ACTIVE.into()) as c_uint;
        out.write(PortAttributes {
            state,
            mtus: [MTU, planted("verbs-mtu", MTU.into()) as c_uint],
            gids: 4,
            capabilities: 0,
            most_bytes: 1 << 30,
            counters: [0; 2],
            keys: 128,
            lid: 1 + port.members[0] as u16,
            manager: 1,
            bytes: [0, 4, 0, 18, 0],
            width: 2,
            speed: if port.speed >= 400_000 { 128 } else { 64 },
            physical: if state == DOWN { 3 } else { 5 },
            link_layer: planted("verbs-link-layer", layer.into()) as u8,
            flags: 0,
            more: 0,
        });
    }
    0
}

unsafe extern "C" fn query_gid(context: *mut Context, _: u8, _: c_int, out: *mut u64) -> c_int {
    // SAFETY: NCCL gives an open context and room for 16 bytes.
    unsafe {
        let port = (*(*context).device).port;
        out.write_unaligned(u64::from_ne_bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0]));
        out.add(1).write_unaligned(port.guid);
    }
    0
}

unsafe extern "C" fn query_key(_: *mut Context, _: u8, _: c_int, out: *mut u16) -> c_int {
    // SAFETY: NCCL gives room for a key.
    unsafe { out.write(u16::MAX) };
    0
}

/// A protection domain is a region of no bytes.
extern "C" fn new_domain(context: *mut Context) -> *mut Region {
    leak(Region {
        context,
        domain: ptr::null_mut(),
        address: ptr::null_mut(),
        bytes: 0,
        keys: [0; 4],
    })
}

/// Crashes as the library does where NCCL calls it without a protection domain.
fn expect_domain(domain: *mut Region) {
    if domain.is_null() {
        // SAFETY: a signal that ends the process.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
}

unsafe extern "C" fn register(
    domain: *mut Region,
    address: *mut c_void,
    bytes: usize,
) -> *mut Region {
    expect_domain(domain);
    leak(Region {
        // SAFETY: NCCL gives a protection domain.
        context: unsafe { (*domain).context },
        domain: domain.cast(),
        address,
        bytes,
        keys: [next(); 4],
    })
}

extern "C" fn new_completion_queue(context: *mut Context) -> *mut CompletionQueue {
    leak(CompletionQueue {
        context,
        rest: [0; 31],
        done: Mutex::new(VecDeque::new()),
    })
}

unsafe extern "C" fn new_pair(domain: *mut Region, wanted: *mut NewQueuePair) -> *mut QueuePair {
    expect_domain(domain);
    // SAFETY: NCCL gives a protection domain and what it wants.
    unsafe {
        leak(QueuePair {
            context: (*domain).context,
            own: (*wanted).own,
            domain: domain.cast(),
            sends: (*wanted).sends,
            receives: (*wanted).receives,
            shared: ptr::null_mut(),
            handle: 0,
            number: 0x1000 + next(),
            state: [0, 2],
            rest: [0; 32],
        })
    }
}

unsafe extern "C" fn post_send(
    pair: *mut QueuePair,
    mut send: *mut Send,
    _: *mut *mut Send,
) -> c_int {
    // SAFETY: NCCL gives a queue pair and a list of requests.
    unsafe {
        while let Some(posted) = send.as_ref() {
            if posted.flags & SIGNALED != 0 {
                let queue = &(*(*pair).sends).done;
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.push_back((posted.id, (*pair).number));
            }
            send = posted.next;
        }
    }
    0
}

/// Reports writes that are done, or with a planted status.
unsafe extern "C" fn poll(queue: *mut CompletionQueue, room: c_int, out: *mut Completion) -> c_int {
    // SAFETY: NCCL gives a completion queue.
    let queue = unsafe { &(*queue).done };
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut count = 0;
    while count < room {
        let Some((id, pair)) = queue.pop_front() else {
            break;
        };
        let status = planted("verbs-status", 0) as c_uint;
        let completion = Completion {
            id,
            status,
            operation: WRITTEN,
            vendor_error: if status == 0 {
                0
            } else {
                planted("verbs-vendor", 129) as u32
            },
            bytes: 0,
            immediate: 0,
            pair,
            rest: [0; 4],
        };
        // SAFETY: NCCL gives room for this many.
        unsafe { out.add(count as usize).write(completion) };
        count += 1;
    }
    count
}

/// The functions that NCCL looks up.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "ibv_fork_init" => done,
        "ibv_get_device_list" => device_list,
        "ibv_free_device_list" => done,
        "ibv_get_device_name" => device_name,
        "ibv_open_device" => open_device,
        "ibv_close_device" => done,
        "ibv_get_async_event" => event,
        "ibv_ack_async_event" => done,
        "ibv_event_type_str" => event_text,
        "ibv_query_device" => query_device,
        "ibv_query_port" => query_port,
        "ibv_query_gid" => query_gid,
        "ibv_query_pkey" => query_key,
        "ibv_query_qp" => unsupported,
        "ibv_alloc_pd" => new_domain,
        "ibv_dealloc_pd" => done,
        "ibv_reg_mr" => register,
        "ibv_reg_mr_iova2" => register,
        "ibv_dereg_mr" => done,
        "ibv_create_cq" => new_completion_queue,
        "ibv_destroy_cq" => done,
        "ibv_create_qp" => new_pair,
        "ibv_modify_qp" => done,
        "ibv_destroy_qp" => done,
        "ibv_query_ece" => unsupported,
        "ibv_set_ece" => unsupported,
    }
}
