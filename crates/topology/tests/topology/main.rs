//! The integration tests of this crate, in one program.

mod edit;
mod machines;
mod merging;
mod xml_errors;
mod xml_lint;
mod xml_reading;
mod xml_round_trip;
