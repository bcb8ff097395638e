//! Hosts with addresses of their own: each has an interface `eth0` with an address of 10.0.0.0/24,
//! which is one of 127.0.1.0/24 for the kernel. NCCL's log then names hosts as on a real network.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::{Presented, presented};

/// The first three bytes of an address: as NCCL sees it, and as the kernel does.
const SHOWN: [u8; 3] = [10, 0, 0];
const KERNELS: [u8; 3] = [127, 0, 1];

const INTERFACE: &CStr = c"eth0";

/// The last byte of this host's address.
static HOST: OnceLock<u8> = OnceLock::new();

/// Presents the interface of a host, by its number from 0.
pub(crate) fn be_host(number: u32) {
    // A process has one script.
    let _ = HOST.set(number as u8 + 1);
}

/// Whether the interface of a host is presented, and not this machine's.
pub(crate) fn is_host() -> bool {
    HOST.get().is_some()
}

/// Replaces the network of an IPv4 address.
fn exchange(address: &mut libc::sockaddr_in, from: [u8; 3], to: [u8; 3]) {
    let mut bytes = address.sin_addr.s_addr.to_ne_bytes();
    if is_host() && c_int::from(address.sin_family) == libc::AF_INET && bytes[..3] == from {
        bytes[..3].copy_from_slice(&to);
        address.sin_addr.s_addr = u32::from_ne_bytes(bytes);
    }
}

/// Makes an address that the kernel wrote the one that NCCL sees.
///
/// # Safety
/// `address` is null or a socket's address.
pub(super) unsafe fn show(address: *mut libc::sockaddr) {
    // SAFETY: the caller says so; addresses of other families are longer, and are not changed.
    if let Some(address) = unsafe { address.cast::<libc::sockaddr_in>().as_mut() } {
        exchange(address, KERNELS, SHOWN);
    }
}

/// The kernel's form of an address; `None` for those of other families.
///
/// # Safety
/// As [`show`].
unsafe fn kernels(address: *const libc::sockaddr) -> Option<libc::sockaddr_in> {
    // SAFETY: the caller says so.
    unsafe {
        let family = address.as_ref()?.sa_family;
        let mut address = match c_int::from(family) {
            libc::AF_INET => address.cast::<libc::sockaddr_in>().read_unaligned(),
            _ => return None,
        };
        exchange(&mut address, SHOWN, KERNELS);
        Some(address)
    }
}

const BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

unsafe extern "C" fn bind(
    socket: c_int,
    to: *const libc::sockaddr,
    bytes: libc::socklen_t,
) -> c_int {
    // SAFETY: NCCL gives an address of this length.
    unsafe {
        match kernels(to) {
            Some(address) => libc::bind(socket, (&raw const address).cast(), BYTES),
            None => libc::bind(socket, to, bytes),
        }
    }
}

/// Connects from the host's own address to another host's.
unsafe extern "C" fn connect(
    socket: c_int,
    to: *const libc::sockaddr,
    bytes: libc::socklen_t,
) -> c_int {
    // SAFETY: NCCL gives an address of this length.
    unsafe {
        let Some(address) = kernels(to) else {
            return libc::connect(socket, to, bytes);
        };
        if address.sin_addr.s_addr.to_ne_bytes()[..3] == KERNELS {
            let own = own(KERNELS);
            // A socket that tries again is bound already.
            libc::bind(socket, (&raw const own).cast(), BYTES);
        }
        libc::connect(socket, (&raw const address).cast(), BYTES)
    }
}

unsafe extern "C" fn socket_name(
    socket: c_int,
    address: *mut libc::sockaddr,
    bytes: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: NCCL gives room for an address.
    unsafe {
        let answer = libc::getsockname(socket, address, bytes);
        show(address);
        answer
    }
}

/// This host's address in a network, without a port.
fn own(network: [u8; 3]) -> libc::sockaddr_in {
    let last = HOST.get().copied().unwrap_or(1);
    // SAFETY: all zeros is an address.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    let [a, b, c] = network;
    address.sin_addr.s_addr = u32::from_ne_bytes([a, b, c, last]);
    address
}

/// One interface with an IPv4 address.
unsafe extern "C" fn interfaces(out: *mut *mut libc::ifaddrs) -> c_int {
    if !is_host() {
        // SAFETY: as the caller of this function.
        return unsafe { libc::getifaddrs(out) };
    }
    let address = Box::into_raw(Box::new(own(SHOWN)));
    let mut mask = own(SHOWN);
    mask.sin_addr.s_addr = u32::from_ne_bytes([255, 255, 255, 0]);
    let interface = libc::ifaddrs {
        ifa_next: ptr::null_mut(),
        ifa_name: INTERFACE.as_ptr().cast_mut(),
        ifa_flags: (libc::IFF_UP | libc::IFF_RUNNING) as c_uint,
        ifa_addr: address.cast(),
        ifa_netmask: Box::into_raw(Box::new(mask)).cast(),
        ifa_ifu: ptr::null_mut(),
        ifa_data: ptr::null_mut::<c_void>(),
    };
    // SAFETY: NCCL gives an address for the list. The few bytes are never freed.
    unsafe { out.write(Box::into_raw(Box::new(interface))) };
    0
}

unsafe extern "C" fn free_interfaces(list: *mut libc::ifaddrs) {
    if !is_host() {
        // SAFETY: as the caller of this function.
        unsafe { libc::freeifaddrs(list) }
    }
}

/// The functions that are redirected.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "bind" => bind,
        "connect" => connect,
        "getsockname" => socket_name,
        "getifaddrs" => interfaces,
        "freeifaddrs" => free_interfaces,
    }
}
