//! The C interface between a phantom driver and the library that runs its kernels.
//!
//! The machine file names the library. It exports two functions: [`PARAMETERS`] of type
//! [`ParametersFn`] and [`RUN`] of type [`RunFn`].

use std::ffi::{c_char, c_int, c_void};

/// The symbol of a [`ParametersFn`].
pub const PARAMETERS: &str = "topo_phantom_parameters";

/// The symbol of a [`RunFn`].
pub const RUN: &str = "topo_phantom_run";

/// Bytes of the single argument that a kernel takes by value, by the kernel's name; 0: there is no
/// such kernel.
pub type ParametersFn = extern "C" fn(name: *const c_char) -> usize;

/// Runs a kernel until all its threads have ended. Returns an [`Outcome`].
pub type RunFn = extern "C" fn(run: *const Run) -> c_int;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All threads have ended.
    Ended,
    /// A thread accessed an address that its GPU cannot access; the report says which.
    IllegalAddress,
    /// The run was told to end.
    Cancelled,
    /// Threads could not be created.
    OutOfMemory,
}

impl Outcome {
    /// The number in C.
    pub const fn code(self) -> c_int {
        match self {
            Self::Ended => 0,
            Self::IllegalAddress => 1,
            Self::Cancelled => 2,
            Self::OutOfMemory => 3,
        }
    }

    /// The outcome with this number in C.
    pub fn of(code: c_int) -> Option<Self> {
        let all = [
            Self::Ended,
            Self::IllegalAddress,
            Self::Cancelled,
            Self::OutOfMemory,
        ];
        all.into_iter().find(|it| it.code() == code)
    }
}

/// A run of a kernel.
#[repr(C)]
#[derive(Debug)]
pub struct Run {
    /// The kernel's name.
    pub name: *const c_char,
    /// Its argument.
    pub argument: *const c_void,
    /// Number of blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The seed of the order in which threads run; 0: the simplest.
    pub seed: u64,
    /// Not 0: the run must end.
    pub cancelled: *const u32,
    /// Not 0: after the run, the first bytes of each output are inverted.
    pub spoil: c_int,
    /// Increases whenever memory that GPUs could access may no longer be accessed.
    pub changes: *const u64,
    /// The first argument of the functions below.
    pub user: *mut c_void,
    /// Called before an access whose range is not known yet.
    pub access: AccessFn,
    /// Returns the addresses of all memories behind a multicast address.
    pub members: MembersFn,
    /// A place for the report on a failure.
    pub report: *mut c_char,
    /// Bytes of that place.
    pub report_bytes: usize,
}

/// Whether the run's GPU may access `bytes` bytes at an address. If so, returns 1 and writes the
/// accessible range around them; otherwise returns 0.
pub type AccessFn = extern "C" fn(
    user: *mut c_void,
    address: u64,
    bytes: u64,
    store: c_int,
    range: *mut Range,
) -> c_int;

/// Writes the addresses of the memories behind a multicast address, and returns their number; 0 if
/// it is none, or not all GPUs have bound memory, or this GPU may not access it.
pub type MembersFn =
    extern "C" fn(user: *mut c_void, address: u64, places: *mut u64, room: usize) -> usize;

/// A range of addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The first address.
    pub begin: u64,
    /// The address behind the last one.
    pub end: u64,
}
