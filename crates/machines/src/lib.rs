//! Machines for tests: [`Machine`] opens the folders of `topologies/`, [`random`] makes machines,
//! and [`FakeMachine`] writes a machine as files and driver answers to probe. [`elsewhere`] finds
//! test data outside the repository.

pub mod elsewhere;
pub mod fake;
pub mod machine;
pub mod random;

pub use fake::FakeMachine;
pub use machine::{Expectation, Kind, Machine, Origin};
