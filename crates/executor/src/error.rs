//! What can go wrong while ranks work together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use program::{Collective, ElementType, Reduction};
use thiserror::Error;

use crate::bootstrap::Bootstrap;

/// How long the news that another rank failed may take.
const NEWS_TIME: Duration = Duration::from_secs(2);

/// Between two looks whether it has come.
const LOOK: Duration = Duration::from_millis(5);

/// An error of a communicator.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// A buffer has another length than the collective needs.
    #[error("{collective}: {buffer} has {found} elements, expected {expected}: {why}")]
    Length {
        /// The collective.
        collective: Collective,
        /// Which buffer.
        buffer: &'static str,
        /// Its elements.
        found: usize,
        /// The elements needed.
        expected: usize,
        /// How they are counted.
        why: &'static str,
    },
    /// A rank that the communicator does not have.
    #[error("rank {rank} does not exist: the communicator has {ranks} ranks, numbered from 0")]
    NoSuchRank {
        /// The rank that was named.
        rank: u32,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// Nothing carries the collective out as asked.
    #[error("{collective} on {ranks} ranks: {why}")]
    Unsupported {
        /// The collective.
        collective: Collective,
        /// Ranks of the communicator.
        ranks: u32,
        /// What is missing, and what to ask for instead.
        why: String,
    },
    /// The backend cannot reduce this type so.
    #[error("the {backend} backend has no {reduction} of {element}")]
    NoReduction {
        /// Name of the backend.
        backend: &'static str,
        /// The type.
        element: ElementType,
        /// The operation.
        reduction: Reduction,
    },
    /// A program was refused by verification, so it was not run.
    #[error("rank {rank}: the program of {collective} is not right: {why}")]
    Program {
        /// Whose program.
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
        /// Who waited.
        rank: u32,
        /// In which collective.
        collective: Collective,
        /// For what.
        waiting: Waiting,
        /// How long.
        waited: Duration,
    },
    /// Another rank failed, so this one gave up.
    #[error("rank {rank} gave up: {failure}")]
    Aborted {
        /// Who gave up.
        rank: u32,
        /// What happened first.
        failure: Failure,
    },
    /// A rank cannot be reached, and nobody has said why.
    #[error("rank {rank} gave up: {failure}")]
    Disconnected {
        /// Who gave up.
        rank: u32,
        /// Who cannot be reached, and how that was noticed.
        failure: Failure,
    },
    /// The communicator failed before and cannot be used any more.
    #[error("rank {rank}: the communicator failed before ({failure}); make a new one")]
    Broken {
        /// Whose communicator.
        rank: u32,
        /// What happened first.
        failure: Failure,
    },
    /// A peer's buffers cannot be accessed.
    #[error(
        "rank {rank}: {collective} cannot access the buffers of rank {peer}: {why}; take the transfer `fifo`, or buffers that the communicator hands out, or allow the kernel's process_vm_readv (capability SYS_PTRACE, kernel.yama.ptrace_scope=0)"
    )]
    Unreachable {
        /// Who tried.
        rank: u32,
        /// Whose buffers.
        peer: u32,
        /// In which collective.
        collective: Collective,
        /// What the kernel said.
        why: String,
    },
    /// What a peer shows of its buffers cannot be right.
    #[error(
        "rank {rank}: {collective} cannot use the buffers of rank {peer}: {why}; rank {peer} runs another collective, or another process wrote into its memory"
    )]
    Damaged {
        /// Who looked.
        rank: u32,
        /// Whose buffers.
        peer: u32,
        /// In which collective.
        collective: Collective,
        /// What is wrong.
        why: String,
    },
    /// Shared memory could not be had.
    #[error("rank {rank}: {cause}")]
    Memory {
        /// Who asked.
        rank: u32,
        /// What went wrong.
        cause: Arc<shared_memory::Error>,
    },
    /// The ranks could not exchange what they need to find each other.
    #[error("rank {rank}: bootstrap: {why}")]
    Bootstrap {
        /// Who asked.
        rank: u32,
        /// What went wrong.
        why: String,
    },
    /// What runs the programs failed.
    #[error("rank {rank}: {why}")]
    Device {
        /// Whose program.
        rank: u32,
        /// What went wrong, and what to do.
        why: String,
    },
    /// The thread that carries out collectives in the background is gone.
    #[error("rank {rank}: the background thread {what}")]
    Background {
        /// Whose thread.
        rank: u32,
        /// What happened to it.
        what: String,
    },
}

impl Error {
    /// Whether every rank meets it alike before anything is sent, so that the communicator stays whole.
    pub(crate) const fn is_common(&self) -> bool {
        matches!(
            self,
            Self::Length { .. }
                | Self::NoSuchRank { .. }
                | Self::Unsupported { .. }
                | Self::NoReduction { .. }
                | Self::Program { .. }
        )
    }
}

impl Error {
    /// What the others hear of it.
    pub(crate) fn failure(&self, rank: u32) -> Failure {
        match self {
            Self::Aborted { failure, .. }
            | Self::Broken { failure, .. }
            | Self::Disconnected { failure, .. } => failure.clone(),
            other => {
                let text = other.to_string();
                // A failure says whose it is.
                let named = text.strip_prefix(&format!("rank {rank}: "));
                let what = named.unwrap_or(&text).to_owned();
                Failure { rank, what }
            }
        }
    }

    /// Whether it may come of the end of another rank of which nobody has told yet: its memory is gone, its connections
    /// are refused.
    fn may_be_an_echo(&self) -> bool {
        use shared_memory::Error::{Open, WrongFile};
        match self {
            // Memory that cannot be made is this rank's own trouble.
            Self::Memory { cause, .. } => matches!(**cause, Open { .. } | WrongFile { .. }),
            Self::Disconnected { .. }
            | Self::Unreachable { .. }
            | Self::Bootstrap { .. }
            | Self::Device { .. } => true,
            _ => false,
        }
    }

    /// The error that a rank gives up with, after it told the others: this one, or what it comes of if that is told
    /// soon.
    #[cold]
    pub(crate) fn give_up(self, bootstrap: &mut dyn Bootstrap) -> Self {
        let rank = bootstrap.rank();
        let mut error = self;
        if error.may_be_an_echo() {
            let until = Instant::now() + NEWS_TIME;
            while Instant::now() < until {
                if let Some(failure) = bootstrap.failure(None) {
                    error = Self::Aborted { rank, failure };
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        bootstrap.fail(&error.failure(rank));
        error
    }
}

/// What a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Data of a peer.
    Data {
        /// The sender.
        from: u32,
        /// On which channel.
        channel: u16,
    },
    /// A free slot towards a peer.
    Slot {
        /// The receiver.
        to: u32,
        /// On which channel.
        channel: u16,
    },
    /// A peer's signal.
    Signal {
        /// Who should give it.
        from: u32,
        /// On which channel.
        channel: u16,
    },
}

impl Waiting {
    /// The rank that is waited for.
    pub const fn peer(self) -> u32 {
        match self {
            Self::Data { from, .. } | Self::Signal { from, .. } => from,
            Self::Slot { to, .. } => to,
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Data { from, channel } => {
                write!(f, "for data of rank {from} on channel {channel}")
            }
            Self::Slot { to, channel } => {
                write!(f, "for a free slot to rank {to} on channel {channel}")
            }
            Self::Signal { from, channel } => {
                write!(f, "for a signal of rank {from} on channel {channel}")
            }
        }
    }
}

/// What made a communicator fail, as every rank hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The rank where it happened.
    pub rank: u32,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.what)
    }
}
