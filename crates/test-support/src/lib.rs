//! What several tests share: [`machine`] folders, the [`expectation`] that a machine's folder holds, and [`golden`]
//! answers of NCCL's own code with the comparison to them, and [`fake`] machines to probe.

pub mod expectation;
pub mod fake;
pub mod golden;
pub mod machine;

pub use fake::FakeMachine;
pub use machine::{Expectation, Kind, Machine, Origin};
