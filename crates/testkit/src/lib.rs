//! Machines for tests: [`Machine`] opens the folders of `topologies/`, [`random`] makes machines,
//! [`FakeMachine`] writes a machine as files and driver answers to probe, and [`phantom`] gives
//! programs phantom GPUs, and [`comparable`](fn@comparable) leaves out what a probe cannot find.
//! [`elsewhere`] finds test data outside the repository, [`browser`] draws pages, and `network` has
//! a net plug-in over the loopback interface and connections by strangers.

pub mod browser;
pub mod comparable;
pub mod elsewhere;
pub mod fake;
#[cfg(unix)]
pub mod launch_options;
pub mod machine;
#[cfg(unix)]
pub mod network;
#[cfg(unix)]
pub mod phantom;
pub mod random;

pub use comparable::comparable;
pub use fake::FakeMachine;
pub use machine::{Expectation, Kind, Machine, Origin};
