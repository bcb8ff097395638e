//! Decides which channels a communicator uses on a machine, as NCCL does: any version
//! from 2.27 to 2.32 ([`NcclVersion`]).
//!
//! [`plan()`] plans a [`Job`]: some hosts, each described by a topology file. The result holds the
//! plan, how each search went, and what collectives cost.
//!
//! ```
//! use planner::{Job, Settings};
//!
//! let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/gh200/topology.xml");
//! let bytes = std::fs::read(file)?;
//! let document = topology::xml::parse("topology.xml", &bytes)?;
//! let planned = planner::plan(&Job::hosts(document, 2), &Settings::default())?;
//! let json = planned.plan().to_json()?;
//! assert!(planned.explain().starts_with("2 hosts, 2 ranks"));
//! # assert!(json.contains("fingerprint"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here opens a file, reads the environment, looks at a clock, prints or starts a thread.
//!
//! In reading order: [`job`], [`planned`] (the whole recipe), `prepare` (the topologies that a job
//! plans on), [`settings`], [`rules`], [`routing`], [`view`], [`search`], [`host_plan`],
//! [`cluster`], [`connect`], [`cost`], [`memory`],
//! [`explain`], [`what_if`].

mod artifact;
pub mod cluster;
pub mod connect;
pub mod cost;
mod domain;
pub mod error;
pub mod explain;
pub mod host_plan;
pub mod job;
pub mod memory;
mod note;
pub mod planned;
mod prepare;
pub mod routing;
pub mod rules;
pub mod search;
pub mod settings;
mod shared_gpus;
mod sockets;
mod subset;
pub mod view;
pub mod what_if;

pub use cluster::{ClusterPlan, MachinePlan};
pub use connect::JobPlan;
pub use domain::nvlink_domain;
pub use error::Error;
pub use host_plan::HostPlan;
pub use job::{EqualHosts, HostEdit, Job, RankPlacement};
pub use note::Note;
pub use plan::NcclVersion;
pub use planned::{Planned, plan};
pub use prepare::sm_min;
pub use routing::Routing;
pub use rules::Rules;
pub use settings::Settings;
pub use subset::{gpu_devices, with_gpus};
pub use view::View;
