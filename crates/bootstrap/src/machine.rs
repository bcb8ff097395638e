//! What both kinds of state machine, roots and members, ask of whoever drives them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::link::{Kind, LinkError};
use crate::message::{Conn, Message};

/// What a machine wants done. Whoever drives it does it in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<B> {
    /// Connect; the machine hears `connected` or `closed`.
    Connect {
        /// The connection's number.
        conn: Conn,
        /// Where to.
        to: Box<SocketAddr>,
        /// What for.
        kind: Kind,
    },
    /// Send a message over an open connection.
    Send {
        /// Which.
        conn: Conn,
        /// What.
        message: Message<B>,
    },
    /// Close a connection once everything that was to be sent is sent. The machine hears nothing of it any more.
    Close {
        /// Which.
        conn: Conn,
    },
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Nobody listens there, or the host cannot be reached.
    Refused(String),
    /// The other side closed it.
    Ended,
    /// It broke.
    Broken(String),
    /// What came is not to be trusted.
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

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Until all ranks have met.
    pub join: Duration,
    /// Between two signs of life.
    pub beat: Duration,
    /// Without a sign of life from a neighbor, after which it is given up.
    pub silence: Duration,
    /// Before a root that refused is tried again.
    pub retry: Duration,
    /// How long a root and a member stay when they are done, so that others hear of what happened.
    pub linger: Duration,
}

impl Default for Timing {
    /// A minute to meet, a beat every second, given up after fifteen without one.
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

/// Ranks of one root above which they come one after the other, so that it is not flooded (NCCL's
/// `NCCL_UID_STAGGER_THRESHOLD`).
pub const STAGGER_THRESHOLD: u32 = 256;

/// Ranks that come per second then (NCCL's `NCCL_UID_STAGGER_RATE`).
pub const STAGGER_RATE: u32 = 7000;

/// The ranks of a root: groups in rank order whose sizes differ by one at most, larger ones first.
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
