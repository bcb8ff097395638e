//! The functions of `topo.h`. Each is checked, and no panic leaves it.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use toporing::communicator::{Arguments, Code, Comm, Fault, Launch, Reduction, Transport, free_id};

use toporing::communicator::call_site;

use crate::handles::{forget, keep, of};
use crate::last::call;
use crate::numbers;
use crate::options::{self, parse, topo_id, topo_options, write};
use crate::pointers::{list, null, store};

/// What makes a library whose defects become errors.
const BUILD: &str = "build the library with `cargo build -p capi --profile library`";

/// The version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn topo_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Makes a unique id, which a rank of this process must use.
///
/// # Safety
/// `id` is null or writable; `options` is as for [`topo_comm_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_unique_id(id: *mut topo_id, options: *const topo_options) -> c_int {
    call(|| {
        // SAFETY: the caller says that it is valid.
        let options = unsafe { options::read(options) }?;
        let made = write(&options.new_id()?)?;
        // SAFETY: the caller says that it is writable.
        unsafe { store(id, made, "id") }
    })
}

/// Frees an id with which no rank of this process joins.
///
/// # Safety
/// `id` is null or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_unique_id_free(id: *const topo_id) -> c_int {
    call(|| {
        // SAFETY: the caller says that it is readable.
        free_id(&parse(unsafe { id.as_ref() }.ok_or_else(|| null("id"))?)?)
    })
}

/// Joins a communicator.
///
/// # Safety
/// `comm` is null or writable, `id` null or readable; `options` is null or points to options whose
/// texts are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_comm_init(
    comm: *mut *mut Comm,
    id: *const topo_id,
    rank: u32,
    ranks: u32,
    options: *const topo_options,
) -> c_int {
    call(|| {
        // SAFETY: the caller says that it is readable.
        let id = parse(unsafe { id.as_ref() }.ok_or_else(|| null("id"))?)?;
        // SAFETY: the caller says that it is valid.
        let options = unsafe { options::read(options) }?;
        if comm.is_null() {
            return Err(null("comm"));
        }
        Fault::check_unwinding(BUILD)?;
        let made = keep(Comm::join(&id, rank, ranks, &options)?);
        // SAFETY: the caller says that it is writable.
        unsafe { store(comm, made, "comm") }
    })
}

/// Splits a communicator.
///
/// # Safety
/// `part` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_comm_split(
    comm: *const Comm,
    color: i32,
    order: i32,
    part: *mut *mut Comm,
) -> c_int {
    call(|| {
        if part.is_null() {
            return Err(null("part"));
        }
        let made = of(comm)?.split(color, order)?;
        let made = made.map_or(std::ptr::null_mut(), keep);
        // SAFETY: the caller says that it is writable.
        unsafe { store(part, made, "part") }
    })
}

/// Ends a communicator, when everything that was started is done.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_destroy(comm: *mut Comm) -> c_int {
    call(|| {
        if comm.is_null() {
            return Ok(Code::Ok);
        }
        of(comm)?.finish()?;
        forget(comm).map(|_| Code::Ok)
    })
}

/// Makes a communicator fail on all ranks. Any thread may call it at any time.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_abort(comm: *const Comm) -> c_int {
    call(|| of(comm)?.abort())
}

/// The own rank, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_rank(comm: *const Comm) -> c_int {
    of(comm).map_or(-1, |it| it.shared.rank as c_int)
}

/// The number of ranks, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_ranks(comm: *const Comm) -> c_int {
    of(comm).map_or(-1, |it| it.shared.ranks as c_int)
}

/// How this rank reaches another, or null.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_transport(comm: *const Comm, rank: u32) -> *const c_char {
    let transport = of(comm)
        .ok()
        .and_then(|it| it.transports.get(rank as usize).copied());
    let name = transport.map(|it| match it {
        Transport::P2p => c"P2P",
        Transport::Shm => c"SHM",
        Transport::Net => c"NET",
    });
    name.map_or(std::ptr::null(), std::ffi::CStr::as_ptr)
}

/// Channels over which collectives may run, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_channels(comm: *const Comm) -> c_int {
    of(comm).map_or(-1, |it| c_int::from(it.channels))
}

/// Runs a collective.
///
/// # Safety
/// The buffers are null or as long as the collective needs, and
/// nobody else writes to the input or uses the output before the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_run(
    comm: *const Comm,
    collective: c_int,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    root: u32,
) -> c_int {
    call(|| {
        let comm = of(comm)?;
        let launch = RunArguments {
            collective,
            input,
            output,
            count,
            element,
            operation,
            root,
        };
        comm.run(launch.read(&comm)?)
    })
}

/// Starts a collective in the background.
///
/// # Safety
/// As for [`topo_run`], until a wait or a test said that it is done; `work` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start(
    comm: *const Comm,
    collective: c_int,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    root: u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let comm = of(comm)?;
        let launch = RunArguments {
            collective,
            input,
            output,
            count,
            element,
            operation,
            root,
        };
        if work.is_null() {
            return Err(null("work"));
        }
        let number = comm.start(launch.read(&comm)?)?;
        // SAFETY: the caller says that it is writable.
        unsafe { store(work, number, "work") }
    })
}

/// Sets the longest wait of the calls that follow, ms; 0 is that of the options.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_timeout(comm: *const Comm, timeout_ms: u32) -> c_int {
    let longest = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into()));
    call(|| of(comm)?.set_longest_wait(longest))
}

/// Says where the next call of this thread is.
///
/// # Safety
/// `file` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_call_site(file: *const c_char, line: u32) -> c_int {
    call(|| {
        // SAFETY: the caller says that it ends with a zero.
        let file = unsafe { options::text(file) }.ok_or_else(|| null("file"))?;
        call_site::set(&file, line);
        Ok(Code::Ok)
    })
}

/// Asks whether work is done: `TOPO_OK`, `TOPO_PENDING` or its error. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn topo_test(comm: *const Comm, work: u64) -> c_int {
    await_work(comm, work, Some(0))
}

/// Waits until work is done. Any thread may wait.
#[unsafe(no_mangle)]
pub extern "C" fn topo_wait(comm: *const Comm, work: u64) -> c_int {
    await_work(comm, work, None)
}

/// As [`topo_wait`], but returns `TOPO_PENDING` after a time.
#[unsafe(no_mangle)]
pub extern "C" fn topo_wait_for(comm: *const Comm, work: u64, longest_ms: u32) -> c_int {
    await_work(comm, work, Some(longest_ms))
}

/// Waits until all works are done.
///
/// # Safety
/// `works` is null or has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_wait_all(
    comm: *const Comm,
    works: *const u64,
    count: usize,
) -> c_int {
    call(|| {
        let comm = of(comm)?;
        comm.check_process()?;
        // SAFETY: the caller says so.
        let works = unsafe { list(works, count) }?;
        let mut first = Ok(Code::Ok);
        for work in works.iter().filter(|it| **it != 0) {
            first = first.and(comm.shared.await_job(*work, None));
        }
        first
    })
}

/// Waits until any of the works is done.
///
/// # Safety
/// `works` is null or has `count` numbers; `at` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_wait_any(
    comm: *const Comm,
    works: *const u64,
    count: usize,
    at: *mut usize,
) -> c_int {
    call(|| {
        let comm = of(comm)?;
        comm.check_process()?;
        if at.is_null() {
            return Err(null("at"));
        }
        // SAFETY: the caller says so.
        let (place, ended) = comm.shared.await_any(unsafe { list(works, count) }?)?;
        // SAFETY: the caller says that it is writable.
        unsafe { store(at, place, "at") }?;
        ended.map(|()| Code::Ok)
    })
}

/// Allocates memory that other ranks can access.
///
/// # Safety
/// `memory` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_alloc(
    comm: *const Comm,
    bytes: usize,
    memory: *mut *mut c_void,
) -> c_int {
    call(|| {
        if memory.is_null() {
            return Err(null("memory"));
        }
        let allocated = of(comm)?.allocate(bytes)?;
        // SAFETY: the caller says that it is writable.
        unsafe { store(memory, allocated.cast(), "memory") }
    })
}

/// Frees memory that [`topo_alloc`] returned.
///
/// # Safety
/// `comm` is null or a communicator; nobody uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_free(comm: *const Comm, memory: *mut c_void) -> c_int {
    call(|| {
        if memory.is_null() {
            return Ok(Code::Ok);
        }
        of(comm)?.free(memory.cast())
    })
}

/// The arguments of [`topo_run`].
pub(crate) struct RunArguments {
    pub collective: c_int,
    pub input: *const c_void,
    pub output: *mut c_void,
    pub count: usize,
    pub element: c_int,
    pub operation: c_int,
    pub root: u32,
}

impl RunArguments {
    pub fn read(&self, comm: &Comm) -> Result<Launch, Fault> {
        let collective = numbers::collective(self.collective)?;
        let arguments = Arguments {
            collective,
            input: self.input.cast(),
            output: self.output.cast(),
            count: self.count,
            element: numbers::element(self.element)?,
            operation: match collective.reduces() {
                true => numbers::operation(self.operation)?,
                false => Reduction::Sum,
            },
            root: self.root,
        };
        // SAFETY: the caller lends the memory until the call has ended (`topo.h`).
        unsafe { arguments.read(comm.shared.rank, comm.shared.ranks) }
    }
}

fn await_work(comm: *const Comm, work: u64, longest_ms: Option<u32>) -> c_int {
    call(|| {
        let comm = of(comm)?;
        comm.check_process()?;
        let longest = longest_ms.map(|it| Duration::from_millis(it.into()));
        comm.shared.await_job(work, longest)
    })
}
