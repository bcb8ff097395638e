//! Collectives, algorithms and protocols: NCCL's numbers, and the names in files.
//!
//! Source of the numbers: `ncclFunc_t` and the algorithms and protocols of NCCL's tuner header.

/// Collectives that have a choice, by NCCL's number.
pub const COLLECTIVES: [&str; 5] = [
    "broadcast",
    "reduce",
    "all-gather",
    "reduce-scatter",
    "all-reduce",
];

/// Algorithms, by NCCL's number.
pub const ALGORITHMS: [&str; 7] = [
    "tree",
    "ring",
    "collnetdirect",
    "collnetchain",
    "nvls",
    "nvlstree",
    "pat",
];

/// Protocols, by NCCL's number.
pub const PROTOCOLS: [&str; 3] = ["ll", "ll128", "simple"];

/// NCCL's number of rings.
pub const RING: u8 = 1;

/// NCCL's number of Simple.
pub const SIMPLE: u8 = 2;

/// NCCL's number of NVLS.
const NVLS: u8 = 4;

/// The number of a name, in any case.
pub fn number(names: &[&str], name: &str) -> Option<u8> {
    let found = names.iter().position(|it| it.eq_ignore_ascii_case(name));
    found.and_then(|at| u8::try_from(at).ok())
}

/// The name of a number; empty if there is none.
pub fn name(names: &[&'static str], number: u8) -> &'static str {
    names.get(usize::from(number)).copied().unwrap_or_default()
}

/// Whether NCCL limits the channels that a plug-in asks for to those that it has. Where the network
/// reduces it does not, and more channels than there are would end the job.
pub const fn limits_channels(algorithm: u8, nodes: u64) -> bool {
    match algorithm {
        2 | 3 => false,
        NVLS => nodes == 1,
        _ => true,
    }
}
