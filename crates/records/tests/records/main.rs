//! The integration tests of this crate, in one program.

mod condition;
mod evidence;
mod machines;
mod measurements;
mod near_misses;
mod pasted;
mod prose;
mod published;
mod result_properties;
mod results;
mod samples;
