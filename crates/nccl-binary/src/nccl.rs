//! NCCL's functions, as they are called here.
//!
//! Source of the signatures and numbers: nccl.h.

use std::ffi::{CStr, c_char, c_int, c_void};

use plan::cost::{Calls, Registration};
use program::{Collective, Reduction};

use crate::error::Unusable;
use crate::redirect::Library;

/// Bytes of a unique id (`NCCL_UNIQUE_ID_BYTES`).
pub const ID_BYTES: usize = 128;

/// `NCCL_WIN_COLL_SYMMETRIC`.
const SYMMETRIC: c_int = 1;
/// `ncclScalarHostImmediate`.
const ON_HOST: c_int = 1;
/// The root of collectives that have one.
const ROOT: c_int = 0;

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Id(pub [u8; ID_BYTES]);

impl Id {
    /// Its bytes as hexadecimal digits.
    pub fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The id with these digits.
    pub fn of(digits: &str) -> Option<Self> {
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..ID_BYTES).map(byte).collect();
        bytes?.try_into().ok().map(Self)
    }
}

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
type Transfer = unsafe extern "C" fn(Buffer, usize, c_int, c_int, Communicator, Buffer) -> Code;
type Allocate = unsafe extern "C" fn(*mut Buffer, usize) -> Code;
type Register = unsafe extern "C" fn(Communicator, Buffer, usize, *mut Buffer) -> Code;
type RegisterWindow = unsafe extern "C" fn(Communicator, Buffer, usize, *mut Buffer, c_int) -> Code;
type Destroy = unsafe extern "C" fn(Communicator) -> Code;
type PreMultiplied =
    unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, c_int, Communicator) -> Code;

/// The functions of one library.
pub struct Nccl {
    version: GetVersion,
    id: GetId,
    error: ErrorText,
    start: GroupFunction,
    end: GroupFunction,
    init: InitRank,
    destroy: Destroy,
    all_reduce: WithOperation,
    reduce_scatter: WithOperation,
    all_gather: AllGather,
    broadcast: WithOperation,
    reduce: Reduce,
    send: Transfer,
    receive: Transfer,
    allocate: Allocate,
    pre_multiplied: PreMultiplied,
    register: Register,
    register_window: RegisterWindow,
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

impl Part {
    /// Puts the collective in place. The rank's piece begins at a byte of the whole message.
    pub fn join(&mut self, collective: Collective, piece: u64) {
        match collective {
            Collective::AllGather => self.input = self.output.wrapping_byte_add(piece as usize),
            Collective::ReduceScatter => {
                self.output = self.input.wrapping_byte_add(piece as usize);
            }
            _ => self.input = self.output,
        }
    }
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
            destroy: look_up!(c"ncclCommDestroy", Destroy),
            all_reduce: look_up!(c"ncclAllReduce", WithOperation),
            reduce_scatter: look_up!(c"ncclReduceScatter", WithOperation),
            all_gather: look_up!(c"ncclAllGather", AllGather),
            broadcast: look_up!(c"ncclBroadcast", WithOperation),
            reduce: look_up!(c"ncclReduce", Reduce),
            send: look_up!(c"ncclSend", Transfer),
            receive: look_up!(c"ncclRecv", Transfer),
            allocate: look_up!(c"ncclMemAlloc", Allocate),
            pre_multiplied: look_up!(c"ncclRedOpCreatePreMulSum", PreMultiplied),
            register: look_up!(c"ncclCommRegister", Register),
            register_window: look_up!(c"ncclCommWindowRegister", RegisterWindow),
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

    /// Destroys a communicator, which nobody may use any more.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn destroy(&self, communicator: Communicator) -> Result<(), String> {
        // SAFETY: `init` made the communicator.
        self.check(unsafe { (self.destroy)(communicator) })
    }

    /// Memory of the current GPU that can be registered.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn registered_memory(&self, bytes: usize) -> Result<Buffer, String> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: NCCL writes an address.
        self.check(unsafe { (self.allocate)(&mut memory, bytes) })?;
        Ok(memory)
    }

    /// Registers a rank's memory, as a symmetric window once the group ends. The handle is written
    /// then.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn register(
        &self,
        registration: Registration,
        communicator: Communicator,
        memory: Buffer,
        bytes: usize,
        handle: &mut Buffer,
    ) -> Result<(), String> {
        let code = match registration {
            Registration::None => return Ok(()),
            // SAFETY: the memory is as long as that, and a handle is written.
            Registration::Local => unsafe { (self.register)(communicator, memory, bytes, handle) },
            // SAFETY: the same, and the handle outlives the group.
            Registration::Symmetric => unsafe {
                (self.register_window)(communicator, memory, bytes, handle, SYMMETRIC)
            },
        };
        self.check(code)
    }

    /// NCCL's number of a reduction for a rank.
    ///
    /// # Errors
    /// NCCL's text, or NCCL has no such reduction.
    pub fn reduction(&self, calls: &Calls, communicator: Communicator) -> Result<c_int, String> {
        Ok(match calls.reduction {
            Reduction::Sum => 0,
            Reduction::Product => 1,
            Reduction::Maximum => 2,
            Reduction::Minimum => 3,
            Reduction::Average => 4,
            Reduction::PreMultipliedSum => {
                let mut factor = 1u64;
                let mut number = 0;
                // SAFETY: NCCL reads one element, of at most 64 bits, and writes a number.
                self.check(unsafe {
                    (self.pre_multiplied)(
                        &mut number,
                        (&raw mut factor).cast(),
                        calls.data_type as c_int,
                        ON_HOST,
                        communicator,
                    )
                })?;
                number
            }
            other => return Err(format!("NCCL has no operation {other}")),
        })
    }

    /// Starts a rank's part of a collective: `count` elements of NCCL's type `element`, of each
    /// rank's piece where a collective gathers or scatters, and NCCL's number of the reduction.
    ///
    /// # Errors
    /// NCCL's text, or NCCL chooses no algorithm for the collective.
    pub fn collective(
        &self,
        collective: Collective,
        part: &Part,
        count: usize,
        element: c_int,
        reduction: c_int,
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
                Collective::AllReduce | Collective::ReduceScatter => {
                    let call = match collective {
                        Collective::AllReduce => self.all_reduce,
                        _ => self.reduce_scatter,
                    };
                    call(
                        input,
                        output,
                        count,
                        element,
                        reduction,
                        communicator,
                        stream,
                    )
                }
                Collective::AllGather => {
                    (self.all_gather)(input, output, count, element, communicator, stream)
                }
                Collective::Broadcast => {
                    (self.broadcast)(input, output, count, element, ROOT, communicator, stream)
                }
                Collective::Reduce => (self.reduce)(
                    input,
                    output,
                    count,
                    element,
                    reduction,
                    ROOT,
                    communicator,
                    stream,
                ),
                other => return Err(format!("{other} is made of point-to-point transfers")),
            }
        };
        self.check(code)
    }

    /// Starts a rank's transfers of one byte to and from another rank.
    ///
    /// # Errors
    /// NCCL's text.
    pub fn exchange(&self, part: &Part, peer: c_int) -> Result<(), String> {
        let (communicator, stream) = (part.communicator, part.stream);
        // SAFETY: the buffers have a byte, the communicator and stream are live.
        self.check(unsafe { (self.send)(part.input, 1, 0, peer, communicator, stream) })?;
        // SAFETY: as above.
        self.check(unsafe { (self.receive)(part.output, 1, 0, peer, communicator, stream) })
    }
}
