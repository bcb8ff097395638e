//! Errors of shared memory.

use std::io;

use thiserror::Error;

/// An error of mappings and their contents.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// More memory than the machine has.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but this machine, or the control group (cgroup) of this process, has {machine_bytes} bytes of memory; use smaller messages, fewer ranks or fewer channels"
    )]
    TooLarge {
        /// Purpose of the memory.
        name: String,
        /// Bytes requested.
        bytes: u64,
        /// Bytes of memory and swap of the machine, or of the control group.
        machine_bytes: u64,
    },
    /// More bytes than a file of this process may have.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but files of this process may have {limit} bytes (RLIMIT_FSIZE); raise it (ulimit -f)"
    )]
    FileLimit {
        /// Purpose of the memory.
        name: String,
        /// Bytes requested.
        bytes: u64,
        /// Most bytes of a file.
        limit: u64,
    },
    /// More addresses than this process may map.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but this process may map {limit} bytes in all (RLIMIT_AS) and has mapped {mapped}; raise it (ulimit -v), or use smaller messages or fewer ranks"
    )]
    AddressLimit {
        /// Purpose of the memory.
        name: String,
        /// Bytes requested.
        bytes: u64,
        /// Bytes that are mapped.
        mapped: u64,
        /// Most bytes that may be mapped.
        limit: u64,
    },
    /// The kernel gave no memory.
    #[error("shared memory {name:?}: cannot {action} {bytes} bytes: {cause}")]
    Memory {
        /// Purpose of the memory.
        name: String,
        /// The attempted action.
        action: &'static str,
        /// Bytes requested.
        bytes: u64,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Another process's memory cannot be opened.
    #[error(
        "shared memory of process {process}: cannot open {path}: {cause}; the process may have ended, or belong to another user or container"
    )]
    Open {
        /// The owner of the memory.
        process: u32,
        /// The path that was opened.
        path: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The opened file is not the owner's memory.
    #[error("shared memory of process {process} at {path}: {found}, expected {expected}")]
    WrongFile {
        /// The owner of the memory.
        process: u32,
        /// The path that was opened.
        path: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The description of a device's FIFO does not fit its memory.
    #[error(
        "FIFO of a device: expected the protocol of its route, and offsets in multiples of 128 bytes within its memory; found {fifo}"
    )]
    Device {
        /// The description.
        fifo: String,
    },
    /// An arena is full.
    #[error(
        "arena {name:?}: no {bytes} bytes in a row are left of {arena_bytes}; make the arena larger or free buffers"
    )]
    ArenaFull {
        /// Name of the arena.
        name: String,
        /// Bytes requested.
        bytes: usize,
        /// Bytes of the arena.
        arena_bytes: usize,
    },
    /// An item of a segment is not the requested one.
    #[error("segment {name:?}: item {index} is {found}, not {expected}")]
    Item {
        /// Name of the segment.
        name: String,
        /// Index of the item.
        index: usize,
        /// The item.
        found: String,
        /// The requested item.
        expected: String,
    },
    /// The end of an item was taken before.
    #[error("segment {name:?}: the {end} of item {index} was taken before")]
    Taken {
        /// Name of the segment.
        name: String,
        /// Index of the item.
        index: usize,
        /// The end.
        end: &'static str,
    },
    /// The two sides of a segment have different lists of items.
    #[error(
        "segment {name:?}: its owner made it with other items; both ranks must run the same plan"
    )]
    Layout {
        /// Name of the segment.
        name: String,
    },
}
