//! What can go wrong with shared memory.

use std::io;

use thiserror::Error;

/// An error of mappings and of what lies in them.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// More memory than the machine has.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but this machine, or the control group (cgroup) of this process, has {machine_bytes} bytes of memory; use smaller messages, fewer ranks or fewer channels"
    )]
    TooLarge {
        /// What the memory was for.
        name: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of memory and swap that the machine has, or the control group may use.
        machine_bytes: u64,
    },
    /// More bytes than a file of this process may have.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but files of this process may have {limit} bytes (RLIMIT_FSIZE); raise it (ulimit -f)"
    )]
    FileLimit {
        /// What the memory was for.
        name: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// More addresses than this process may map.
    #[error(
        "shared memory {name:?}: {bytes} bytes asked for, but this process may map {limit} bytes in all (RLIMIT_AS) and has mapped {mapped}; raise it (ulimit -v), or use smaller messages or fewer ranks"
    )]
    AddressLimit {
        /// What the memory was for.
        name: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are mapped.
        mapped: u64,
        /// Bytes that may be.
        limit: u64,
    },
    /// The kernel gave no memory.
    #[error("shared memory {name:?}: cannot {action} {bytes} bytes: {cause}")]
    Memory {
        /// What the memory was for.
        name: String,
        /// What was tried.
        action: &'static str,
        /// Bytes asked for.
        bytes: u64,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Another process's memory cannot be opened.
    #[error(
        "shared memory of process {process}: cannot open {path}: {cause}; the process may have ended, or belong to another user or container"
    )]
    Open {
        /// Whose memory.
        process: u32,
        /// The path that was opened.
        path: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// What was opened is not what its owner made.
    #[error("shared memory of process {process} at {path}: {found}, expected {expected}")]
    Foreign {
        /// Whose memory.
        process: u32,
        /// The path that was opened.
        path: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A handle cannot be read.
    #[error(
        "handle of shared memory {text:?}: expected PROCESS:DESCRIPTOR:DEVICE:INODE:BYTES, all in numbers"
    )]
    Handle {
        /// What was given.
        text: String,
    },
    /// What is said of a FIFO of a device is no such FIFO, or does not fit its memory.
    #[error(
        "FIFO of a device {text:?}: expected its protocol and seven numbers, offsets in multiples of 128 within its memory"
    )]
    Device {
        /// What was given.
        text: String,
    },
    /// An arena is full.
    #[error(
        "arena {name:?}: no {bytes} bytes in a row are left of {arena_bytes}; make the arena larger or free buffers"
    )]
    ArenaFull {
        /// Which arena.
        name: String,
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that the arena has in all.
        arena_bytes: usize,
    },
    /// An item of a segment is not what was asked for.
    #[error("segment {name:?}: item {index} is {found}, not {expected}")]
    Item {
        /// Which segment.
        name: String,
        /// Place in the list of items.
        index: usize,
        /// What it is.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// An end that only one may hold was taken before.
    #[error("segment {name:?}: the {end} of item {index} was taken before")]
    Taken {
        /// Which segment.
        name: String,
        /// Place in the list of items.
        index: usize,
        /// Which end.
        end: &'static str,
    },
    /// The two sides of a segment have different lists of items.
    #[error("segment {name:?}: its owner laid it out otherwise; both ranks must run the same plan")]
    Layout {
        /// Which segment.
        name: String,
    },
}
