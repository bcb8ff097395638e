//! The questions about a job and their answers. The program, the page in the browser and Python
//! ask them here, so that all give the same answer.
//!
//! Nothing here opens a file, reads the environment, looks at a clock, prints or starts a thread.
//!
//! In reading order: [`job`] (a job with all rules of input), [`gpus`], [`order`], [`assume`],
//! [`suggest`].

pub mod assume;
pub mod gpus;
pub mod job;
pub mod order;
pub mod suggest;

pub use assume::Incomplete;
pub use gpus::Gpus;
pub use job::{JobError, JobNote, JobSpec, Machine, MachineJob};
pub use order::Order;
