//! NCCL's structures: tables of functions that a tuner plug-in exports, one for each version.
//!
//! Source: NCCL's headers `tuner_v3.h` to `tuner_v6.h` and `nccl_common.h`.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// A result; 0 is success.
pub type Code = c_int;

/// Success.
pub const SUCCESS: Code = 0;

/// A context that a plug-in makes for each communicator and rank.
pub type Context = *mut c_void;

/// NCCL's logger (`ncclDebugLogger_t`): level, subsystems, file, line, format as of `printf`.
pub type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// Levels of NCCL's log.
pub mod level {
    use std::ffi::c_int;

    /// Warnings.
    pub const WARNING: c_int = 2;
    /// Information.
    pub const INFORMATION: c_int = 3;
}

/// The subsystem of tuning in NCCL's log.
pub const TUNING: c_ulong = 0x40;

/// NVLink domains of a job (`ncclNvlDomainInfo_v5_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlinkDomains {
    /// Their number.
    pub count: c_int,
    /// Fewest ranks of one.
    pub least_ranks: c_int,
    /// Most ranks of one.
    pub most_ranks: c_int,
}

/// Starts a plug-in for a communicator, v3 and v4: ranks, nodes, logger, where the context is
/// written.
pub type Init4 = unsafe extern "C" fn(usize, usize, Option<Logger>, *mut Context) -> Code;

/// The same, v5 and v6: where the context is written, the communicator's number, ranks, nodes,
/// logger, NVLink domains, constants of the cost model.
pub type Init5 = unsafe extern "C" fn(
    *mut Context,
    u64,
    usize,
    usize,
    Option<Logger>,
    *const NvlinkDomains,
    *mut c_void,
) -> Code;

/// Asks about an operation, v3: context, collective, bytes, pipelined operations, table of times
/// (rows of algorithms, one behind the other), algorithms, protocols, where channels are written.
pub type Information3 =
    unsafe extern "C" fn(Context, c_int, usize, c_int, *mut f32, c_int, c_int, *mut c_int) -> Code;

/// The same, v4 to v6: before the channels, whether buffers are registered.
pub type Information4 = unsafe extern "C" fn(
    Context,
    c_int,
    usize,
    c_int,
    *mut f32,
    c_int,
    c_int,
    c_int,
    *mut c_int,
) -> Code;

/// Asks for a chunk, v6: context, collective, bytes, algorithm, protocol, channels, NCCL's chunk in
/// bytes, which may be changed.
pub type ChunkSize =
    unsafe extern "C" fn(Context, c_int, usize, c_int, c_int, c_int, *mut usize) -> Code;

/// Ends a plug-in for a communicator.
pub type Finish = unsafe extern "C" fn(Context) -> Code;

macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            /// The plug-in's name.
            pub name: *const c_char,
            $($(#[$of_field])* pub $field: $type,)*
        }

        // SAFETY: the name is a constant, and nothing is ever changed.
        unsafe impl Sync for $name {}
    };
}

table! {
    /// `ncclTuner_v3_t`.
    TunerV3 {
        /// Starts it.
        init: Init4,
        /// Asks about an operation.
        information: Information3,
        /// Ends it.
        finish: Finish,
    }
}

table! {
    /// `ncclTuner_v4_t`.
    TunerV4 {
        /// Starts it.
        init: Init4,
        /// Asks about an operation.
        information: Information4,
        /// Ends it.
        finish: Finish,
    }
}

table! {
    /// `ncclTuner_v5_t`.
    TunerV5 {
        /// Starts it.
        init: Init5,
        /// Asks about an operation.
        information: Information4,
        /// Ends it.
        finish: Finish,
    }
}

table! {
    /// `ncclTuner_v6_t`.
    TunerV6 {
        /// Starts it.
        init: Init5,
        /// Asks about an operation.
        information: Information4,
        /// Ends it.
        finish: Finish,
        /// Asks for a chunk.
        chunk_size: Option<ChunkSize>,
    }
}
