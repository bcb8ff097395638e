//! Measured links, as text.

use answers::measured::MeasuredLinks;

use super::Look;

/// The links, what cannot be told apart, and how well the capacities explain the measurements.
pub(crate) fn section(measured: &MeasuredLinks, look: Look) -> String {
    answers::measured::page::section(measured).text(look)
}
