//! Measured links, as text.

use crate::measured::MeasuredLinks;

use super::Look;

/// The links, what cannot be told apart, and how well the capacities explain the measurements.
pub fn section(measured: &MeasuredLinks, look: Look) -> String {
    crate::measured::page::section(measured).text(look)
}
