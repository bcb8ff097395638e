//! Regions: memory of callers that a rank shares with other processes, or has opened.

use std::any::Any;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::allocation::Allocation;

/// How far an offer of the own rank is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// These ranks have not answered.
    Offered(Vec<u32>),
    /// All ranks have opened it.
    Open,
    /// It cannot be shared, or a rank could not open it.
    Refused,
}

/// A region of the own rank.
pub(crate) struct OwnRegion {
    pub number: u32,
    pub allocation: Allocation,
    pub stage: Stage,
    /// The number of its offer.
    pub offer: u32,
    /// When it was used last.
    pub used: u64,
    /// What the driver keeps while others may open it.
    pub kept: Option<Box<dyn Any + Send + Sync>>,
}

/// The regions that a rank offers and has opened.
#[derive(Default)]
pub(crate) struct Regions {
    pub own: Vec<OwnRegion>,
    /// Number of own offers.
    pub offers: u32,
    /// Number of offers that were heard, by rank.
    pub heard: FxHashMap<u32, u32>,
    /// Memory of other processes, by rank and region.
    pub opened: FxHashMap<(u32, u32), Box<dyn Any + Send + Sync>>,
    pub looked: Option<Instant>,
    pub uses: u64,
}
