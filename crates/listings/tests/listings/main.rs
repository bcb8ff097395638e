//! The integration tests of this crate, in one program.

mod condition;
mod machines;
mod measurements;
