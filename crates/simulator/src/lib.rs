//! Runs the programs of all ranks on a virtual clock.
//!
//! A [`Model`] has [lanes](model::Lane), which execute the steps of bound programs, and
//! [connections](model::Connection), which move slots over routes of links. It is made of the
//! programs of all ranks ([`build()`](build::build)) and of a [`Wiring`], which says how ranks are
//! connected: [`PlannedWiring`] for a plan, [`PlainHosts`] for hosts with one port each. A
//! [`Fabric`] says what is assumed beside. [`simulate()`](simulate::simulate) runs it.
//!
//! # The rules
//!
//! - A step begins when all its slots and signals have arrived and all its FIFOs have a free slot.
//! - Inside a host a step moves its slots itself, as a GPU writes to a peer: it ends when all are
//!   there. Over a network a step fills a slot of its own; a proxy sends slots one after the other
//!   while the receiver has room, and frees each when it is sent.
//! - Transfers that share a link share it fairly (max-min), so that bandwidth which one cannot use
//!   goes to the others.
//! - The receiver sees a slot one latency after its transfer. Free slots are seen at once.
//! - Reductions and copies share the rank's own bandwidth, if it is given.
//!
//! Time is counted in integers, so a repetition is equal to the bit. Lanes that do the same are run
//! once ([`collapse`]).
//!
//! In reading order: [`units`], [`model`], [`wiring`], [`fabric`], `switches`, [`hosts`],
//! `machine_links`, [`inner_links`], [`plan_wiring`], [`mod@build`], [`collapse`], `ends`, `flows`,
//! `lanes`, `run`, [`path`], [`outcome`], [`mod@simulate`].

pub mod build;
pub mod collapse;
mod ends;
pub mod fabric;
mod flows;
pub mod hosts;
pub mod inner_links;
mod lanes;
mod machine_links;
pub mod model;
pub mod outcome;
pub mod path;
pub mod plan_wiring;
mod run;
pub mod simulate;
mod switches;
pub mod units;
pub mod wiring;

pub use build::BuildError;
pub use fabric::{Fabric, FabricError, Latencies};
pub use hosts::PlainHosts;
pub use inner_links::{InnerEnd, InnerLinks, InnerRoute};
pub use model::{LinkKind, Model};
pub use outcome::Outcome;
pub use path::{Cause, Path};
pub use plan_wiring::{Fifos, PlannedWiring};
pub use simulate::{Simulation, simulate};
pub use units::{Rate, Time};
pub use wiring::{Wiring, WiringError};
