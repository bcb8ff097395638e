//! Runs a collective on ranks, checks it and times it.
//!
//! In reading order: [`spec`] (what all ranks do), [`plan_parts`] (what they take from a plan),
//! `measure` (the work of a rank), `choose`, `bench`, `latency`, `pace` (launches until the next
//! look at the clock), [`load`] (core time of other programs), `survey` (for [`calibrate`]);
//! threads of this process (`ranks`), [`processes`], [`launched`] (ranks of a launcher),
//! [`threads_of_process`]; [`cuda`]; and what comes of it: [`event`], [`row`], [`report`],
//! [`figures`], [`json`], [`page`](mod@page). [`gpu_test`] is every check that needs GPUs;
//! [`acceptance`] the programs of an acceptance run; [`child_process`] runs one with a deadline.

pub mod acceptance;
mod bench;
mod bind;
pub mod calibrate;
pub mod child_process;
pub mod choose;
mod combine;
pub mod cuda;
pub mod event;
pub mod figures;
pub mod gpu_test;
pub mod json;
mod latency;
pub mod launched;
pub mod load;
mod measure;
pub mod network;
mod pace;
pub mod page;
pub mod plan_parts;
pub mod processes;
pub mod ranks;
pub mod report;
pub mod row;
pub mod spec;
mod survey;
pub mod threads;
pub mod threads_of_process;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use device_runtime::LaunchOptions;
pub use event::{Event, Observer};
pub use load::CoreTime;
pub use network::NetworkOptions;
pub use report::{LaunchReport, RunPlan, RunReport};
pub use row::{FigureTiming, Latency, Launches, RunRow};
pub use spec::{Devices, RunsOn, Spec};
