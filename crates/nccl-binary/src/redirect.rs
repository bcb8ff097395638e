//! Loads NCCL's library and redirects its calls, in the memory of this process.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::elf::{Elf, Function};
use crate::error::Unusable;
use crate::plant;
use crate::stand_in::{self, Presented, find};

/// A jump to an address: `mov r11, address; jmp r11`.
pub const JUMP_BYTES: usize = 13;

/// Room of one function that is not presented: `mov rdi, name` and a jump.
const ABSENT_BYTES: usize = 32;

/// Functions begin at multiples of it: the System V ABI's compilers fill the bytes between. The
/// runtime of CUDA 13 has functions of 6 bytes, which only refuse.
const ALIGNMENT: u64 = 16;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A function that every NCCL exports; it tells where the library is loaded.
const ANCHOR: &CStr = c"ncclGetVersion";

/// The runtime's function of the meanings of errors, a table that needs no driver.
const ERROR_TEXT: &str = "cudaGetErrorString";

/// The functions that NCCL must export to be asked.
const NEEDED: [&str; 11] = [
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclGetErrorString",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclCommInitRank",
    "ncclAllReduce",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclReduce",
];

/// Reads a library and finds out whether its calls can be redirected.
///
/// # Errors
/// It cannot be asked.
pub fn examine(path: &Path) -> Result<Elf, Unusable> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Unusable::Platform);
    }
    let elf = Elf::read(path)?;
    for name in NEEDED {
        if !elf.exports.iter().any(|it| it.name == name) {
            return Err(Unusable::NoFunction(name));
        }
    }
    if let Some(name) = elf.needed.iter().find(|it| it.starts_with("libcudart.so")) {
        return Err(Unusable::DynamicRuntime(name.clone()));
    }
    let presented = stand_in::runtime_functions();
    let runtime: Vec<&Function> = runtime(&elf).collect();
    let known = presented.iter().filter(|(name, _)| {
        let is_known = |it: &&Function| it.name == *name;
        runtime.iter().any(is_known)
    });
    // Each build of the runtime has most of them.
    if known.count() * 2 < presented.len() {
        return Err(Unusable::Stripped);
    }
    let short = runtime.iter().find(|it| room(it) < JUMP_BYTES as u64);
    if let Some(short) = short {
        return Err(Unusable::TooShort {
            name: short.name.clone(),
            bytes: short.bytes,
            needed: JUMP_BYTES,
        });
    }
    Ok(elf)
}

/// Bytes from where a function begins to where the next one can begin.
const fn room(function: &Function) -> u64 {
    match function.address % ALIGNMENT {
        0 => function.bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT),
        _ => function.bytes,
    }
}

/// The functions of the CUDA runtime inside a library.
fn runtime(elf: &Elf) -> impl Iterator<Item = &Function> {
    elf.functions.iter().filter(|it| {
        let rest = it.name.strip_prefix("cuda");
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    })
}

/// NCCL's library with its calls redirected.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Loads a library and redirects its calls.
    ///
    /// # Errors
    /// It cannot be asked.
    ///
    /// # Safety
    /// The library's code runs in this process, which has no other threads and serves nothing else.
    pub unsafe fn load(path: &Path) -> Result<Self, Unusable> {
        let elf = examine(path)?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Unusable::NotLibrary)?;
        // SAFETY: the caller lets the library's code run.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Unusable::Load(load_error()));
        }
        let library = Self { handle };
        let anchor = elf
            .exports
            .iter()
            .find(|it| it.name.as_bytes() == ANCHOR.to_bytes());
        let anchor = anchor.ok_or(Unusable::NoFunction("ncclGetVersion"))?;
        let base = library.symbol(ANCHOR)?.addr() as u64 - anchor.address;
        // SAFETY: the functions and slots were read from the file that is loaded there.
        unsafe {
            redirect_functions(&elf, base)?;
            redirect_slots(&elf, handle, base)?;
        }
        Ok(library)
    }

    /// The address of a function that the library exports.
    ///
    /// # Errors
    /// There is none.
    pub fn symbol(&self, name: &'static CStr) -> Result<*mut c_void, Unusable> {
        // SAFETY: the library stays loaded.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        match found.is_null() {
            true => Err(Unusable::NoFunction(name.to_str().unwrap_or("…"))),
            false => Ok(found),
        }
    }
}

fn load_error() -> String {
    // SAFETY: the text stays until the next call for libraries on this thread.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return "the loader refuses it".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(error) }
        .to_string_lossy()
        .into_owned()
}

/// Makes bytes of the library accessible in another way.
///
/// # Safety
/// The pages belong to the library, and nothing runs in them.
unsafe fn protect(begin: u64, end: u64, protection: i32) -> Result<(), Unusable> {
    let first = begin / PAGE * PAGE;
    let bytes = end.next_multiple_of(PAGE) - first;
    let address = ptr::without_provenance_mut(first as usize);
    // SAFETY: the caller says so.
    match unsafe { libc::mprotect(address, bytes as usize, protection) } {
        0 => Ok(()),
        _ => Err(Unusable::NotWritable(std::io::Error::last_os_error())),
    }
}

fn jump(to: usize) -> [u8; JUMP_BYTES] {
    let mut code = [0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3];
    code[2..10].copy_from_slice(&to.to_le_bytes());
    code
}

/// Redirects the runtime's functions inside the library.
///
/// # Safety
/// The library is loaded at `base`, and none of its code runs.
unsafe fn redirect_functions(elf: &Elf, base: u64) -> Result<(), Unusable> {
    let presented = stand_in::runtime_functions();
    let runtime: Vec<&Function> = runtime(elf).collect();
    let absent: Vec<&str> = runtime
        .iter()
        .map(|it| it.name.as_str())
        .filter(|name| find(&presented, name).is_none() && *name != ERROR_TEXT)
        .collect();
    let absent = absent_functions(&absent)?;
    let begin = runtime.iter().map(|it| base + it.address).min();
    let end = runtime.iter().map(|it| base + it.address + it.bytes).max();
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(Unusable::Stripped);
    };
    let text = runtime.iter().find(|it| it.name == ERROR_TEXT);
    stand_in::error_texts_at(text.map_or(0, |it| (base + it.address) as usize));
    let targets = runtime.iter().filter_map(|it| {
        let to = find(&presented, &it.name).or_else(|| find(&absent, &it.name))?;
        Some((base + it.address, plant::of(&it.name, to)))
    });
    // SAFETY: the range is code of the library, which does not run; each function has room for a
    // jump, as `examine` found.
    unsafe {
        protect(begin, end, libc::PROT_READ | libc::PROT_WRITE)?;
        for (at, to) in targets {
            let code = ptr::without_provenance_mut::<u8>(at as usize);
            ptr::copy_nonoverlapping(jump(to).as_ptr(), code, JUMP_BYTES);
        }
        protect(begin, end, libc::PROT_READ | libc::PROT_EXEC)
    }
}

/// Called instead of a runtime's function that is not presented.
unsafe extern "C" fn is_absent(name: *const std::ffi::c_char) -> i32 {
    const NOT_SUPPORTED: i32 = 801;
    // SAFETY: `absent_functions` gives a name.
    stand_in::keep_missing(&unsafe { CStr::from_ptr(name) }.to_string_lossy());
    NOT_SUPPORTED
}

/// Makes a function for each name that says so and fails.
fn absent_functions(names: &[&str]) -> Result<Vec<(&'static str, usize)>, Unusable> {
    let bytes = (names.len() * ABSENT_BYTES)
        .next_multiple_of(PAGE as usize)
        .max(PAGE as usize);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, writable, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(Unusable::NotWritable(std::io::Error::last_os_error()));
    }
    let mut functions: Vec<Presented> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let text = CString::new(*name).unwrap_or_default();
        // The process ends soon, and the code names it until then.
        let text: &'static CStr = Box::leak(text.into_boxed_c_str());
        let code = memory.wrapping_byte_add(number * ABSENT_BYTES).cast::<u8>();
        let mut bytes = vec![0x48, 0xbf];
        bytes.extend(text.as_ptr().addr().to_le_bytes());
        bytes.extend(jump(is_absent as *const () as usize));
        // SAFETY: the mapping has room for each name's code.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), code, bytes.len()) };
        functions.push((text.to_str().unwrap_or_default(), code.addr()));
    }
    // SAFETY: the mapping is ours, and complete.
    match unsafe { libc::mprotect(memory, bytes, libc::PROT_READ | libc::PROT_EXEC) } {
        0 => Ok(functions),
        _ => Err(Unusable::NotWritable(std::io::Error::last_os_error())),
    }
}

/// Redirects the library's imports of the C library.
///
/// # Safety
/// The library is loaded at `base`, and none of its code runs.
unsafe fn redirect_slots(elf: &Elf, handle: *mut c_void, base: u64) -> Result<(), Unusable> {
    let presented = stand_in::process_functions();
    for slot in &elf.slots {
        let name = match slot.name.as_str() {
            START_THREAD => plant::THREAD,
            name => name,
        };
        let to = match find(&presented, name) {
            None if plant::names().any(|it| it == name) => of_process(handle, &slot.name),
            to => to,
        };
        let throws = match name {
            plant::THREAD => of_process(handle, THROW),
            _ => None,
        };
        let Some(to) = to.map(|to| plant::of_throwing(name, to, throws)) else {
            continue;
        };
        let at = base + slot.address;
        // SAFETY: a slot of the library, as its relocations say. It stays writable: other slots of
        // the page may be bound later.
        unsafe {
            protect(at, at + 8, libc::PROT_READ | libc::PROT_WRITE)?;
            ptr::without_provenance_mut::<usize>(at as usize).write(to);
        }
    }
    Ok(())
}

/// The C++ library's functions that start a thread and that throw an error number.
const START_THREAD: &str =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";
const THROW: &str = "_ZSt20__throw_system_errori";

/// The address of a function of a library that NCCL's needs.
fn of_process(handle: *mut c_void, name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a name up in a library that stays loaded.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!found.is_null()).then(|| found.addr())
}
