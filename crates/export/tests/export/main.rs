//! The integration tests of this crate, in one program.

mod choices;
mod mscclpp;
