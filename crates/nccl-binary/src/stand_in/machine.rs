//! The machine itself, of which NCCL finds out nothing. The file says what it
//! needs, and devices or processors of this machine would mix with those of the file.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::driver::put_text;
use super::{Presented, presented, verbs};

/// Where the system describes its devices and processors.
const DEVICES: &str = "/sys";

/// What the kernel of this machine said.
const KERNEL_LOG: &str = "/dev/kmsg";

/// A text of NCCL's.
///
/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says that it is a C string.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

pub(super) fn set_errno(number: c_int) {
    // SAFETY: the address of this thread's error number is always valid.
    unsafe { *libc::__errno_location() = number };
}

/// Whether a path is hidden from NCCL.
///
/// # Safety
/// `path` is null or a C string.
pub(super) unsafe fn is_hidden(path: *const c_char) -> bool {
    // SAFETY: the caller says so.
    let path = unsafe { text(path) }.unwrap_or_default();
    let rest = path.strip_prefix(DEVICES);
    let hidden =
        path == KERNEL_LOG || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if hidden {
        set_errno(libc::ENOENT);
    }
    hidden
}

unsafe extern "C" fn real_path(path: *const c_char, to: *mut c_char) -> *mut c_char {
    // SAFETY: NCCL gives a C string.
    if let Some(device) = unsafe { text(path) }.and_then(verbs::device_path) {
        // SAFETY: a new C string; NCCL frees it.
        return unsafe { libc::strdup(device.as_ptr()) };
    }
    // SAFETY: NCCL gives a C string, and null or room for a path.
    unsafe {
        match is_hidden(path) {
            true => ptr::null_mut(),
            false => libc::realpath(path, to),
        }
    }
}

unsafe extern "C" fn open_folder(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: NCCL gives a C string.
    unsafe {
        match is_hidden(path) {
            true => ptr::null_mut(),
            false => libc::opendir(path),
        }
    }
}

unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: NCCL gives a C string.
    if unsafe { text(path) }.is_some_and(verbs::is_device) {
        return 0;
    }
    // SAFETY: NCCL gives a C string.
    unsafe {
        match is_hidden(path) {
            true => -1,
            false => libc::access(path, mode),
        }
    }
}

unsafe extern "C" fn read_link(
    path: *const c_char,
    to: *mut c_char,
    bytes: usize,
) -> libc::ssize_t {
    // SAFETY: NCCL gives a C string and room for so many bytes.
    unsafe {
        match is_hidden(path) {
            true => -1,
            false => libc::readlink(path, to, bytes),
        }
    }
}

/// The host's name: that of `NCCL_HOSTID`, since all hosts are processes of this machine.
unsafe extern "C" fn host_name(to: *mut c_char, bytes: usize) -> c_int {
    // SAFETY: the name is a C string.
    let name = unsafe { libc::getenv(c"NCCL_HOSTID".as_ptr()) };
    // SAFETY: the value is null or a C string.
    let name = unsafe { text(name) }.unwrap_or("host");
    // SAFETY: NCCL gives room for so many bytes.
    unsafe { put_text(to, bytes, name) };
    0
}

/// The file's processors are others than this machine's: a thread that asks for them stays where
/// it is.
extern "C" fn set_affinity(_: libc::pid_t, _: usize, _: *const c_void) -> c_int {
    0
}

/// The functions that are redirected.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "realpath" => real_path,
        "opendir" => open_folder,
        "access" => access,
        "readlink" => read_link,
        "gethostname" => host_name,
        "sched_setaffinity" => set_affinity,
    }
}
