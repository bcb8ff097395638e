//! Collectives and protocols, under NCCL's names.

use crate::JsonSchema;
use crate::named;
use serde::{Deserialize, Serialize};

/// A collective operation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Collective {
    /// One rank's data to all.
    Broadcast = 0,
    /// The reduction of all ranks' data to one.
    Reduce = 1,
    /// Every rank's data to all.
    AllGather = 2,
    /// To each rank its piece of the reduction.
    ReduceScatter = 3,
    /// The whole reduction to all.
    AllReduce = 4,
    /// From every rank a piece to every other. NCCL composes it of point-to-point transfers.
    AllToAll = 5,
    /// Every rank's data to one. NCCL composes it of point-to-point transfers.
    Gather = 6,
    /// From one rank a piece to each. NCCL composes it of point-to-point transfers.
    Scatter = 7,
    /// One rank's data to one other: a point-to-point transfer.
    SendRecv = 8,
}

impl Collective {
    /// The collectives for which NCCL chooses an algorithm, in the order of its tables.
    pub const TUNED: [Self; 5] = [
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllReduce,
    ];

    /// The name on the command line.
    pub const fn command_name(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
            Self::AllToAll => "all-to-all",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::SendRecv => "send-recv",
        }
    }

    /// Bus bandwidth divided by algorithm bandwidth, as nccl-tests defines them (`PERFORMANCE.md`).
    ///
    /// It is the least number of bytes per byte of message that the busiest link carries. The
    /// message of a collective that gathers or scatters is all ranks' pieces together.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks.max(1));
        match self {
            Self::Broadcast | Self::Reduce | Self::SendRecv => 1.0,
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => (ranks - 1.0) / ranks,
        }
    }

    /// Whether each rank holds or receives only one piece of the message.
    pub const fn splits_message(self) -> bool {
        !matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::AllReduce | Self::SendRecv
        )
    }

    /// Blocks of the message: one for each rank, or one.
    pub const fn blocks(self, ranks: u32) -> u64 {
        if self.splits_message() {
            ranks as u64
        } else {
            1
        }
    }

    /// Whether the collective applies a reduction.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether one rank, the root, has or gets the whole message.
    pub const fn has_root(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }
}

/// How a FIFO slot tells the receiver that its data has arrived.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Protocol {
    /// 4 bytes of data with 4 bytes of flag, stored together: lowest latency, half the bandwidth.
    #[serde(rename = "LL")]
    Ll = 0,
    /// 120 bytes of data with 8 bytes of flag: needs links that keep 128 bytes in order.
    #[serde(rename = "LL128")]
    Ll128 = 1,
    /// Data, a fence, then a counter: full bandwidth.
    Simple = 2,
}

named!(Collective, "collective", |known, text| known.name().eq_ignore_ascii_case(text), {
    Broadcast = "Broadcast",
    Reduce = "Reduce",
    AllGather = "AllGather",
    ReduceScatter = "ReduceScatter",
    AllReduce = "AllReduce",
    AllToAll = "AllToAll",
    Gather = "Gather",
    Scatter = "Scatter",
    SendRecv = "SendRecv",
});

named!(Protocol, "protocol", |known, text| known.name().eq_ignore_ascii_case(text), {
    Ll = "LL",
    Ll128 = "LL128",
    Simple = "Simple",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("ALLREDUCE".parse(), Ok(Collective::AllReduce));
        assert_eq!("ll128".parse(), Ok(Protocol::Ll128));
        let error = "ll64"
            .parse::<Protocol>()
            .map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("`ll64` is no protocol; expected one of LL LL128 Simple".to_owned())
        );
    }

    #[test]
    fn serde_uses_the_same_names() {
        for protocol in Protocol::ALL {
            assert_eq!(
                serde_json::to_string(&protocol).ok(),
                Some(format!("\"{protocol}\""))
            );
        }
    }

    #[test]
    fn bus_factors_of_eight_ranks() {
        for (collective, factor) in [
            (Collective::AllReduce, 1.75),
            (Collective::AllGather, 0.875),
            (Collective::ReduceScatter, 0.875),
            (Collective::AllToAll, 0.875),
            (Collective::Broadcast, 1.0),
            (Collective::Reduce, 1.0),
        ] {
            assert_eq!(collective.bus_factor(8), factor, "{collective}");
        }
    }
}
