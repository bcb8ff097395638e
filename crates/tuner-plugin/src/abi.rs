//! NCCL's structures: tables of functions that a tuner plug-in exports, one for each version.
//!
//! Source: NCCL's headers `tuner_v3.h` to `tuner_v7.h` and `nccl_common.h`. Version 7 is that of
//! NCCL's public source after 2.32.3; no published library that asks for it was tried.

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::mem::{offset_of, size_of};

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

/// Constants of the cost model (`ncclTunerConstants_v5_t`, `ncclTunerConstants_v7_t`): by
/// algorithm, protocol (LL, LL128, Simple) and number of nodes (1, 2, more). `ROWS` are
/// generations of GPUs: Volta, Ampere, Hopper, Blackwell, and from version 7 on Rubin, where -1 is
/// no limit.
///
/// A plug-in may change them. More than the rows of its version is not its memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants<const ROWS: usize> {
    /// Time to start any message, µs.
    pub base_latency_us: [[f64; 3]; 7],
    /// Time of one step over NVLink, PCI Express and the network, µs.
    pub hardware_latency_us: [[[f64; 3]; 7]; 3],
    /// LL, all channels together, GB/s.
    pub ll_gbps: [[f64; 3]; ROWS],
    /// A ring's channel with LL128, GB/s.
    pub ring_ll128_gbps: [[f64; 3]; ROWS],
    /// A tree's channel with LL128, GB/s.
    pub tree_ll128_gbps: [[f64; 3]; ROWS],
    /// A tree's channel, GB/s.
    pub tree_gbps: [[f64; 3]; ROWS],
    /// A channel of NVLSTree, GB/s.
    pub nvls_tree_gbps: [[f64; 3]; ROWS],
}

impl<const ROWS: usize> Constants<ROWS> {
    /// How many numbers they are.
    pub const NUMBERS: usize = size_of::<Self>() / size_of::<f64>();
}

/// Of versions 5 and 6.
pub type ConstantsV5 = Constants<4>;

/// Of version 7.
pub type ConstantsV7 = Constants<5>;

// Bytes, as C compilers lay out NCCL's headers; `tests/caller.c` asks one.
const _: () = {
    assert!(size_of::<ConstantsV5>() == 1152 && size_of::<ConstantsV7>() == 1272);
    assert!(offset_of!(ConstantsV5, hardware_latency_us) == 168);
    assert!(offset_of!(ConstantsV5, ll_gbps) == 672);
    assert!(offset_of!(ConstantsV5, ring_ll128_gbps) == 768);
    assert!(offset_of!(ConstantsV5, tree_ll128_gbps) == 864);
    assert!(offset_of!(ConstantsV5, tree_gbps) == 960);
    assert!(offset_of!(ConstantsV5, nvls_tree_gbps) == 1056);
    assert!(offset_of!(ConstantsV7, hardware_latency_us) == 168);
    assert!(offset_of!(ConstantsV7, ll_gbps) == 672);
    assert!(offset_of!(ConstantsV7, ring_ll128_gbps) == 792);
    assert!(offset_of!(ConstantsV7, tree_ll128_gbps) == 912);
    assert!(offset_of!(ConstantsV7, tree_gbps) == 1032);
    assert!(offset_of!(ConstantsV7, nvls_tree_gbps) == 1152);
};

/// Starts a plug-in for a communicator, v3 and v4: ranks, nodes, logger, where the context is
/// written.
pub type Init4 = unsafe extern "C" fn(usize, usize, Option<Logger>, *mut Context) -> Code;

/// The same, v5 to v7: where the context is written, the communicator's number, ranks, nodes,
/// logger, NVLink domains, the version's [`Constants`].
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

/// The same, v4 to v7: before the channels, whether buffers are registered.
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

/// Asks for a chunk, v6 and v7: context, collective, bytes, algorithm, protocol, channels, NCCL's
/// chunk in bytes, which may be changed.
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

/// `ncclTuner_v7_t`: only the constants differ.
pub type TunerV7 = TunerV6;
