//! The plan of a communicator: the channels of its collectives, as a file.
//!
//! A [`Plan`] holds the planner's decisions for a job:
//!
//! - the [`PlannedMachine`]s, with the [`Graph`] of each search, the path of every hop, and the
//!   [`Trail`] of the search;
//! - what all ranks have in common ([`Common`]);
//! - what collectives cost ([`CostTable`]).
//!
//! A plan fits together: it is checked once, when it is made or read, and does not change. It also
//! holds what any rank does ([`Plan::expansion`], [`RankView`]). [`Plan::to_json`] writes equal
//! plans as equal bytes, and [`Plan::from_json`] refuses plans that are truncated, changed or of an
//! unknown version. [`nccl_graph`] exchanges graphs with NCCL itself (`NCCL_GRAPH_FILE`).
//!
//! The crate decides nothing, and reads neither files nor machines. [`Expansion::program_channels`]
//! gives the crate `program` the plan's rings and trees, over which it writes each rank's steps.
//!
//! ```no_run
//! let text = std::fs::read_to_string("plan.json")?;
//! let plan = plan::Plan::from_json(&text)?;
//! for group in plan.machines.iter().flat_map(|machine| &machine.groups) {
//!     for graph in &group.graphs {
//!         for channel in &graph.channels {
//!             println!("{}: ranks {:?}", graph.kind, channel.ranks);
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`graph`], [`trail`], [`connection`], [`channel`], [`transport`], [`machine`],
//! [`order`], [`layout`], [`common`], [`expand`], [`digest`], [`request`], [`fingerprint`],
//! [`algorithm`], [`cost`], [`PlanContent`], [`Plan`], [`slow_hosts`],
//! [`compare`](mod@compare), [`nccl_graph`], [`error`], [`certificate`], [`forest`], [`measured`],
//! [`assumption`], [`version`].

pub mod algorithm;
pub mod assumption;
pub mod certificate;
pub mod channel;
pub mod common;
pub mod compare;
pub mod connection;
pub mod cost;
pub mod digest;
pub mod error;
pub mod expand;
pub mod fingerprint;
pub mod forest;
pub mod graph;
pub mod layout;
pub mod machine;
pub mod measured;
pub mod nccl_graph;
pub mod order;
pub mod request;
pub mod slow_hosts;
pub mod trail;
pub mod transport;
pub mod version;

mod certified_forest;
mod content;
mod format;
mod json;
mod programs;
mod ranges;
#[cfg(feature = "schema")]
mod schema;
// Private, because `use plan::*` would otherwise make the name `plan` ambiguous.
mod plan;
mod validate;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use algorithm::Algorithm;
pub use assumption::{DecidingAssumption, PlanFigures};
pub use channel::{GraphPaths, neighbors};
pub use common::{
    BaseChannel, Buffers, Common, GraphSummary, JobChannels, LL_BYTES, MAX_CHANNELS, Nvls,
    P2pChannels, PeerOrder,
};
pub use compare::{ChoiceDifference, Comparison, PlanDifference, SizeChoice, compare};
pub use connection::{EndPoint, NeighborPath};
pub use content::{HostRun, PlanContent};
pub use cost::CostTable;
pub use digest::Digest;
pub use error::Error;
pub use expand::{Expansion, NodeParts, RankView};
pub use fingerprint::Fingerprint;
pub use forest::{PlannedForest, PlannedTree, PlannedTrees};
pub use graph::{Graph, GraphChannel, GraphKind, Pattern};
#[cfg(feature = "schema")]
pub use json::schema;
pub use layout::{DomainShape, JobLayout, NodePlace, RankPlace};
pub use machine::{GpuGroup, MachineCpu, MachineGpu, MachineNic, PlannedMachine};
pub use measured::{PlannedLink, PlannedLinks};
pub use order::{OrderError, RankOrder};
pub use plan::Plan;
pub use ranges::ranges;
pub use request::{Producer, RequestSummary, Setting};
pub use slow_hosts::{ChannelSpeed, HostRange, SlowGraph, SlowHosts};
pub use trail::{Attempt, Duplication, Next, SearchEnd, Summary, Trail};
pub use transport::{
    Connection, Gdr, GpuTransport, InnerPorts, NetEnd, NoGdr, NotDirect, NotShared, P2pPorts,
    PortUse, Rail, RailPort, Transports,
};
pub use version::{NcclVersion, UnknownVersion};
