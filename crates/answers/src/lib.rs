//! The questions about a job and their answers. The program, the page in the browser and Python
//! ask them here, so that all give the same answer.
//!
//! Nothing here opens a file, reads the environment, looks at a clock, prints or starts a thread.
//!
//! In reading order: [`job`] (a job with all rules of input), [`gpus`], [`order`], [`assume`],
//! [`assumptions`], [`device`], [`suggest`], [`names`], [`sizes`], [`values`] (of questions),
//! [`built_in`], [`head`] (of pages); [`job_options`], [`request`] (a job as JSON), [`question`];
//! the answers: [`overview`], [`cost`], [`communicators`], [`bound`], [`path`], [`show`],
//! [`matrix`], [`rank`], [`program`], [`better_rings`], [`forests`], [`measured`], [`differences`],
//! [`diff`] with its groups, [`ring_price`], [`doctor`], [`mod@diagnose`], [`log`], [`results`],
//! [`simulate`], [`step`], [`what_if`], [`settings`], [`fabric`], [`mod@export`], [`mod@engines`],
//! [`mod@tune`], [`acceptance`]; [`recognize`], [`file_question`]; [`report`] (answers as JSON),
//! [`terminal`] (pages that are text), `perfetto` (traces).

pub mod acceptance;
pub mod assume;
pub mod assumptions;
pub mod better_rings;
pub mod bound;
pub mod built_in;
pub mod communicators;
pub mod cost;
pub mod device;
pub mod diagnose;
pub mod diff;
pub mod differences;
pub mod doctor;
pub mod engines;
pub mod expect;
pub mod export;
pub mod fabric;
pub mod file_question;
pub mod forests;
pub mod gpu_test;
pub mod gpus;
pub mod head;
pub mod job;
pub mod job_options;
pub mod log;
pub mod matrix;
pub mod measured;
pub mod names;
mod nearest_version;
pub mod order;
pub mod overview;
pub mod path;
mod perfetto;
pub mod program;
pub mod question;
pub mod rank;
pub mod recognize;
pub mod report;
pub mod request;
pub mod results;
pub mod ring_price;
pub mod settings;
pub mod show;
pub mod simulate;
pub mod sizes;
pub mod step;
pub mod suggest;
pub mod terminal;
pub mod tune;
pub mod values;
pub mod what_if;

#[cfg(feature = "arguments")]
use clap::{Args, ValueEnum};
#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(not(feature = "arguments"))]
use no_schema::{Args, ValueEnum};
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use assume::Incomplete;
pub use gpus::Gpus;
pub use job::{JobError, JobNote, JobSpec, Machine, MachineJob};
pub use order::Order;
