//! The plan of a communicator: which channels its collectives use, as an artifact that outlives the process.
//!
//! A [`Plan`] holds what the planner decided for a job: the [`Machine`]s it runs on, the [`Graph`] of each search with
//! the path behind every hop, the [`Trail`] that led there, what all ranks have in common ([`Common`]) and what
//! collectives cost ([`CostTable`]). [`Plan::expand`] tells what any one rank does ([`RankView`]). It is written as JSON ([`Plan::to_json`]) that is equal
//! to the byte for equal plans, and read back ([`Plan::from_json`]) only if it is whole, unchanged and of a version
//! that this crate knows. [`nccl_graph`] exchanges graphs with NCCL itself (`NCCL_GRAPH_FILE`).
//!
//! Nothing here decides anything, reads a file or looks at a machine: values come in, values and text go out.
//!
//! From a plan's channels [`lower`] writes the [`program`] of every rank, for one collective by one algorithm; [`verify`]
//! proves such programs together, and only then are they bound to a message and run.
//!
//! ```no_run
//! let text = std::fs::read_to_string("plan.json")?;
//! let plan = plan::Plan::from_json(&text)?;
//! for graph in plan.machines.iter().flat_map(|machine| &machine.groups).flat_map(|group| &group.graphs) {
//!     for channel in &graph.channels {
//!         println!("{}: ranks {:?}", graph.kind, channel.ranks);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`graph`], [`trail`], [`connection`], [`channel`], [`transport`], [`machine`], [`order`], [`layout`],
//! [`common`], [`expand`], [`fingerprint`], [`collective`], [`element`], [`cost`], [`Plan`], [`compare`](mod@compare), [`schema`], [`nccl_graph`],
//! [`error`], [`program`], [`lower`], [`verify`].
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

pub mod channel;
pub mod collective;
pub mod common;
pub mod compare;
pub mod connection;
pub mod cost;
pub mod element;
pub mod error;
pub mod expand;
pub mod fingerprint;
pub mod graph;
pub mod layout;
pub mod lower;
pub mod machine;
pub mod nccl_graph;
pub mod order;
pub mod program;
pub mod schema;
pub mod trail;
pub mod transport;
pub mod verify;

mod json;
// Private, for `use plan::*` would otherwise make the name `plan` ambiguous.
mod plan;
mod validate;

pub use channel::{GraphPaths, neighbours};
pub use collective::{Algorithm, Collective, Protocol};
pub use common::{Base, Buffers, Channels, Common, GraphSummary, MAX_CHANNELS, Nvls, P2pChannels};
pub use compare::{ChoiceDifference, Chosen, Comparison, Difference, compare};
pub use connection::{EndPoint, NeighbourPath};
pub use cost::CostTable;
pub use element::{ElementType, Reduction};
pub use error::Error;
pub use expand::{Expansion, NodeParts, RankView};
pub use fingerprint::{Digest, Fingerprint};
pub use graph::{Graph, GraphChannel, GraphKind, Pattern};
pub use layout::{HostRun, Layout, NodePlace, RankPlace, Shape};
pub use machine::{Group, Machine, MachineCpu, MachineGpu, MachineNic};
pub use order::{OrderError, RankOrder};
pub use plan::{Plan, Producer, RequestSummary, Setting};
pub use trail::{Attempt, Duplication, End, Next, Summary, Trail};
pub use transport::{
    Connection, Gdr, GpuTransport, NetEnd, NoGdr, NotDirect, NotShared, P2pPorts, PortUse, Rail,
    RailPort, Transports,
};
