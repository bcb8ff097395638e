//! Reads NCCL's log (`NCCL_DEBUG=INFO`) of versions 2.4 to 2.32.
//!
//! ```
//! let text = "n1:7:9 [0] NCCL INFO Channel 00/02 :    0   1\n";
//! let mut collector = records::nccl_log::Collector::default();
//! collector.read("job.log", text.as_bytes(), |_| {})?;
//! let log = collector.finish();
//! assert_eq!(log.counts.recognized, 1);
//! assert_eq!(log.communicators[0].decisions.rings[&0], [0, 1]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The module opens no file: it reads any [`BufRead`](std::io::BufRead), in memory that the length
//! of the log does not change.
//!
//! In reading order: [`line`](mod@line) (bounded lines), [`utf16`], [`wrapper`] (what others make
//! of lines), [`batch`] (lines that threads share), [`message`] (heads of messages, several in one
//! line), [`statement`] (what a message means), [`decisions`] (values that NCCL decides),
//! [`warning`] (results, shapes of texts), [`collect`] (statements by rank), [`log`] (what a log
//! says), `join` (ranks of a communicator), [`odd`] (ranks and hosts that differ from most),
//! [`rebuilt`] (rings and trees as text), `json` (other forms of values in JSON).

pub mod batch;
pub mod collect;
pub mod compare;
mod cursor;
pub mod decisions;
mod join;
mod json;
pub mod line;
pub mod log;
pub mod message;
pub mod odd;
pub mod rebuilt;
pub mod statement;
pub mod utf16;
pub mod warning;
pub mod wrapper;

pub use collect::{Collector, Known, ParsedLine};
pub use log::{Communicator, Log};
pub use statement::Statement;
