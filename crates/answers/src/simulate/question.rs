//! The question about a simulated collective.

use program::{Collective, ElementType, Protocol, Schedule, Transfer};
use serde::Deserialize;

use crate::{Args, JsonSchema, values};

/// A collective to run on the virtual clock.
#[derive(Debug, Clone, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct SimulateQuestion {
    /// The collective
    #[serde(deserialize_with = "values::collective_by_name")]
    #[arg(long, value_name = "NAME", value_parser = crate::names::collective)]
    #[schemars(with = "String")]
    pub collective: Collective,
    /// Size of the message, bytes; of the larger side where a collective gathers or scatters
    #[arg(short, long, value_name = "SIZE", value_parser = program::size::parse)]
    pub size: u64,
    /// The algorithm [default: what NCCL takes, ring or tree; without a plan ring]
    #[serde(default, deserialize_with = "values::some_by_name")]
    #[arg(long, value_name = "NAME")]
    #[schemars(with = "Option<String>")]
    pub algorithm: Option<Schedule>,
    /// The protocol: LL, LL128, Simple [default: what NCCL takes; without a plan Simple]
    #[serde(default, deserialize_with = "values::some_by_name")]
    #[arg(long, value_name = "NAME")]
    #[schemars(with = "Option<String>")]
    pub protocol: Option<Protocol>,
    /// How a mesh moves data [default: fifo; for nvls direct]
    #[serde(default, deserialize_with = "values::some_by_name")]
    #[arg(long, value_name = "NAME")]
    #[schemars(with = "Option<String>")]
    pub transfer: Option<Transfer>,
    /// Use at most N channels [default: as many as NCCL; without a plan 1]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = values::within::<u16>(1..=256))]
    pub channels: Option<u16>,
    /// Type of the elements
    #[serde(
        default = "float",
        rename = "type",
        deserialize_with = "values::by_name"
    )]
    #[arg(short = 'd', long = "type", value_name = "TYPE", default_value = "f32", value_parser = values::one::<ElementType>)]
    #[schemars(with = "String")]
    pub element: ElementType,
    /// The root
    #[serde(default)]
    #[arg(short, long, value_name = "RANK", default_value_t = 0)]
    pub root: u32,
    /// Run every rank, also those that do the same as others
    #[serde(default)]
    #[arg(long)]
    pub every_rank: bool,
    /// Steps and network transfers that are kept for a trace.
    #[serde(skip)]
    #[arg(skip)]
    pub spans: usize,
}

const fn float() -> ElementType {
    ElementType::F32
}

impl SimulateQuestion {
    /// A collective as NCCL runs it.
    pub const fn of(collective: Collective, size: u64) -> Self {
        Self {
            collective,
            size,
            algorithm: None,
            protocol: None,
            transfer: None,
            channels: None,
            element: float(),
            root: 0,
            every_rank: false,
            spans: 0,
        }
    }
}
