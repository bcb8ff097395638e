//! The ends of FIFOs that proxies get: slots are copied, or a NIC accesses them itself.

use super::in_place::{InPlaceInflow, InPlaceOutflow};

pub use super::flow::{Inflow, Outflow, Oversized};

/// Slots that a proxy sends.
pub enum SlotsOut {
    /// Slots that are copied.
    Copied(Box<dyn Outflow>),
    /// Slots that a NIC reads itself.
    InPlace(InPlaceOutflow),
}

/// Slots that a proxy receives.
pub enum SlotsIn {
    /// Slots that are copied.
    Copied(Box<dyn Inflow>),
    /// Slots that a NIC writes itself.
    InPlace(InPlaceInflow),
}
