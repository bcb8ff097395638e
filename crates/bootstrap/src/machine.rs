//! The demands of the state machines, roots and members, on their drivers.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::link::{Kind, LinkError};
use crate::message::{Conn, Message};

/// An action of a state machine. Its driver does them in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<B> {
    /// Connect; then call `connected` or `closed`.
    Connect {
        /// The connection's number.
        conn: Conn,
        /// The address.
        to: Box<SocketAddr>,
        /// The purpose.
        kind: Kind,
    },
    /// Send a message over an open connection.
    Send {
        /// The connection.
        conn: Conn,
        /// The message.
        message: Message<B>,
    },
    /// Close a connection after everything is sent. `closed` is not called.
    Close {
        /// The connection.
        conn: Conn,
    },
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Nothing listens at the address, or the host cannot be reached.
    Refused(String),
    /// The other side closed it.
    Ended,
    /// It broke.
    Broken(String),
    /// The received data is not trusted.
    Distrusted(LinkError),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "cannot be connected to: {why}"),
            Self::Ended => f.write_str("was closed by the other side"),
            Self::Broken(why) => write!(f, "broke: {why}"),
            Self::Distrusted(error) => write!(f, "cannot be trusted: {error}"),
        }
    }
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time for all ranks to meet.
    pub join: Duration,
    /// Interval of messages to neighbors.
    pub beat: Duration,
    /// Time without a message from a neighbor after which it has timed out.
    pub silence: Duration,
    /// Interval of attempts to connect.
    pub retry: Duration,
    /// How long a root and a member stay when they are done, so that others hear of a failure.
    pub linger: Duration,
}

impl Default for Timing {
    /// A minute to meet, a message every second, and a timeout after 15 s without one.
    fn default() -> Self {
        Self {
            join: Duration::from_secs(60),
            beat: Duration::from_secs(1),
            silence: Duration::from_secs(15),
            retry: Duration::from_millis(100),
            linger: Duration::from_secs(2),
        }
    }
}

/// With more ranks per root, the ranks connect one after the other (NCCL's
/// `NCCL_UID_STAGGER_THRESHOLD`).
pub const STAGGER_THRESHOLD: u32 = 256;

/// Ranks that then connect per second (NCCL's `NCCL_UID_STAGGER_RATE`).
pub const STAGGER_RATE: u32 = 7000;

/// The ranks of a root: groups in rank order whose sizes differ by at most one, larger ones first.
pub const fn group(ranks: u32, roots: u32, index: u32) -> std::ops::Range<u32> {
    let (size, larger) = (ranks / roots, ranks % roots);
    let extra = if index < larger { index } else { larger };
    let begin = index * size + extra;
    let own = size + if index < larger { 1 } else { 0 };
    begin..begin + own
}

/// The root of a rank.
pub const fn root_of(ranks: u32, roots: u32, rank: u32) -> u32 {
    let (size, larger) = (ranks / roots, ranks % roots);
    let in_larger = larger * (size + 1);
    if rank < in_larger {
        rank / (size + 1)
    } else {
        larger + (rank - in_larger) / if size == 0 { 1 } else { size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_ranks_once() {
        for ranks in 1..60 {
            for roots in 1..=ranks.min(17) {
                let mut next = 0;
                for index in 0..roots {
                    let group = group(ranks, roots, index);
                    assert_eq!(group.start, next);
                    assert!(group.clone().all(|it| root_of(ranks, roots, it) == index));
                    next = group.end;
                }
                assert_eq!(next, ranks);
            }
        }
    }
}
