//! NCCL's library with several ranks on one GPU, so that its times stand beside those of these
//! kernels. Types and numbers are those of NCCL's `nccl.h`, which are stable within version 2.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use device_runtime::DeviceBuffer;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::device::{Device, Stream};
use crate::driver::Cuda;
use crate::error::words;
use crate::launch::LaunchEvents;
use crate::presence;

/// The first version that runs several ranks on one GPU, if `NCCL_MULTI_RANK_GPU_ENABLE` is 1. The
/// number is 10000 × major + 100 × minor + patch.
const FIRST: c_int = 23_000;

/// `ncclFloat32`
const FLOAT32: c_int = 7;

/// `ncclSum`
const SUM: c_int = 0;

/// A communicator.
type Comm = *mut c_void;

/// A collective with an operation or a root: input, output, elements, their type, the operation or
/// the root, communicator, stream.
type CallWithNumber = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    c_int,
    c_int,
    Comm,
    sys::CUstream,
) -> c_int;

/// The functions of a library.
struct Functions {
    last_error: unsafe extern "C" fn(Comm) -> *const c_char,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    init_all: unsafe extern "C" fn(*mut Comm, c_int, *const c_int) -> c_int,
    destroy: unsafe extern "C" fn(Comm) -> c_int,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    all_reduce: CallWithNumber,
    all_gather: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        Comm,
        sys::CUstream,
    ) -> c_int,
    broadcast: CallWithNumber,
}

/// A collective of `f32`; reductions are sums, and the root is rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NcclCall {
    /// `ncclAllReduce`
    AllReduce,
    /// `ncclAllGather`
    AllGather,
    /// `ncclBroadcast`
    Broadcast,
}

/// What NCCL's process needs: several ranks may share a GPU, and the blocks of all ranks run at
/// once, because they wait for each other. That is 104 blocks, because an A100 has 108
/// multiprocessors, and H100 and B200 have more; at most 32 a rank, as ours.
pub fn variables(ranks: u32) -> [(&'static str, String); 2] {
    let blocks = (104 / ranks.max(1)).clamp(1, 32);
    [
        ("NCCL_MULTI_RANK_GPU_ENABLE", "1".to_owned()),
        ("NCCL_MAX_CTAS", blocks.to_string()),
    ]
}

/// A rank: its communicator and its stream.
struct Rank {
    comm: Comm,
    stream: Stream,
    events: LaunchEvents,
}

/// Ranks of NCCL that share a GPU, all in this thread.
pub struct Nccl {
    functions: Functions,
    device: Arc<Device>,
    ranks: Vec<Rank>,
    /// NCCL's version.
    pub version: String,
}

/// Finds a function.
///
/// # Safety
/// `F` is its type.
unsafe fn find<F: Copy>(library: &Library, path: &Path, name: &str) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    let missing = |_| {
        format!(
            "{} has no function {name}; give libnccl.so.2",
            path.display()
        )
    };
    Ok(*found.map_err(missing)?)
}

impl Functions {
    /// Loads a library. Returns it with its version.
    fn load(path: &Path) -> Result<(Self, c_int), String> {
        // SAFETY: the user names a library whose initialization may run here.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let why = source.unwrap_or_else(|| error.to_string());
            format!("{} cannot be loaded: {why}", path.display())
        })?;
        let mut version = 0;
        // SAFETY: the types are those of nccl.h; the library writes one number.
        unsafe {
            let get: unsafe extern "C" fn(*mut c_int) -> c_int =
                find(&library, path, "ncclGetVersion")?;
            get(&raw mut version);
            let functions = Self {
                last_error: find(&library, path, "ncclGetLastError")?,
                error_string: find(&library, path, "ncclGetErrorString")?,
                init_all: find(&library, path, "ncclCommInitAll")?,
                destroy: find(&library, path, "ncclCommDestroy")?,
                group_start: find(&library, path, "ncclGroupStart")?,
                group_end: find(&library, path, "ncclGroupEnd")?,
                all_reduce: find(&library, path, "ncclAllReduce")?,
                all_gather: find(&library, path, "ncclAllGather")?,
                broadcast: find(&library, path, "ncclBroadcast")?,
            };
            // Its threads may outlive its communicators.
            std::mem::forget(library);
            Ok((functions, version))
        }
    }

    /// An error of NCCL in words.
    fn right(&self, what: &str, error: c_int) -> Result<(), String> {
        if error == 0 {
            return Ok(());
        }
        let text = |it: *const c_char| match it.is_null() {
            true => String::new(),
            // SAFETY: the text ends with a zero and stays.
            false => unsafe { CStr::from_ptr(it) }.to_string_lossy().into_owned(),
        };
        // SAFETY: any number is taken; without a communicator it is the last error of all.
        let (name, last) = unsafe { ((self.error_string)(error), (self.last_error)(null_mut())) };
        let (name, last) = (text(name), text(last));
        Err(format!("{what}: NCCL says: {name}. {}", last.trim()))
    }
}

impl Nccl {
    /// Loads NCCL from a file, and joins `ranks` ranks on the first GPU. The variables that NCCL
    /// reads are set before ([`variables`]).
    ///
    /// # Errors
    /// The file is no NCCL of version 2.30 or later, or NCCL reports an error.
    pub fn open(cuda: &Cuda, path: &Path, ranks: u32) -> Result<Self, String> {
        let (functions, number) = Functions::load(path)?;
        let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
        let version = format!("{major}.{minor}.{patch}");
        if number < FIRST {
            return Err(format!(
                "{} is NCCL {version}, which refuses several ranks on one GPU; give 2.30 or later",
                path.display()
            ));
        }
        let device = Arc::clone(cuda.device(0)?);
        let mut comms: Vec<Comm> = vec![null_mut(); ranks as usize];
        let devices = vec![device.ordinal(); ranks as usize];
        let count = c_int::try_from(ranks).map_err(|_| format!("{ranks} ranks are too many"))?;
        // SAFETY: both have a place for each rank.
        let joined = unsafe { (functions.init_all)(comms.as_mut_ptr(), count, devices.as_ptr()) };
        functions.right("ncclCommInitAll", joined)?;
        // NCCL may have made another context current.
        device.enter()?;
        let mut own = Self {
            functions,
            device,
            ranks: Vec::with_capacity(comms.len()),
            version,
        };
        for comm in comms {
            let stream =
                Stream::new().map_err(|error| format!("making a stream: {}", words(error)));
            let events = cuda.events(&own.device, true);
            own.ranks.push(Rank {
                comm,
                stream: stream?,
                events: events?,
            });
        }
        Ok(own)
    }

    /// Enqueues a collective of all ranks.
    ///
    /// # Safety
    /// The buffers are as long as the collective needs.
    unsafe fn enqueue(
        &self,
        call: NcclCall,
        buffers: &[[u64; 2]],
        count: usize,
    ) -> Result<(), String> {
        let functions = &self.functions;
        // SAFETY: it takes nothing.
        functions.right("ncclGroupStart", unsafe { (functions.group_start)() })?;
        for (rank, [input, output]) in self.ranks.iter().zip(buffers) {
            let input = std::ptr::with_exposed_provenance(*input as usize);
            let output = std::ptr::with_exposed_provenance_mut(*output as usize);
            let (comm, stream) = (rank.comm, rank.stream.handle());
            // SAFETY: the caller's promise.
            let called = unsafe {
                match call {
                    NcclCall::AllReduce => {
                        (functions.all_reduce)(input, output, count, FLOAT32, SUM, comm, stream)
                    }
                    NcclCall::AllGather => {
                        (functions.all_gather)(input, output, count, FLOAT32, comm, stream)
                    }
                    NcclCall::Broadcast => {
                        (functions.broadcast)(input, output, count, FLOAT32, 0, comm, stream)
                    }
                }
            };
            functions.right("enqueuing a collective", called)?;
        }
        // SAFETY: it takes nothing.
        functions.right("ncclGroupEnd", unsafe { (functions.group_end)() })
    }

    /// The average time of `times` collectives in a row on the slowest rank, µs. `buffers`: input
    /// and output of each rank; `count`: elements as NCCL counts them.
    ///
    /// # Errors
    /// A buffer is too short, or NCCL or the driver reports an error.
    pub fn time(
        &self,
        call: NcclCall,
        buffers: &[[DeviceBuffer<Cuda>; 2]],
        count: usize,
        times: u32,
    ) -> Result<f64, String> {
        let failed = |error| format!("timing NCCL: {}", words(error));
        self.device.enter()?;
        let bytes = 4 * count as u64;
        let gathered = match call {
            NcclCall::AllGather => bytes.saturating_mul(self.ranks.len() as u64),
            NcclCall::AllReduce | NcclCall::Broadcast => bytes,
        };
        let is_short =
            |[from, to]: &[DeviceBuffer<Cuda>; 2]| from.bytes() < bytes || to.bytes() < gathered;
        if buffers.len() < self.ranks.len() || buffers.iter().any(is_short) {
            return Err(format!("the buffers are too short for {count} elements"));
        }
        let addresses = |[from, to]: &[DeviceBuffer<Cuda>; 2]| [from.address(), to.address()];
        let addresses: Vec<[u64; 2]> = buffers.iter().map(addresses).collect();
        for rank in &self.ranks {
            // SAFETY: both are this device's and live.
            unsafe { result::event::record(rank.events.begin, rank.stream.handle()) }
                .map_err(failed)?;
        }
        for _ in 0..times {
            // SAFETY: the buffers are long enough, and live until the collectives have ended below,
            // or this process has.
            unsafe { self.enqueue(call, &addresses, count) }?;
        }
        for rank in &self.ranks {
            // SAFETY: as above.
            unsafe { result::event::record(rank.events.end, rank.stream.handle()) }
                .map_err(failed)?;
        }
        let mut slowest: f64 = 0.0;
        for Rank { stream, events, .. } in &self.ranks {
            // SAFETY: as above. The deadline is that of this process.
            unsafe { result::stream::synchronize(stream.handle()) }.map_err(failed)?;
            let time = presence::elapsed_ms(events.begin, events.end).map_err(failed)?;
            slowest = slowest.max(1e3 * f64::from(time));
        }
        Ok(slowest / f64::from(times.max(1)))
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        for rank in &self.ranks {
            // SAFETY: each was made once. Its collectives have ended, or never will, and then the
            // process is ended from outside.
            unsafe { (self.functions.destroy)(rank.comm) };
        }
        // Streams and events end in this device's context.
        let _ = self.device.enter();
    }
}
