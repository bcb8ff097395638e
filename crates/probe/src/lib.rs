//! Reads a machine and writes its topology as NCCL would dump it.
//!
//! What it takes from outside: files of `/sys` and `/proc` ([`Sysfs`]), the NVIDIA driver's answers ([`nvml`]) and which
//! network interfaces have an address ([`Addresses`]). All three can be recorded and replayed ([`record`]). What it makes
//! of them is a pure function: [`Probe::of`] gives a document, what the machine consists of, and [`Finding`]s. There is
//! always a result; what is missing or odd becomes a finding.
//!
//! Beside it stand [`complete`] (files of cloud vendors) and [`guest`] (files of virtual machines).
//!
//! What it does not: plan, print, ask the environment.
//!
//! ```
//! use probe::nvml::Answers;
//! use probe::{Options, Probe, Rule, Sysfs};
//!
//! let nowhere = Sysfs::new("/nowhere");
//! let probe = Probe::of(&nowhere, Answers::none("no driver"), None, &Options::default());
//! assert!(topology::xml::write(&probe.document).starts_with("<system version=\"1\""));
//! assert!(probe.findings.iter().any(|finding| finding.rule == Rule::NoDriver));
//! ```
//!
//! In reading order: [`sysfs`], [`privacy`], [`machine`], [`nvml`], [`gpu`], [`net`], [`base`], [`tree`], [`record`],
//! [`finding`], [`complete`], [`guest`].

pub mod base;
pub mod complete;
pub mod finding;
pub mod gpu;
pub mod guest;
pub mod machine;
pub mod net;
pub mod nvml;
pub mod privacy;
pub mod record;
pub mod sysfs;
pub mod tree;

mod addresses;
mod probe;

pub use addresses::Addresses;
pub use finding::{Finding, Rule};
pub use gpu::Gpu;
pub use machine::Machine;
pub use net::Net;
pub use probe::{Options, Probe};
pub use sysfs::Sysfs;
