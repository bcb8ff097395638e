//! The integration tests of this crate, in one program.

mod engines;
mod expect;
mod fit;
mod job;
mod likely;
mod listings;
mod measured;
mod placement;
mod questions;
mod recognize;
mod recorded;
mod settings;
