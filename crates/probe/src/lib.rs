//! Reads a machine and writes its topology as NCCL would dump it.
//!
//! Inputs are files of `/sys` and `/proc` ([`Sysfs`]), the NVIDIA driver's answers ([`nvml`]) and
//! the names of network interfaces with an address ([`Addresses`]). All three can be recorded and
//! replayed (`record`). [`Probe::of`] is a pure function of them and never fails: missing or odd
//! values become [`Finding`]s beside the topology.
//!
//! ```
//! use probe::nvml::Answers;
//! use probe::{ProbeOptions, Probe, Rule, Sysfs};
//!
//! let nowhere = Sysfs::new("/nowhere");
//! let probe = Probe::of(&nowhere, Answers::none("no driver"), None, &ProbeOptions::default());
//! assert!(topology::xml::write(&probe.document).starts_with("<system version=\"1\""));
//! assert!(probe.findings.iter().any(|finding| finding.rule == Rule::NoDriver));
//! ```
//!
//! In reading order: `folder`, `sysfs`, `privacy`, [`machine`], [`nvml`], `gpu`, `net`, [`base`],
//! `tree`, `record`, [`checks`].

pub mod base;
pub mod checks;
mod folder;
mod gpu;
pub mod machine;
mod net;
pub mod nvml;
mod privacy;
pub mod record;
mod sysfs;
mod tree;

mod addresses;
mod probe;
mod probed;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use addresses::Addresses;
pub use findings::{Finding, Rule};
pub use gpu::ProbedGpu;
pub use machine::Machine;
pub use net::ProbedNet;
pub use probed::{Probe, ProbeOptions};
pub use sysfs::Sysfs;
