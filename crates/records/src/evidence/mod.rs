//! Reads what is left of a job that hangs or failed.
//!
//! ```
//! use records::evidence::watchdog::{self, Event};
//!
//! let line = "[rank3]:[E] [Rank 3] Watchdog caught collective operation timeout: \
//!             WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, \
//!             Timeout(ms)=600000) ran for 600045 milliseconds";
//! let Some(Event::Timeout(timeout)) = watchdog::read(line) else { panic!() };
//! assert_eq!((timeout.by.global, timeout.sequence), (Some(3), Some(7)));
//! ```
//!
//! In reading order: [`watchdog`] (lines of PyTorch), [`ras`] (reports of NCCL's RAS),
//! [`inspector`] (collectives that NCCL's profiler plug-in timed), [`bounded`] (values cut while
//! they are read), [`pickle`] (values that Python's pickle format holds), [`recorder`] (PyTorch's
//! flight recorders), [`symbols`] (texts as numbers).

pub mod bounded;
pub mod inspector;
pub mod pickle;
pub mod ras;
pub mod recorder;
pub mod symbols;
pub mod watchdog;

pub use recorder::{Dump, Recorders};
