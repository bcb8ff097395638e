//! Whose code a crash was in: NCCL's own, or that of the stand-ins, which are part of this program.
//!
//! A handler writes one line to the log before the process ends as it would have without it.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::elf::Elf;

/// How a line begins whose crash was in the library. The address follows, from where the library
/// is loaded.
const IN_LIBRARY: &str = "topo: a crash in the library at ";

/// How a line begins whose crash was in this program.
const IN_PROGRAM: &str = "topo: a crash in the stand-ins at ";

/// The signals of a crash.
pub const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
];

/// Words of the stack in which a caller is looked for.
const STACK_WORDS: usize = 512;

/// Bytes of the longest line.
const LINE_BYTES: usize = 64;

/// Addresses from where a file is loaded to its end.
struct Range {
    begin: AtomicUsize,
    end: AtomicUsize,
}

impl Range {
    const fn nowhere() -> Self {
        Self {
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    fn set(&self, maps: &str, file: &Path) {
        let of_file = maps.lines().filter(|line| {
            let path = line.splitn(6, ' ').nth(5).map(str::trim_start);
            path.is_some_and(|path| Path::new(path) == file)
        });
        let ends = of_file.filter_map(|line| line.split_once(' ')?.0.split_once('-'));
        let address = |text| usize::from_str_radix(text, 16).ok();
        let ends = ends.filter_map(|(begin, end)| Some((address(begin)?, address(end)?)));
        let (begins, ends): (Vec<_>, Vec<_>) = ends.unzip();
        if let (Some(begin), Some(end)) = (begins.iter().min(), ends.iter().max()) {
            self.begin.store(*begin, Ordering::Relaxed);
            self.end.store(*end, Ordering::Relaxed);
        }
    }

    /// The address, from where the file is loaded.
    fn offset(&self, address: usize) -> Option<usize> {
        let begin = self.begin.load(Ordering::Relaxed);
        let is_within = address >= begin && address < self.end.load(Ordering::Relaxed);
        is_within.then(|| address - begin)
    }
}

static LIBRARY: Range = Range::nowhere();
static PROGRAM: Range = Range::nowhere();

/// Lets crashes from now on tell whose code they are in.
pub fn watch(library: &Path) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // The kernel names files without symbolic links.
    LIBRARY.set(&maps, &library.canonicalize().unwrap_or_default());
    PROGRAM.set(&maps, &std::env::current_exe().unwrap_or_default());
    for signal in SIGNALS {
        // SAFETY: all zeros is an action without a handler and flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = tell as *const () as usize;
        // The second time the signal ends the process.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_ONSTACK;
        // SAFETY: the handler only reads memory of the process and writes a line.
        unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    }
}

unsafe extern "C" fn tell(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives the registers of the thread that crashed.
    let found = unsafe { owner(context.cast()) };
    let Some((begin, address)) = found else {
        return;
    };
    let mut line = [0; LINE_BYTES];
    let mut length = 0;
    let mut push = |byte: u8| {
        if let Some(room) = line.get_mut(length) {
            *room = byte;
            length += 1;
        }
    };
    begin.bytes().for_each(&mut push);
    let digits = (0..usize::BITS / 4).rev();
    let digits = digits.map(|digit| address >> (4 * digit) & 0xf);
    digits.for_each(|digit| push(b"0123456789abcdef"[digit]));
    push(b'\n');
    // SAFETY: a line of this function.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length) };
}

/// The code that crashed; for code of others, such as the C library's, its nearest caller.
///
/// # Safety
/// `context` has the registers of a stopped thread.
#[cfg(target_arch = "x86_64")]
unsafe fn owner(context: *const libc::ucontext_t) -> Option<(&'static str, usize)> {
    let of = |address: usize| {
        let in_library = LIBRARY.offset(address).map(|offset| (IN_LIBRARY, offset));
        in_library.or_else(|| Some((IN_PROGRAM, PROGRAM.offset(address)?)))
    };
    // SAFETY: the caller says so.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let stack = ptr::without_provenance::<usize>(registers[libc::REG_RSP as usize] as usize);
    of(registers[libc::REG_RIP as usize] as usize).or_else(|| {
        // SAFETY: the words of the thread's stack. Beyond its end the process ends without a line.
        let words = (0..STACK_WORDS).map(|at| unsafe { stack.wrapping_add(at).read_volatile() });
        words.into_iter().find_map(of)
    })
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn owner(_: *const libc::ucontext_t) -> Option<(&'static str, usize)> {
    None
}

/// Whether the line of a log is one of these.
pub fn is_line(line: &str) -> bool {
    line.starts_with(IN_LIBRARY) || line.starts_with(IN_PROGRAM)
}

/// Whose code crashed, from the lines of a log, as the middle of a sentence.
pub fn told(log: &[String], library: &Path) -> Option<String> {
    let line = log.iter().find(|line| is_line(line))?;
    let Some(address) = line.strip_prefix(IN_LIBRARY) else {
        return Some("in topo's stand-ins, which is a fault of topo,".to_owned());
    };
    let address = u64::from_str_radix(address.trim(), 16).ok();
    let elf = Elf::read(library).unwrap_or_default();
    let named = elf.functions.iter().find(|it| {
        address.is_some_and(|address| (it.address..it.address + it.bytes).contains(&address))
    });
    Some(match named {
        Some(function) => format!("in NCCL's own function {},", plain(&function.name)),
        None => "in NCCL's own code,".to_owned(),
    })
}

/// The name of a C++ function without its types; the whole text if it is no such name.
fn plain(name: &str) -> &str {
    let rest = name.strip_prefix("_Z").unwrap_or_default();
    let rest = rest.trim_start_matches(['L', 'N', 'K']);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length = rest[..digits].parse::<usize>().ok();
    let end = length.and_then(|length| digits.checked_add(length));
    end.and_then(|end| rest.get(digits..end))
        .filter(|plain| !plain.is_empty())
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_types() {
        let names = [
            ("_Z14ncclIbFinalizePv", "ncclIbFinalize"),
            ("_ZL4initP8ncclComm", "init"),
            ("ncclCommInitRank", "ncclCommInitRank"),
            ("_Z99short", "_Z99short"),
            ("_Z", "_Z"),
        ];
        for (name, expected) in names {
            assert_eq!(plain(name), expected);
        }
    }

    #[test]
    fn files_are_found_among_mappings() {
        let maps = "7f00-7f10 r--p 00000000 fe:00 12    /a b/libnccl.so.2\n\
                    7f10-7f30 r-xp 00010000 fe:00 12    /a b/libnccl.so.2\n\
                    7f40-7f50 rw-p 00000000 00:00 0 \n";
        let range = Range::nowhere();
        range.set(maps, Path::new("/a b/libnccl.so.2"));
        assert_eq!(range.offset(0x7f2f), Some(0x2f));
        assert_eq!((range.offset(0x7f30), range.offset(0x7eff)), (None, None));
    }
}
