//! The links of a job, and the route between any two ranks.

use crate::model::{Link, LinkKind};
use crate::units::{Rate, Time};

/// The route from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The links, as indices into [`Wiring::links`].
    pub links: Vec<u32>,
    /// The limit of the connection alone, whatever the capacity of its links.
    pub limit: Rate,
    /// The kind of the link that gives `limit`.
    pub limit_kind: LinkKind,
    /// From the end of a transfer until the receiver sees it.
    pub latency: Time,
    /// Slots of the receiver, if a proxy sends over a network; `None` if the sender's step moves
    /// the data.
    pub window: Option<u32>,
    /// Slots of the sender; at most 64.
    pub slots: u32,
    /// Bytes on the links for each slot beside its data.
    pub header: u32,
    /// Bytes on the links per byte of data, as a fraction.
    pub expansion: (u32, u32),
}

/// When a rank begins, and what its local work shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankStart {
    /// When its lanes begin.
    pub start: Time,
    /// The link that its reductions and copies share; `None` if they take no time.
    pub work: Option<u32>,
}

/// Why a connection has no route.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WiringError {
    /// The plan has no such connection.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// A link on the only route has failed.
    #[error(
        "rank {from} sends to rank {to} on channel {channel} through {link}, which has failed; plan the job without it, or repair it in the fabric file"
    )]
    Failed {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The channel.
        channel: u16,
        /// The link.
        link: String,
    },
    /// Memory of another host cannot be accessed.
    #[error(
        "rank {from} cannot access the memory of rank {to}, which only the network reaches; take the transfer `fifo`"
    )]
    NotDirect {
        /// The rank that accesses.
        from: u32,
        /// The rank whose memory it is.
        to: u32,
    },
    /// There is no switch that reduces for all ranks.
    #[error("rank {rank} cannot multicast: expected one NVLink domain with NVSwitches")]
    NoMulticast {
        /// The rank.
        rank: u32,
    },
}

/// The links of a job, and routes over them.
pub trait Wiring {
    /// All links.
    fn links(&self) -> &[Link];

    /// The name of a link.
    fn name(&self, link: u32) -> String;

    /// The route from one rank to another on a channel.
    ///
    /// # Errors
    /// There is none.
    fn connect(&self, from: u32, to: u32, channel: u16) -> Result<Wire, WiringError>;

    /// The links with which a rank reads the reduction of all ranks' memory, or writes to all.
    ///
    /// # Errors
    /// There is no switch that does so.
    fn multicast(&self, rank: u32, reads: bool) -> Result<Wire, WiringError> {
        let _ = reads;
        Err(WiringError::NoMulticast { rank })
    }

    /// When a rank begins.
    fn rank(&self, rank: u32) -> RankStart;
}
