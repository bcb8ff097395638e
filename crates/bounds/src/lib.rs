//! Upper bounds of any schedule of a collective on a machine, with proofs, and trees that reach
//! them.
//!
//! [`capacity_graph`] makes the links of a planned job a graph with capacities. [`certify()`] finds
//! for each operation a cut or a partition that no schedule can beat, and packs trees that come
//! near it. Both are stored in a [`Certificate`](plan::certificate::Certificate), whose checker is
//! in the crate `plan` and uses nothing of the search here.
//!
//! Everything is exact integer arithmetic: capacities are whole numbers of 0.1 MB/s, ratios are
//! fractions. The bounds are those of long messages on NCCL's model of the machine.
//!
//! In reading order: [`capacity`], [`collapse`] (equal hosts), [`flow`], [`gather`], [`rooted`],
//! [`partition`], [`pieces`] (all-to-all), [`forest`] (trees), [`certify`](mod@certify),
//! [`forests_of_plan`], [`rings`] (other rings for NCCL).

mod arborescence;
pub mod capacity;
pub mod certify;
pub mod collapse;
mod draft;
mod exchange;
pub mod flow;
pub mod forest;
pub mod forests_of_plan;
pub mod gather;
pub mod limit;
pub mod optimum;
mod pack;
pub mod partition;
pub mod pieces;
mod placed;
mod rank_first;
pub mod reach;
mod reroute;
pub mod rings;
pub mod rooted;
mod routes;
mod shortfall;
mod split;
mod turns;
mod units;

pub use capacity::{capacity_graph, on_rails};
pub use certify::{CertificateRequest, certify};
pub use forests_of_plan::planned_forests;
pub use shortfall::Shortfall;
