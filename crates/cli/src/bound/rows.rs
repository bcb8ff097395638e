//! The values of a page of bounds.

use bounds::Shortfall;
use plan::certificate::{LinkSet, Operation};

use bounds::limit::Limit;

/// The bounds of a job, with what NCCL's plan reaches.
#[derive(Debug)]
pub struct JobBounds {
    pub name: String,
    /// The profile of the plan.
    pub profile: String,
    pub hosts: u64,
    pub ranks: u128,
    pub links: LinkSet,
    /// GPUs write to PCIe through Intel host bridges, for which NCCL charges more.
    pub intel_bridges: bool,
    pub rows: Vec<Row>,
}

/// The bound of one operation.
#[derive(Debug)]
pub struct Row {
    pub operation: Operation,
    /// GB/s of bus bandwidth.
    pub bound: f64,
    /// The bound as an exact fraction of 0.1 MB/s.
    pub exact: [u128; 2],
    /// What NCCL's plan reaches, GB/s of bus bandwidth; `None` if NCCL has no algorithm for it.
    pub nccl: Option<f64>,
    /// What forests with checked certificates reach, GB/s of bus bandwidth.
    pub reached: Option<f64>,
    /// Why trees stay more than 5 % below the bound.
    pub shortfall: Option<Shortfall>,
    pub limit: Limit,
}
