//! The format of plan files.

/// The version that is written and read.
pub(crate) const VERSION: u32 = 2;
