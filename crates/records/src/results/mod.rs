//! Reads what nccl-tests, rccl-tests, the OSU micro-benchmarks, `topo run` and NCCL's Inspector
//! measured.
//!
//! ```
//! let text = "\
//! # Collective test starting: all_reduce_perf
//! #       size         count      type   redop    root     time   algbw   busbw #wrong
//!      1048576        262144     float     sum      -1    52.40   20.01   35.02      0
//! ";
//! let mut collector = records::results::Collector::default();
//! collector.begin("job.log");
//! text.lines().for_each(|line| collector.line(line));
//! let results = collector.finish();
//! let row = &results.tables[0].rows[0];
//! assert_eq!(row.out_of_place.as_ref().map(|it| it.time_us), Some(52.4));
//! ```
//!
//! The crate opens no file. Lines come without their ends (`nccl_log::line`), and what is kept is
//! bounded.
//!
//! In reading order: [`values`] (what was measured, as values), [`program_name`] (which collective
//! a program runs), [`row`](mod@row) (rows and headers of tables), `named` (tables with other
//! columns, and those of the OSU micro-benchmarks), `markdown` (tables of pages), `facts` (of jobs,
//! in single lines), [`inspector`] (calls of a job), [`collect`] (tables from lines), [`json`]
//! (JSON of nccl-tests and of `topo run`), [`ladder`] (measured beside predicted times),
//! [`published`] (what healthy machines reach), [`shares`] (of predictions), [`starts`],
//! [`shortfall`].

pub mod collect;
mod facts;
pub mod inspector;
pub mod json;
pub mod ladder;
mod markdown;
mod named;
pub mod program_name;
pub mod published;
pub mod row;
pub mod shares;
pub mod shortfall;
pub mod starts;
pub mod values;

pub use collect::Collector;
pub use json::JsonError;
pub use values::{Figures, Results, Row, Table};
