//! What several tests share: [`machine`] folders, the [`expectation`] that a machine's folder holds, and [`golden`]
//! answers of NCCL's own code with the comparison to them. [`elsewhere`] finds data that is not in the repository, [`random`] makes
//! machines, [`fake`] makes machines to probe. [`net_plugin`] compiles a net plug-in. [`shared_words`] overwrites shared memory
//! while it is used, [`strangers`] connect to the ports of a job.

pub mod elsewhere;
pub mod expectation;
pub mod fake;
pub mod golden;
pub mod machine;
pub mod net_plugin;
pub mod random;
#[cfg(not(loom))]
pub mod shared_words;
pub mod strangers;

pub use fake::FakeMachine;
pub use machine::{Expectation, Kind, Machine, Origin};
