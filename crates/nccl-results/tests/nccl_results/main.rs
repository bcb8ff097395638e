//! The integration tests of this crate, in one program.

mod collect;
mod fit;
mod properties;
