//! The bounds of a job in one line, for pages about its plan.

use plan::Plan;
use plan::certificate::{LinkSet, Operation, UNITS};
use planner::Planned;

use crate::capacity::capacity_graph;
use crate::certify::{CertificateRequest, certify};
use crate::limit::Limit;
use crate::reach::{in_network, nccl};
use program::Collective;

/// Most different hosts of a job whose bounds are found beside its plan.
const MOST_CLASSES: usize = 8;

/// Most ranks of a host, for the same reason.
const MOST_RANKS: usize = 128;

/// The limit of one operation, and the bandwidth of NCCL's plan.
#[derive(Debug)]
pub struct Optimum {
    /// The operation.
    pub operation: Operation,
    /// No schedule has more bus bandwidth, GB/s.
    pub bound: f64,
    /// Bandwidth of NCCL's plan, GB/s.
    pub nccl: f64,
    /// The limit of the operation.
    pub limit: Limit,
}

impl Optimum {
    /// NCCL's share of the bound.
    pub fn share(&self) -> f64 {
        self.nccl / self.bound
    }

    /// NCCL's share in percent; 100 only for the whole bound.
    pub fn percent(&self) -> String {
        let percent = 100.0 * self.share();
        match (99.5..99.95).contains(&percent) {
            true => format!("{percent:.1} %"),
            false => format!("{percent:.0} %"),
        }
    }
}

/// The bounds of all-gather and all-reduce; none for jobs of one rank or of many different hosts.
pub fn of(planned: &Planned) -> Vec<Optimum> {
    let operations = vec![Operation::AllGather, all_reduce(planned.plan())];
    certified(planned, operations)
}

/// The bound of one collective; `None` for the same jobs, and for collectives without a bound.
pub fn of_collective(planned: &Planned, collective: Collective) -> Option<Optimum> {
    let operation = match collective {
        Collective::AllReduce => all_reduce(planned.plan()),
        Collective::AllGather => Operation::AllGather,
        Collective::ReduceScatter => Operation::ReduceScatter,
        Collective::Broadcast => Operation::Broadcast,
        Collective::Reduce => Operation::Reduce,
        _ => return None,
    };
    certified(planned, vec![operation]).pop()
}

/// The operation of all-reduce: with the network's reductions where the plan has an algorithm for
/// them.
fn all_reduce(plan: &Plan) -> Operation {
    match in_network(plan, Collective::AllReduce) {
        Some(_) => Operation::AllReduceInNetwork,
        None => Operation::AllReduce,
    }
}

fn certified(planned: &Planned, operations: Vec<Operation>) -> Vec<Optimum> {
    let plan = planned.plan();
    let graph = capacity_graph(planned, LinkSet::Rules);
    let large = graph.hosts.iter().any(|class| class.ranks() > MOST_RANKS);
    if graph.ranks() < 2 || graph.hosts.len() > MOST_CLASSES || large {
        return Vec::new();
    }
    let wanted = CertificateRequest {
        fingerprint: plan.fingerprint,
        links: LinkSet::Rules,
        operations,
        forests: false,
        units: None,
    };
    let Ok(certificate) = certify(graph, &wanted) else {
        return Vec::new();
    };
    let optimum = |bound: &plan::certificate::Bound| {
        let reached = match bound.operation {
            Operation::AllReduceInNetwork => {
                let other = nccl(plan, Operation::AllReduce).unwrap_or(0.0);
                nccl(plan, bound.operation)?.max(other)
            }
            operation => nccl(plan, operation)?,
        };
        Some(Optimum {
            operation: bound.operation,
            bound: bound.bandwidth.per(f64::from(UNITS)),
            nccl: reached,
            limit: Limit::of(&certificate.graph, bound.operation, &bound.proof).ok()?,
        })
    };
    let all = certificate.bounds.iter().filter_map(optimum);
    all.filter(|it| it.bound > 0.0).collect()
}

/// The line of a plan's page; `None` if nothing is known.
pub fn line(planned: &Planned) -> Option<String> {
    let all = of(planned);
    let parts = all.iter().map(|it| {
        let collective = match it.operation {
            Operation::AllGather => "all-gather",
            _ => "all-reduce",
        };
        format!(
            "{collective} at most {:.1} GB/s, NCCL reaches {}",
            it.bound,
            it.percent()
        )
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
