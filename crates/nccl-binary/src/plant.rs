//! Planted faults: calls of NCCL that fail, wait or end the process instead of being done.
//!
//! A call is planted where NCCL finds the function: a few instructions in front of it ask whether
//! this call has a fault. NCCL's own code is not changed.

use std::ffi::c_int;
use std::ptr;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A line of a log that begins so is not NCCL's. This one says that a planted call was made.
pub(crate) const MARK: &str = "topo: planted ";

/// Bytes of a page.
const PAGE: usize = 4096;

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plant {
    /// The function: of the CUDA runtime, the driver, NVML, verbs or the C library.
    pub function: String,
    /// What its calls do.
    pub effect: Effect,
    /// The first and the last such call of the process, from 1.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// What a call does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Returns a number, such as a CUDA error.
    Returns(i64),
    /// Fails as functions of the C library and verbs do, with this error number.
    Fails(c_int),
    /// Returns a CUDA error, as all later calls of the CUDA runtime do.
    Sticks(i64),
    /// Kills the process.
    Kills,
    /// Never returns.
    Hangs,
}

/// The error numbers that faults have.
const ERRORS: [(&str, c_int); 24] = [
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("EIO", libc::EIO),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("ENODEV", libc::ENODEV),
    ("EINVAL", libc::EINVAL),
    ("ENFILE", libc::ENFILE),
    ("EMFILE", libc::EMFILE),
    ("ENOSPC", libc::ENOSPC),
    ("EROFS", libc::EROFS),
    ("EPIPE", libc::EPIPE),
    ("ENOSYS", libc::ENOSYS),
    ("EPROTO", libc::EPROTO),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EADDRINUSE", libc::EADDRINUSE),
    ("EADDRNOTAVAIL", libc::EADDRNOTAVAIL),
    ("ENETUNREACH", libc::ENETUNREACH),
    ("ECONNRESET", libc::ECONNRESET),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("EHOSTUNREACH", libc::EHOSTUNREACH),
];

impl FromStr for Plant {
    type Err = String;

    /// Reads `FUNCTION EFFECT [FIRST [LAST]]`; the effect is a number, an error number's name,
    /// `sticky:NUMBER`, `kill` or `hang`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (Some(function), Some(effect)) = (words.next(), words.next()) else {
            return Err(format!("`{text}`: expected FUNCTION EFFECT [FIRST [LAST]]"));
        };
        let known = ERRORS.iter().find(|(name, _)| *name == effect);
        let number = |text: &str| text.parse().ok();
        let effect = match (effect, effect.strip_prefix("sticky:")) {
            ("kill", _) => Some(Effect::Kills),
            ("hang", _) => Some(Effect::Hangs),
            (_, Some(code)) => number(code).map(Effect::Sticks),
            _ => known
                .map(|(_, error)| Effect::Fails(*error))
                .or_else(|| number(effect).map(Effect::Returns)),
        };
        let mut count = |default| words.next().map_or(Ok(default), str::parse);
        let numbers = count(1).and_then(|first| Ok((first, count(u64::MAX)?)));
        let numbers: Option<(u64, u64)> = numbers.ok();
        let (Some(effect), Some((first, last))) = (effect, numbers) else {
            return Err(format!("`{text}`: no such effect or count"));
        };
        Ok(Self {
            function: function.to_owned(),
            effect,
            first,
            last,
        })
    }
}

struct Planted {
    plant: Plant,
    calls: AtomicU64,
}

static PLANTED: OnceLock<Vec<Planted>> = OnceLock::new();

/// The error that all functions of the CUDA runtime return; 0 for none.
static STUCK: AtomicU64 = AtomicU64::new(0);

/// Plants faults of this process, before NCCL's library is loaded.
pub(crate) fn plant(plants: Vec<Plant>) {
    let planted = plants.into_iter().map(|plant| Planted {
        plant,
        calls: AtomicU64::new(0),
    });
    // A process has one script.
    let _ = PLANTED.set(planted.collect());
}

fn planted() -> &'static [Planted] {
    PLANTED.get().map_or(&[], Vec::as_slice)
}

/// The functions that have faults.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    planted().iter().map(|it| it.plant.function.as_str())
}

/// Whether a function can return an error that sticks.
fn can_stick(name: &str) -> bool {
    let is_query = name.starts_with("cudaGetError") || name.ends_with("LastError");
    let sticks = |it: &Planted| matches!(it.plant.effect, Effect::Sticks(_));
    name.starts_with("cuda") && !is_query && planted().iter().any(sticks)
}

/// What a call does instead of its work, if it has a fault; it is counted.
pub(crate) fn effect(name: &str) -> Option<Effect> {
    let own = planted().iter().find_map(|it| {
        let number = match it.plant.function == name {
            true => it.calls.fetch_add(1, Ordering::Relaxed) + 1,
            false => return None,
        };
        (it.plant.first..=it.plant.last)
            .contains(&number)
            .then_some((it.plant.effect, number == it.plant.first))
    });
    let Some((effect, is_first)) = own else {
        let stuck = STUCK.load(Ordering::Relaxed) as i64;
        return (stuck != 0 && can_stick(name)).then_some(Effect::Returns(stuck));
    };
    if is_first {
        let line = format!("{MARK}{name}\n");
        // SAFETY: writes the bytes of the line at once, so that no other line is within it.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
    if let Effect::Sticks(code) = effect {
        STUCK.store(code as u64, Ordering::Relaxed);
    }
    Some(effect)
}

/// What the instructions in front of a function are told, in two registers.
#[repr(C)]
struct Answer {
    is_planted: u64,
    value: u64,
}

/// The result of a function that fails with an error number.
fn failed(name: &str, error: c_int) -> i64 {
    const POINTERS: [&str; 6] = [
        "ibv_alloc_",
        "ibv_create_",
        "ibv_get_device_list",
        "ibv_open_",
        "ibv_reg_",
        "fopen",
    ];
    const NUMBERS: [&str; 4] = ["pthread_", "ibv_modify_", "ibv_query_", "post_"];
    let begins = |list: &[&str]| list.iter().any(|begin| name.starts_with(begin));
    if begins(&NUMBERS) {
        return error.into();
    }
    // SAFETY: the address of this thread's error number is always valid.
    unsafe { *libc::__errno_location() = error };
    if begins(&POINTERS) { 0 } else { -1 }
}

unsafe extern "C" fn ask(name: *const u8, length: usize) -> Answer {
    // SAFETY: `of` gives a name that is never freed.
    let name = unsafe { std::slice::from_raw_parts(name, length) };
    let name = str::from_utf8(name).unwrap_or_default();
    let value = match effect(name) {
        None => {
            return Answer {
                is_planted: 0,
                value: 0,
            };
        }
        Some(Effect::Returns(value) | Effect::Sticks(value)) => value,
        Some(Effect::Fails(error)) => failed(name, error),
        // SAFETY: ends this process.
        Some(Effect::Kills) => unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }.into(),
        Some(Effect::Hangs) => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
    };
    Answer {
        is_planted: 1,
        value: value as u64,
    }
}

/// Saves the registers of arguments, and `rax`, in which variadic functions get a count.
const SAVE: [u8; 9] = [0x57, 0x56, 0x52, 0x51, 0x41, 0x50, 0x41, 0x51, 0x50];
/// Restores them.
const RESTORE: [u8; 9] = [0x58, 0x41, 0x59, 0x41, 0x58, 0x59, 0x5a, 0x5e, 0x5f];
/// `mov rax, rdx; add rsp, 56; ret`.
const RETURN: [u8; 8] = [0x48, 0x89, 0xd0, 0x48, 0x83, 0xc4, 56, 0xc3];
/// `add rsp, 56`.
const DROP: [u8; 4] = [0x48, 0x83, 0xc4, 56];
/// `jmp r11`.
const JUMP: [u8; 3] = [0x41, 0xff, 0xe3];

/// `mov REGISTER, number`, of a register that the two bytes name.
fn load(register: [u8; 2], number: usize) -> [u8; 10] {
    let mut code = [0; 10];
    code[..2].copy_from_slice(&register);
    code[2..].copy_from_slice(&number.to_le_bytes());
    code
}

/// The name of the C++ library's function that starts threads, whose faults are exceptions.
pub(crate) const THREAD: &str = "std::thread";

/// The address at which a function is found: that of code that asks for faults first, or its own
/// one if it has none.
pub(crate) fn of(name: &str, address: usize) -> usize {
    of_throwing(name, address, None)
}

/// As [`of`], of a function whose planted calls continue in one that throws an error number.
pub(crate) fn of_throwing(name: &str, address: usize, throws: Option<usize>) -> usize {
    if !names().any(|it| it == name) && !can_stick(name) {
        return address;
    }
    // The code names it until the process ends.
    let name: &'static str = String::from(name).leak();
    let mut code = SAVE.to_vec();
    code.extend(load([0x48, 0xbf], name.as_ptr().addr())); // rdi
    code.extend(load([0x48, 0xbe], name.len())); // rsi
    code.extend(load([0x49, 0xbb], ask as *const () as usize)); // r11
    code.extend([0x41, 0xff, 0xd3]); // call r11
    code.extend([0x48, 0x85, 0xc0]); // test rax, rax
    code.extend([0x75, (RESTORE.len() + 10 + JUMP.len()) as u8]); // jne
    code.extend(RESTORE);
    code.extend(load([0x49, 0xbb], address));
    code.extend(JUMP);
    match throws {
        None => code.extend(RETURN),
        Some(throws) => {
            code.extend(DROP);
            code.extend(load([0x48, 0xbf], libc::EAGAIN as usize)); // rdi
            code.extend(load([0x49, 0xbb], throws));
            code.extend(JUMP);
        }
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses, which has room for the code.
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), PAGE, writable, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return address;
        }
        ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len());
        libc::mprotect(memory, PAGE, libc::PROT_READ | libc::PROT_EXEC);
        memory.addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let read = |text: &str| {
            text.parse::<Plant>()
                .map(|it| (it.effect, it.first, it.last))
        };
        assert_eq!(read("a 2"), Ok((Effect::Returns(2), 1, u64::MAX)));
        assert_eq!(
            read("a EMFILE 3 4"),
            Ok((Effect::Fails(libc::EMFILE), 3, 4))
        );
        assert_eq!(
            read("a sticky:700 2"),
            Ok((Effect::Sticks(700), 2, u64::MAX))
        );
        for wrong in ["a", "a EFOO", "a 1 x", "a sticky:x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn planted_calls_fail_and_others_are_done() {
        extern "C" fn sum(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64) -> i64 {
            a + 10 * b + 100 * c + 1000 * d + 10_000 * e + 100_000 * f
        }
        type Sum = extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64;
        plant(vec![
            "sum 7 2 2".parse().unwrap(),
            "close ENOSPC".parse().unwrap(),
        ]);
        let address = sum as *const () as usize;
        assert_eq!(of("other", address), address);
        let [sum, close] = ["sum", "close"].map(|name| of(name, address));
        // SAFETY: the code ends in a function of this type.
        let [sum, close] = [sum, close].map(|it| unsafe { std::mem::transmute::<usize, Sum>(it) });
        let called = [(); 3].map(|()| sum(1, 2, 3, 4, 5, 6));
        assert_eq!(called, [654_321, 7, 654_321]);
        assert_eq!(close(0, 0, 0, 0, 0, 0), -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
