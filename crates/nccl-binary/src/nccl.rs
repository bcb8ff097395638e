//! NCCL's functions, as they are called here.
//!
//! Source of the signatures and numbers: nccl.h.

use std::ffi::{CStr, c_char, c_int, c_void};

use program::Collective;

use crate::error::Unusable;
use crate::redirect::Library;

/// Bytes of a unique id (`NCCL_UNIQUE_ID_BYTES`).
pub const ID_BYTES: usize = 128;

/// `ncclFloat32`.
const FLOAT: c_int = 7;
/// `ncclSum`.
const SUM: c_int = 0;
/// The root of collectives that have one.
const ROOT: c_int = 0;

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Id(pub [u8; ID_BYTES]);

/// `ncclComm_t`.
pub type Communicator = *mut c_void;

type Code = c_int;
type Buffer = *mut c_void;

type GetVersion = unsafe extern "C" fn(*mut c_int) -> Code;
type GetId = unsafe extern "C" fn(*mut Id) -> Code;
type ErrorText = unsafe extern "C" fn(Code) -> *const c_char;
type GroupFunction = unsafe extern "C" fn() -> Code;
type InitRank = unsafe extern "C" fn(*mut Communicator, c_int, Id, c_int) -> Code;
type AllGather = unsafe extern "C" fn(Buffer, Buffer, usize, c_int, Communicator, Buffer) -> Code;
/// All-reduce and reduce-scatter with an operation, broadcast with a root.
type WithOperation =
    unsafe extern "C" fn(Buffer, Buffer, usize, c_int, c_int, Communicator, Buffer) -> Code;
type Reduce =
    unsafe extern "C" fn(Buffer, Buffer, usize, c_int, c_int, c_int, Communicator, Buffer) -> Code;

/// The functions of one library.
pub struct Nccl {
    version: GetVersion,
    id: GetId,
    error: ErrorText,
    start: GroupFunction,
    end: GroupFunction,
    init: InitRank,
    all_reduce: WithOperation,
    reduce_scatter: WithOperation,
    all_gather: AllGather,
    broadcast: WithOperation,
    reduce: Reduce,
}

/// One rank's part of a collective.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The rank's communicator.
    pub communicator: Communicator,
    /// Its input.
    pub input: Buffer,
    /// Its output.
    pub output: Buffer,
    /// Its stream.
    pub stream: Buffer,
}

impl Nccl {
    /// Looks the functions up.
    ///
    /// # Errors
    /// One is missing.
    pub fn of(library: &Library) -> Result<Self, Unusable> {
        macro_rules! look_up {
            ($name:literal, $type:ty) => {
                // SAFETY: nccl.h declares the function with this type.
                unsafe { std::mem::transmute::<*mut c_void, $type>(library.symbol($name)?) }
            };
        }
        Ok(Self {
            version: look_up!(c"ncclGetVersion", GetVersion),
            id: look_up!(c"ncclGetUniqueId", GetId),
            error: look_up!(c"ncclGetErrorString", ErrorText),
            start: look_up!(c"ncclGroupStart", GroupFunction),
            end: look_up!(c"ncclGroupEnd", GroupFunction),
            init: look_up!(c"ncclCommInitRank", InitRank),
            all_reduce: look_up!(c"ncclAllReduce", WithOperation),
            reduce_scatter: look_up!(c"ncclReduceScatter", WithOperation),
            all_gather: look_up!(c"ncclAllGather", AllGather),
            broadcast: look_up!(c"ncclBroadcast", WithOperation),
            reduce: look_up!(c"ncclReduce", Reduce),
        })
    }

    fn check(&self, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NCCL has a text for every number.
        let text = unsafe { CStr::from_ptr((self.error)(code)) };
        Err(text.to_string_lossy().into_owned())
    }

    /// NCCL's version as its number; 0 if it does not say.
    pub fn version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: NCCL writes a number.
        match unsafe { (self.version)(&mut version) } {
            0 => version,
            _ => 0,
        }
    }

    /// A new unique id.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn id(&self) -> Result<Id, String> {
        let mut id = Id([0; ID_BYTES]);
        // SAFETY: NCCL writes an id.
        self.check(unsafe { (self.id)(&mut id) })?;
        Ok(id)
    }

    /// Calls functions as one group.
    ///
    /// # Errors
    /// NCCL's text for the first failure.
    pub fn group(&self, calls: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        // SAFETY: the functions have no arguments.
        self.check(unsafe { (self.start)() })?;
        let called = calls();
        // SAFETY: as above.
        let ended = self.check(unsafe { (self.end)() });
        called.and(ended)
    }

    /// Makes a rank's communicator on the current GPU, once the group ends.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn init(
        &self,
        communicator: &mut Communicator,
        ranks: i32,
        id: Id,
        rank: i32,
    ) -> Result<(), String> {
        // SAFETY: the communicator is written before the group has ended, and outlives it.
        self.check(unsafe { (self.init)(communicator, ranks, id, rank) })
    }

    /// Starts a rank's part of a collective: `count` numbers of 32 bits, of each rank's piece where
    /// a collective gathers or scatters.
    ///
    /// # Errors
    /// NCCL's text, or NCCL chooses no algorithm for the collective.
    pub fn collective(
        &self,
        collective: Collective,
        part: &Part,
        count: usize,
    ) -> Result<(), String> {
        let Part {
            communicator,
            input,
            output,
            stream,
        } = *part;
        // SAFETY: the buffers are as long as the message, the communicator and stream are live.
        let code = unsafe {
            match collective {
                Collective::AllReduce => {
                    (self.all_reduce)(input, output, count, FLOAT, SUM, communicator, stream)
                }
                Collective::ReduceScatter => {
                    (self.reduce_scatter)(input, output, count, FLOAT, SUM, communicator, stream)
                }
                Collective::AllGather => {
                    (self.all_gather)(input, output, count, FLOAT, communicator, stream)
                }
                Collective::Broadcast => {
                    (self.broadcast)(input, output, count, FLOAT, ROOT, communicator, stream)
                }
                Collective::Reduce => {
                    (self.reduce)(input, output, count, FLOAT, SUM, ROOT, communicator, stream)
                }
                other => return Err(format!("{other} is made of point-to-point transfers")),
            }
        };
        self.check(code)
    }
}
