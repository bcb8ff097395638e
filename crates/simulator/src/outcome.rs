//! The result of a run of the simulator.

use crate::model::Model;
use crate::path::Path;
use crate::units::Time;

/// The time of a lane by activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTimes {
    /// When it ended.
    pub end: Time,
    /// In steps: transfers of its own, and local work.
    pub busy: Time,
    /// Waiting for data.
    pub data: Time,
    /// Waiting for a free slot.
    pub slot: Time,
    /// Waiting for a signal.
    pub signal: Time,
}

/// The content of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanContent {
    /// A lane's step: the lane, and the step's place in its shape.
    Step(u32, u32),
    /// A transfer over the network: the connection.
    Network(u32),
}

/// Something that took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its content.
    pub what: SpanContent,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// Bytes that were moved.
    pub bytes: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When the last lane ended.
    pub time: Time,
    /// The causes of the time of the chain of events that ended last.
    pub path: Path,
    /// The lanes, as in the model.
    pub lanes: Vec<LaneTimes>,
    /// Bytes over each link.
    pub link_bytes: Vec<u64>,
    /// Steps that were executed.
    pub steps: u64,
    /// Events that were handled.
    pub events: u64,
    /// The first spans that took time.
    pub spans: Vec<Span>,
    /// Spans beyond the limit.
    pub spans_left_out: u64,
}

/// The need of a step before it begins. Each names the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A slot that has not arrived.
    Data(u32),
    /// A free slot.
    Slot(u32),
    /// A signal.
    Signal(u32),
}

/// Lanes that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the programs do not end: rank {rank}, channel {channel} waits {what}, which never happens; this is a bug in topo"
)]
pub struct Deadlock {
    /// The rank of the first lane that waits.
    pub rank: u32,
    /// Its channel.
    pub channel: u16,
    /// The wait.
    pub what: String,
}

impl Deadlock {
    pub(crate) fn of(model: &Model, lane: u32, missing: Option<Need>) -> Self {
        let of_lane = |lane: u32| model.lanes[lane as usize].rank;
        let sender = |at: u32| of_lane(model.connections[at as usize].sender);
        let what = match missing {
            None => "for nothing".to_owned(),
            Some(Need::Data(at)) => format!("for data from rank {}", sender(at)),
            Some(Need::Signal(at)) => format!("for a signal of rank {}", sender(at)),
            Some(Need::Slot(at)) => {
                let receiver = of_lane(model.connections[at as usize].receiver);
                format!("for a free slot to rank {receiver}")
            }
        };
        let lane = &model.lanes[lane as usize];
        Self {
            rank: lane.rank,
            channel: lane.channel,
            what,
        }
    }
}
