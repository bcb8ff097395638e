//! Errors of communicators.

use std::sync::Arc;
use std::time::Duration;

use program::{Collective, ElementType, Reduction};
use thiserror::Error;

/// An error of a communicator.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// A buffer has the wrong length.
    #[error("{collective}: {buffer} has {found} elements, expected {expected}: {why}")]
    Length {
        /// The collective.
        collective: Collective,
        /// Which buffer.
        buffer: &'static str,
        /// Its elements.
        found: usize,
        /// The elements that are needed.
        expected: usize,
        /// The reason for `expected`.
        why: &'static str,
    },
    /// A rank that the communicator does not have.
    #[error("rank {rank} does not exist: the communicator has {ranks} ranks, numbered from 0")]
    NoSuchRank {
        /// The given rank.
        rank: u32,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// The collective is not supported as requested.
    #[error("{collective} on {ranks} ranks: {why}")]
    Unsupported {
        /// The collective.
        collective: Collective,
        /// Ranks of the communicator.
        ranks: u32,
        /// What is missing, and what to request instead.
        why: String,
    },
    /// The backend does not support this reduction of this type.
    #[error("the {backend} backend has no {reduction} of {element}")]
    NoReduction {
        /// Name of the backend.
        backend: &'static str,
        /// The type.
        element: ElementType,
        /// The operation.
        reduction: Reduction,
    },
    /// Verification refused a program, so it was not run.
    #[error("rank {rank}: the program of {collective} is not right: {why}")]
    Program {
        /// The rank of the program.
        rank: u32,
        /// The collective.
        collective: Collective,
        /// What the verification found.
        why: String,
    },
    /// A rank waited too long.
    #[error(
        "rank {rank}: {collective} waited {} s {waiting}; the other rank may have stopped, or runs another collective",
        waited.as_secs_f32()
    )]
    Timeout {
        /// The waiting rank.
        rank: u32,
        /// The collective.
        collective: Collective,
        /// The reason of the wait.
        waiting: Waiting,
        /// How long it waited.
        waited: Duration,
    },
    /// The caller interrupted this rank while it waited.
    #[error("rank {rank}: {collective} was interrupted {waiting}")]
    Interrupted {
        /// The waiting rank.
        rank: u32,
        /// The collective.
        collective: Collective,
        /// The reason of the wait.
        waiting: Waiting,
    },
    /// This rank gave up because another one failed.
    #[error("rank {rank} gave up: {failure}")]
    Aborted {
        /// The rank that gave up.
        rank: u32,
        /// The first failure.
        failure: Failure,
    },
    /// A rank cannot be reached, and no failure is known that explains it.
    #[error("rank {rank} gave up: {failure}")]
    Disconnected {
        /// The rank that gave up.
        rank: u32,
        /// The rank that cannot be reached, and how that was noticed.
        failure: Failure,
    },
    /// The communicator failed before and cannot be used any more.
    #[error("rank {rank}: the communicator failed before ({failure}); make a new one")]
    Broken {
        /// The rank of the communicator.
        rank: u32,
        /// The first failure.
        failure: Failure,
    },
    /// A peer's buffers cannot be accessed.
    #[error(
        "rank {rank}: {collective} cannot access the buffers of rank {peer}: {why}; take the transfer `fifo`, or buffers that the communicator hands out, or allow the kernel's process_vm_readv (capability SYS_PTRACE, kernel.yama.ptrace_scope=0)"
    )]
    Unreachable {
        /// The rank that tried.
        rank: u32,
        /// The owner of the buffers.
        peer: u32,
        /// The collective.
        collective: Collective,
        /// The kernel's error, or the end of its process.
        why: String,
    },
    /// The descriptors of a peer's buffers are invalid.
    #[error(
        "rank {rank}: {collective} cannot use the buffers of rank {peer}: {why}; rank {peer} runs another collective, or another process wrote into its memory"
    )]
    Damaged {
        /// The rank that read them.
        rank: u32,
        /// The owner of the buffers.
        peer: u32,
        /// The collective.
        collective: Collective,
        /// What is wrong.
        why: String,
    },
    /// A peer runs another collective.
    #[error(
        "rank {rank}: rank {peer} calls another collective than this {collective}, or gives another number, type, operation or root: {runs}; all ranks must call the same collectives in the same order"
    )]
    Differs {
        /// The rank that compared.
        rank: u32,
        /// The other rank.
        peer: u32,
        /// The collective of this rank.
        collective: Collective,
        /// What is known of the peer's call.
        runs: String,
    },
    /// Shared memory cannot be made or opened.
    #[error("rank {rank}: {cause}")]
    Memory {
        /// The rank.
        rank: u32,
        /// What went wrong.
        cause: Arc<shared_memory::Error>,
    },
    /// The ranks cannot meet or exchange offers.
    #[error("rank {rank}: bootstrap: {why}")]
    Bootstrap {
        /// The rank.
        rank: u32,
        /// What went wrong.
        why: String,
    },
    /// Memory cannot be registered, or is not; all ranks get it alike.
    #[error("registered memory: {why}")]
    Registration {
        /// What is missing, and what to do.
        why: String,
    },
    /// The device that runs the programs failed.
    #[error("rank {rank}: {why}")]
    Device {
        /// The rank.
        rank: u32,
        /// What went wrong, and what to do.
        why: String,
    },
}

impl Error {
    /// Whether all ranks get it alike before anything is sent, so that the communicator stays
    /// usable.
    pub(crate) const fn is_common(&self) -> bool {
        matches!(
            self,
            Self::Length { .. }
                | Self::NoSuchRank { .. }
                | Self::Unsupported { .. }
                | Self::NoReduction { .. }
                | Self::Program { .. }
                | Self::Registration { .. }
        )
    }
}

impl Error {
    /// The failure that other ranks are told.
    pub(crate) fn failure(&self, rank: u32) -> Failure {
        match self {
            Self::Aborted { failure, .. }
            | Self::Broken { failure, .. }
            | Self::Disconnected { failure, .. } => failure.clone(),
            other => {
                let text = other.to_string();
                // A failure names the rank itself.
                let named = text.strip_prefix(&format!("rank {rank}: "));
                let what = named.unwrap_or(&text).to_owned();
                Failure { rank, what }
            }
        }
    }

    /// Whether it may be a consequence of another rank's end that is not known yet: its memory is
    /// gone, its connections are refused.
    pub(crate) fn may_be_an_echo(&self) -> bool {
        use shared_memory::Error::{Open, WrongFile};
        match self {
            // Memory that cannot be made is this rank's own failure.
            Self::Memory { cause, .. } => matches!(**cause, Open { .. } | WrongFile { .. }),
            Self::Disconnected { .. }
            | Self::Unreachable { .. }
            | Self::Bootstrap { .. }
            | Self::Device { .. } => true,
            _ => false,
        }
    }
}

/// The reason of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Data of a peer.
    Data {
        /// The sender.
        from: u32,
        /// The channel.
        channel: u16,
    },
    /// A message of any other rank.
    AnyMessage,
    /// Other ranks, to call the same collective for the first time.
    Others,
    /// A free slot towards a peer.
    Slot {
        /// The receiver.
        to: u32,
        /// The channel.
        channel: u16,
    },
    /// A peer's signal.
    Signal {
        /// The rank that should give it.
        from: u32,
        /// The channel.
        channel: u16,
    },
}

impl Waiting {
    /// The other rank, if it is a certain one.
    pub const fn peer(self) -> Option<u32> {
        match self {
            Self::Data { from, .. } | Self::Signal { from, .. } => Some(from),
            Self::Slot { to, .. } => Some(to),
            Self::AnyMessage | Self::Others => None,
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Data { from, channel } => {
                write!(f, "for data of rank {from} on channel {channel}")
            }
            Self::AnyMessage => f.write_str("for a message of any rank"),
            Self::Others => f.write_str("for other ranks to begin it"),
            Self::Slot { to, channel } => {
                write!(f, "for a free slot to rank {to} on channel {channel}")
            }
            Self::Signal { from, channel } => {
                write!(f, "for a signal of rank {from} on channel {channel}")
            }
        }
    }
}

/// The failure of a communicator, as every rank learns of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The rank that failed.
    pub rank: u32,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.what)
    }
}
