//! Bounds as JSON.

use crate::JsonSchema;
use bounds::Shortfall;
use plan::certificate::{LinkSet, Operation};
use serde::Serialize;

use super::{BoundAnswer, BoundRow};
use crate::measured::MeasuredLinksReport;
use crate::report::Report;

/// The most that any schedule of each collective reaches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BoundReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u64,
    /// Ranks of the job.
    ranks: u128,
    /// The links that a schedule may use.
    links: LinkSet,
    /// The measured links that the bounds are about; absent if they are NCCL's.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredLinksReport>,
    /// One entry for each operation.
    bounds: Vec<OperationBound>,
}

/// One operation.
#[derive(Debug, Serialize, JsonSchema)]
struct OperationBound {
    /// The operation.
    operation: Operation,
    /// No schedule exceeds this bus bandwidth, GB/s.
    bound_gbps: f64,
    /// The bound as a fraction: numerator and denominator, 0.1 MB/s.
    bound_exact: [u128; 2],
    /// Bus bandwidth of NCCL's plan for long messages, GB/s; null if NCCL has no algorithm for it.
    nccl_gbps: Option<f64>,
    /// Bus bandwidth that forests with checked certificates reach, GB/s; null if there are none.
    reached_gbps: Option<f64>,
    /// Why the forests stay more than 5 % below the bound (`uneven`: traffic in and out shares
    /// links, which cuts do not count; `more-trees`: it takes more trees than are tried;
    /// `too-large`: none are sought for so many ranks); null if they do not.
    shortfall: Option<&'static str>,
    /// Switches at which traffic in and out shares links, the most uneven first, if that is why.
    uneven_at: Vec<String>,
    /// The border that limits the operation.
    tight: String,
    /// The links over the border; empty for a partition.
    tight_links: Vec<TightLink>,
    /// The links over the border in short.
    limit: String,
}

/// A link over a tight border.
#[derive(Debug, Serialize, JsonSchema)]
struct TightLink {
    /// Where it begins.
    from: String,
    /// Where it ends.
    to: String,
    /// Its type.
    kind: String,
    /// Bandwidth, GB/s.
    bandwidth_gbps: f64,
    /// Number of hosts that have it.
    hosts: u32,
}

impl Report for BoundReport {
    const FORMAT: &'static str = "topo-bound";
    const VERSION: u32 = 1;
}

impl BoundReport {
    /// The answer.
    pub fn of(answer: &BoundAnswer) -> Self {
        let certificate = &answer.certificate;
        Self {
            name: answer.name.clone(),
            hosts: certificate.graph.host_count(),
            ranks: certificate.graph.ranks(),
            links: certificate.links,
            measured: answer.measured.as_ref().map(MeasuredLinksReport::of),
            bounds: answer.rows.iter().map(OperationBound::of).collect(),
        }
    }
}

impl OperationBound {
    fn of(row: &BoundRow) -> Self {
        let links = row.limit.links.iter().map(|link| TightLink {
            from: link.from.clone(),
            to: link.to.clone(),
            kind: link.kind.clone(),
            bandwidth_gbps: link.bandwidth,
            hosts: link.hosts,
        });
        Self {
            operation: row.operation,
            bound_gbps: row.bound,
            bound_exact: row.exact,
            nccl_gbps: row.nccl,
            reached_gbps: row.reached,
            shortfall: row.shortfall.as_ref().map(Shortfall::name),
            uneven_at: match &row.shortfall {
                Some(Shortfall::Uneven(names)) => names.clone(),
                _ => Vec::new(),
            },
            tight: row.limit.border.clone(),
            tight_links: links.collect(),
            limit: row.limit.summary(),
        }
    }
}
