//! The plan of a communicator: which channels its collectives use, as an artifact that outlives the process.
//!
//! A [`Plan`] holds what the planner decided for a job: the [`PlannedMachine`]s it runs on, the [`Graph`] of each search with
//! the path behind every hop, the [`Trail`] that led there, what all ranks have in common ([`Common`]) and what
//! collectives cost ([`CostTable`]). [`Plan::expand`] tells what any one rank does ([`RankView`]). It is written as JSON ([`Plan::to_json`]) that is equal
//! to the byte for equal plans, and read back ([`Plan::from_json`]) only if it is whole, unchanged and of a version
//! that this crate knows. [`nccl_graph`] exchanges graphs with NCCL itself (`NCCL_GRAPH_FILE`).
//!
//! Nothing here decides anything, reads a file or looks at a machine: values come in, values and text go out.
//!
//! The crate `program` writes what each rank does for a collective; [`Expansion::program_channels`] gives it the plan's rings
//! and trees.
//!
//! In reading order: [`graph`], [`trail`], [`connection`], [`channel`], [`transport`], [`machine`], [`order`], [`layout`],
//! [`common`], [`expand`], [`digest`], [`request`], [`fingerprint`], [`algorithm`], [`cost`], [`Plan`], [`compare`](mod@compare), [`nccl_graph`],
//! [`error`].
//!
//! ```
//! use plan::{Fingerprint, Plan, Producer, RequestSummary};
//!
//! let request = RequestSummary { hosts: 1, nvlink_domain: false, collnet: false };
//! let fingerprint = Fingerprint::new("nccl-2.30").topology(b"<system/>", 1).request(&request).finish();
//! let producer = Producer { name: "topo".to_owned(), version: "0.1.0".to_owned() };
//! let plan = Plan::new(producer, "nccl-2.30", fingerprint, request);
//! let text = plan.to_json()?;
//! assert_eq!(Plan::from_json(&text)?, plan);
//! # Ok::<(), plan::Error>(())
//! ```

pub mod algorithm;
pub mod channel;
pub mod common;
pub mod compare;
pub mod connection;
pub mod cost;
pub mod digest;
pub mod error;
pub mod expand;
pub mod fingerprint;
pub mod graph;
pub mod layout;
pub mod machine;
pub mod nccl_graph;
pub mod order;
pub mod request;
pub mod trail;
pub mod transport;

mod json;
mod programs;
mod schema;
// Private, for `use plan::*` would otherwise make the name `plan` ambiguous.
mod plan;
mod validate;

pub use algorithm::Algorithm;
pub use channel::{GraphPaths, neighbours};
pub use common::{
    BaseChannel, Buffers, Common, GraphSummary, JobChannels, MAX_CHANNELS, Nvls, P2pChannels,
};
pub use compare::{ChoiceDifference, Chosen, Comparison, PlanDifference, compare};
pub use connection::{EndPoint, NeighbourPath};
pub use cost::CostTable;
pub use digest::Digest;
pub use error::Error;
pub use expand::{Expansion, NodeParts, RankView};
pub use fingerprint::Fingerprint;
pub use graph::{Graph, GraphChannel, GraphKind, Pattern};
pub use json::schema;
pub use layout::{IslandShape, JobLayout, NodePlace, RankPlace};
pub use machine::{GpuGroup, MachineCpu, MachineGpu, MachineNic, PlannedMachine};
pub use order::{OrderError, RankOrder};
pub use plan::{HostRun, Plan};
pub use request::{Producer, RequestSummary, Setting};
pub use trail::{Attempt, Duplication, Next, SearchEnd, Summary, Trail};
pub use transport::{
    Connection, Gdr, GpuTransport, NetEnd, NoGdr, NotDirect, NotShared, P2pPorts, PortUse, Rail,
    RailPort, Transports,
};
