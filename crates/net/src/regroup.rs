//! Going on after a failure.
