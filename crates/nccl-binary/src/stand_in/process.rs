//! The C library's functions that NCCL finds redirected: it looks up only what is presented here,
//! reads no configuration file, and leaves no segment behind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::devices::devices;
use super::machine::{is_hidden, set_errno, text};
use super::{Presented, find, machine, memory, network, nvml, presented, sockets, tuner, verbs};
use crate::plant;

/// The library under which NCCL finds the net plug-in.
pub(crate) const NET_PLUGIN: &str = "libnccl-net-topo.so";

/// The library under which NCCL finds the tuner plug-in.
pub(crate) const TUNER_PLUGIN: &str = "libnccl-tuner-topo.so";

/// The libraries that are presented. Their handles are addresses that nobody reads.
const LIBRARIES: [(&str, usize); 4] = [
    (NVML, 0x10),
    (NET_PLUGIN, 0x20),
    (TUNER_PLUGIN, 0x30),
    (VERBS, 0x40),
];

const NVML: &str = "libnvidia-ml.so";

/// The library of InfiniBand's verbs, which is presented if a job wants NCCL's own transport.
const VERBS: &str = "libibverbs.so";

/// How the names of NCCL's segments begin.
const SEGMENTS: &str = "/dev/shm/nccl-";

/// Characters at the end of a template that `mkstemp` changes.
const SUFFIX: usize = 6;

/// How the names of NCCL's configuration files end.
const CONFIGURATION: &str = "nccl.conf";

/// A thread that has nothing to do waits this long, ns, so that ranks share few cores well. NCCL's
/// threads would ask again at once.
const IDLE_NS: i64 = 50_000;

thread_local! {
    /// Why the last look-up failed, for `dlerror`, and the text that it gave last.
    static FAILED: RefCell<[Option<CString>; 2]> = const { RefCell::new([None, None]) };
}

/// Keeps why a look-up failed, in the words of the system's loader.
fn keep_failure(failed: bool, why: impl FnOnce() -> String) {
    let why = failed.then(|| CString::new(why()).unwrap_or_default());
    FAILED.with_borrow_mut(|[kept, _]| *kept = why);
}

fn no_library(name: &str) -> String {
    format!("{name}: cannot open shared object file: No such file or directory")
}

static MISSING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The number in the name of the next segment.
static NEXT_SEGMENT: AtomicU32 = AtomicU32::new(0);

/// The tuner plug-in that was loaded instead of the stand-in.
static TUNER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Segments by name; they have no file.
static OPEN_SEGMENTS: Mutex<BTreeMap<String, OwnedFd>> = Mutex::new(BTreeMap::new());

/// The folder of the segments of a host with several processes, with a final slash.
static FOLDER: OnceLock<String> = OnceLock::new();

/// Keeps segments as files of a folder, where other processes find them.
pub(crate) fn keep_segments_in(folder: String) {
    // A process has one script.
    let _ = FOLDER.set(folder);
}

/// The path of a segment's file, if segments are files.
fn segment_file(name: &str) -> Option<CString> {
    let name = name.rsplit('/').next()?;
    CString::new(format!("{}{name}", FOLDER.get()?)).ok()
}

/// Keeps the name of a function that NCCL looked for and that is not presented.
pub(crate) fn keep_missing(name: &str) {
    let mut missing = MISSING.lock().unwrap_or_else(PoisonError::into_inner);
    if !missing.iter().any(|known| known == name) {
        missing.push(name.to_owned());
    }
}

/// The functions that NCCL looked for and that are not presented.
pub(crate) fn missing() -> Vec<String> {
    let missing = MISSING.lock().unwrap_or_else(PoisonError::into_inner);
    missing.clone()
}

fn segments() -> MutexGuard<'static, BTreeMap<String, OwnedFd>> {
    OPEN_SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn library(handle: *mut c_void) -> Option<&'static str> {
    let found = LIBRARIES.iter().find(|(_, known)| *known == handle.addr());
    found.map(|(name, _)| *name)
}

unsafe extern "C" fn open_library(name: *const c_char, _: c_int) -> *mut c_void {
    // SAFETY: NCCL gives a C string, or null for the program itself.
    let Some(wanted) = (unsafe { text(name) }) else {
        return ptr::null_mut();
    };
    if devices().tuner.as_deref() == Some(wanted) {
        return open_tuner(name);
    }
    let name = wanted;
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_there = |known: &str| match known {
        VERBS => devices().has_verbs && plant::effect(VERBS).is_none(),
        NVML => plant::effect(NVML).is_none(),
        _ => true,
    };
    let found = LIBRARIES
        .iter()
        .find(|(known, _)| file.starts_with(known) && is_there(known));
    keep_failure(found.is_none(), || no_library(name));
    found.map_or(ptr::null_mut(), |(_, handle)| {
        ptr::without_provenance_mut(*handle)
    })
}

/// Loads the tuner plug-in that is asked for instead of the stand-in.
fn open_tuner(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's text is a C string, and the library was made to be loaded by NCCL.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    // SAFETY: as above.
    let wanted = unsafe { text(name) }.unwrap_or_default();
    keep_failure(handle.is_null(), || no_library(wanted));
    TUNER.store(handle, Ordering::Relaxed);
    handle
}

unsafe extern "C" fn open_library_apart(_: i64, name: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: as the caller of this function.
    unsafe { open_library(name, flags) }
}

unsafe extern "C" fn symbol(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: NCCL gives a C string.
    let Some(wanted) = (unsafe { text(name) }) else {
        return ptr::null_mut();
    };
    if !handle.is_null() && handle == TUNER.load(Ordering::Relaxed) {
        // SAFETY: the handle is that of a library that stays loaded.
        let found = unsafe { libc::dlsym(handle, name) };
        keep_failure(found.is_null(), || format!("undefined symbol: {wanted}"));
        return found;
    }
    let found = match library(handle) {
        Some(NET_PLUGIN) => network::table(wanted),
        Some(TUNER_PLUGIN) => tuner::table(wanted),
        Some(library) => {
            let functions = match library {
                VERBS => verbs::functions(),
                _ => nvml::functions(),
            };
            let found = find(&functions, wanted).map(|it| plant::of(wanted, it));
            if found.is_none() {
                keep_missing(wanted);
            }
            found
        }
        None => None,
    };
    keep_failure(found.is_none(), || {
        format!(
            "{}: undefined symbol: {wanted}",
            library(handle).unwrap_or_default()
        )
    });
    ptr::without_provenance_mut(found.unwrap_or(0))
}

unsafe extern "C" fn versioned_symbol(
    handle: *mut c_void,
    name: *const c_char,
    _: *const c_char,
) -> *mut c_void {
    // SAFETY: as the caller of this function.
    unsafe { symbol(handle, name) }
}

extern "C" fn close_library(_: *mut c_void) -> c_int {
    0
}

extern "C" fn library_error() -> *const c_char {
    FAILED.with_borrow_mut(|[kept, given]| {
        *given = kept.take();
        given.as_ref().map_or(ptr::null(), |it| it.as_ptr())
    })
}

/// The first fields of `link_map`: where a library is loaded, and its name.
#[repr(C)]
struct Loaded {
    address: usize,
    name: *const c_char,
    rest: [usize; 3],
}

/// Tells the name of a presented library.
unsafe extern "C" fn library_information(
    handle: *mut c_void,
    wanted: c_int,
    out: *mut *const Loaded,
) -> c_int {
    let (Some(name), libc::RTLD_DI_LINKMAP) = (library(handle), wanted) else {
        keep_failure(true, || "dlinfo: no such library".to_owned());
        return -1;
    };
    // A few bytes for the rest of the process.
    let name = CString::new(name).unwrap_or_default().into_raw();
    let loaded = Box::leak(Box::new(Loaded {
        address: 0,
        name,
        rest: [0; 3],
    }));
    // SAFETY: the caller of `dlinfo` gives an address for the result.
    unsafe { out.write(loaded) };
    0
}

extern "C" fn pause() -> c_int {
    let wait = libc::timespec {
        tv_sec: 0,
        tv_nsec: IDLE_NS,
    };
    // SAFETY: a wait of a fixed time; how much was left is not asked.
    unsafe { libc::nanosleep(&wait, ptr::null_mut()) };
    0
}

/// Waits a little until a socket has something, after a call found nothing. Returns `true` if it
/// has.
fn wait_for(socket: c_int) -> bool {
    // SAFETY: the address of this thread's error number is always valid.
    let error = unsafe { *libc::__errno_location() };
    if error != libc::EAGAIN && error != libc::EWOULDBLOCK {
        return false;
    }
    let mut wanted = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    let wait = libc::timespec {
        tv_sec: 0,
        tv_nsec: IDLE_NS,
    };
    // SAFETY: one descriptor is waited for, for a fixed time.
    let ready = unsafe { libc::ppoll(&mut wanted, 1, &wait, ptr::null()) };
    set_errno(error);
    ready > 0
}

unsafe extern "C" fn set_memory(to: *mut c_void, value: c_int, bytes: usize) -> *mut c_void {
    // SAFETY: as the caller of this function.
    unsafe { memory::set(to, value as u8, bytes) };
    to
}

unsafe extern "C" fn receive(
    socket: c_int,
    to: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> libc::ssize_t {
    // SAFETY: as the caller of this function.
    match unsafe { libc::recv(socket, to, bytes, flags) } {
        // SAFETY: as above.
        -1 if wait_for(socket) => unsafe { libc::recv(socket, to, bytes, flags) },
        received => received,
    }
}

unsafe extern "C" fn accept(
    socket: c_int,
    address: *mut libc::sockaddr,
    bytes: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller of this function.
    let accepted = match unsafe { libc::accept(socket, address, bytes) } {
        // SAFETY: as above.
        -1 if wait_for(socket) => unsafe { libc::accept(socket, address, bytes) },
        accepted => accepted,
    };
    // SAFETY: as above.
    unsafe { sockets::show(address) };
    accepted
}

fn new_segment(name: String) -> c_int {
    let Ok(label) = CString::new(name.as_str()) else {
        return -1;
    };
    // SAFETY: the label is a C string.
    let file = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC) };
    if file >= 0 {
        // SAFETY: a copy of a descriptor that was just made.
        let kept = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
        if kept >= 0 {
            // SAFETY: the copy was just made, and nobody else has it.
            segments().insert(name, unsafe { OwnedFd::from_raw_fd(kept) });
        }
    }
    file
}

fn open_segment(name: &str, flags: c_int) -> c_int {
    if let Some(path) = segment_file(name) {
        // SAFETY: the path is a C string.
        return unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    }
    if let Some(kept) = segments().get(name) {
        // SAFETY: a copy of an open descriptor.
        return unsafe { libc::fcntl(kept.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
    }
    match flags & libc::O_CREAT {
        0 => {
            set_errno(libc::ENOENT);
            -1
        }
        _ => new_segment(name.to_owned()),
    }
}

/// A segment with a new name instead of a file.
unsafe extern "C" fn make_file(template: *mut c_char) -> c_int {
    // SAFETY: NCCL gives a C string that it can change.
    let name = unsafe { text(template) }.unwrap_or_default();
    if !name.starts_with(SEGMENTS) {
        // SAFETY: as the caller of this function.
        return unsafe { libc::mkstemp(template) };
    }
    if let Some(path) = segment_file(name) {
        let path = path.into_raw();
        // SAFETY: the path ends as the template, and is as much longer as its folder is; six
        // characters at the end of both are changed.
        unsafe {
            let file = libc::mkstemp(path);
            let made = CString::from_raw(path);
            let end = made.as_bytes().len() - SUFFIX;
            let to = template.add(name.len() - SUFFIX);
            ptr::copy_nonoverlapping(made.as_ptr().add(end), to, SUFFIX);
            return file;
        }
    }
    let number = NEXT_SEGMENT.fetch_add(1, Ordering::Relaxed);
    let Some(stem) = name.strip_suffix("XXXXXX") else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let name = format!("{stem}{number:06}");
    // SAFETY: the new name is as long as the template.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), template, name.len()) };
    new_segment(name)
}

/// `open`, whose third argument is only there for new files.
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: NCCL gives a C string.
    match unsafe { text(path) } {
        Some(name) if name.starts_with(SEGMENTS) => open_segment(name, flags),
        // SAFETY: as the caller of this function.
        _ if unsafe { is_hidden(path) } => -1,
        // SAFETY: as the caller of this function.
        _ => unsafe { libc::open(path, flags, mode) },
    }
}

unsafe extern "C" fn open_shared(name: *const c_char, flags: c_int, _: libc::mode_t) -> c_int {
    // SAFETY: NCCL gives a C string.
    let name = unsafe { text(name) }.unwrap_or_default();
    open_segment(name, flags)
}

unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: NCCL gives a C string.
    match unsafe { text(path) } {
        Some(name) if name.starts_with(SEGMENTS) => unlink_segment(name),
        // SAFETY: as the caller of this function.
        _ => unsafe { libc::unlink(path) },
    }
}

unsafe extern "C" fn unlink_shared(name: *const c_char) -> c_int {
    // SAFETY: NCCL gives a C string.
    unlink_segment(unsafe { text(name) }.unwrap_or_default())
}

fn unlink_segment(name: &str) -> c_int {
    if let Some(path) = segment_file(name) {
        // SAFETY: the path is a C string.
        return unsafe { libc::unlink(path.as_ptr()) };
    }
    segments().remove(name);
    0
}

unsafe extern "C" fn open_stream(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: NCCL gives C strings.
    match unsafe { text(path) } {
        Some(name) if name.ends_with(CONFIGURATION) => {
            set_errno(libc::ENOENT);
            ptr::null_mut()
        }
        // SAFETY: as the caller of this function.
        _ if unsafe { is_hidden(path) } => ptr::null_mut(),
        // SAFETY: as the caller of this function.
        _ => unsafe { libc::fopen(path, mode) },
    }
}

/// The functions that are redirected.
pub(crate) fn functions() -> Vec<Presented> {
    let own = presented! {
        "dlopen" => open_library,
        "dlmopen" => open_library_apart,
        "dlsym" => symbol,
        "dlvsym" => versioned_symbol,
        "dlclose" => close_library,
        "dlerror" => library_error,
        "dlinfo" => library_information,
        "sched_yield" => pause,
        "memset" => set_memory,
        "recv" => receive,
        "accept" => accept,
        "mkstemp" => make_file,
        "open" => open,
        "open64" => open,
        "shm_open" => open_shared,
        "shm_unlink" => unlink_shared,
        "unlink" => unlink,
        "fopen" => open_stream,
        "fopen64" => open_stream,
    };
    own.into_iter()
        .chain(machine::functions())
        .chain(sockets::functions())
        .collect()
}
