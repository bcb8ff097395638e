//! The most that any schedule of a collective reaches, with proofs.
//!
//! In reading order: this file, [`json`].

pub mod json;

use bounds::limit::Limit;
use bounds::reach::{collective, in_network, nccl};
use bounds::{CertificateRequest, Shortfall, capacity_graph, certify, on_rails};
use plan::Plan;
use plan::certificate::{
    CapacityGraph, Certificate, CertificateError, LinkSet, Operation, UNITS, check,
};
use planner::Planned;
use program::Collective;
use topology::{CpuVendor, NodeType};

use crate::names;
pub use json::BoundReport;

/// Which bounds of a job to prove.
#[derive(Debug, Clone, Copy)]
pub struct BoundQuestion {
    /// The links that a schedule may use.
    pub links: LinkSet,
    /// The collective; none: all.
    pub collective: Option<Collective>,
    /// Each NIC reaches only those of its rail.
    pub rails: bool,
    /// Also seek trees that reach the bounds.
    pub forests: bool,
}

impl Default for BoundQuestion {
    fn default() -> Self {
        Self {
            links: LinkSet::Rules,
            collective: None,
            rails: false,
            forests: true,
        }
    }
}

/// The bounds of a job, with what NCCL's plan reaches.
#[derive(Debug)]
pub struct BoundAnswer {
    /// Names of the machines.
    pub name: String,
    /// The profile of the plan.
    pub profile: String,
    /// GPUs write to PCIe through Intel host bridges, for which NCCL charges more.
    pub intel_bridges: bool,
    /// The proofs, which were checked.
    pub certificate: Certificate,
    /// One entry for each operation.
    pub rows: Vec<BoundRow>,
}

/// The bound of one operation.
#[derive(Debug)]
pub struct BoundRow {
    /// The operation.
    pub operation: Operation,
    /// GB/s of bus bandwidth.
    pub bound: f64,
    /// The bound as an exact fraction of 0.1 MB/s.
    pub exact: [u128; 2],
    /// Bus bandwidth of NCCL's plan, GB/s; `None` if NCCL has no algorithm for it.
    pub nccl: Option<f64>,
    /// Bus bandwidth of forests with checked certificates, GB/s.
    pub reached: Option<f64>,
    /// Why trees stay more than 5 % below the bound.
    pub shortfall: Option<Shortfall>,
    /// The limit.
    pub limit: Limit,
}

/// Why there are no bounds.
#[derive(Debug, thiserror::Error)]
pub enum BoundError {
    /// Nothing is sent.
    #[error("{0}: the job has one rank, which sends nothing; expected at least two GPUs")]
    OneRank(String),
    /// The collective has no bound.
    #[error(
        "{} has no bound; expected one of {}",
        .0.command_name(),
        bounded().join(", ")
    )]
    NoBound(Collective),
    /// The links contradict themselves.
    #[error(transparent)]
    Links(CertificateError),
    /// A defect.
    #[error("a proof does not hold, which is a defect, please report it: {0}")]
    Wrong(String),
}

/// The collectives that have bounds.
fn bounded() -> Vec<&'static str> {
    let mut names: Vec<&str> = Operation::ALL
        .map(|it| collective(it).command_name())
        .to_vec();
    names.dedup();
    names
}

/// Proves the bounds of a job.
///
/// # Errors
/// The job has one rank, or the collective has no bound.
pub fn bound(planned: &Planned, question: &BoundQuestion) -> Result<BoundAnswer, BoundError> {
    let plan = planned.plan();
    let operations = operations(question.collective, plan)?;
    let graph = graph(planned, question.links, question.rails);
    let name = names::job(plan);
    if graph.ranks() < 2 {
        return Err(BoundError::OneRank(name));
    }
    let wanted = CertificateRequest {
        fingerprint: plan.fingerprint,
        links: question.links,
        operations,
        forests: question.forests,
        units: None,
    };
    let certificate = certify(graph, &wanted).map_err(BoundError::Links)?;
    check(&certificate).map_err(|why| BoundError::Wrong(why.to_string()))?;
    Ok(BoundAnswer {
        name,
        profile: plan.profile.clone(),
        intel_bridges: intel_bridges(planned),
        rows: rows(&certificate, plan)?,
        certificate,
    })
}

/// The links of a job, over a network with or without rails.
pub fn graph(planned: &Planned, links: LinkSet, rails: bool) -> CapacityGraph {
    let graph = capacity_graph(planned, links);
    match rails {
        true => on_rails(graph),
        false => graph,
    }
}

/// The operations of a collective, or all.
fn operations(asked: Option<Collective>, plan: &Plan) -> Result<Vec<Operation>, BoundError> {
    let reduces = in_network(plan, Collective::AllReduce).is_some();
    let all = Operation::ALL
        .into_iter()
        .filter(|operation| reduces || *operation != Operation::AllReduceInNetwork);
    let chosen = all.filter(|operation| asked.is_none_or(|it| collective(*operation) == it));
    let chosen: Vec<Operation> = chosen.collect();
    match asked {
        Some(asked) if chosen.is_empty() => Err(BoundError::NoBound(asked)),
        _ => Ok(chosen),
    }
}

fn rows(certificate: &Certificate, plan: &Plan) -> Result<Vec<BoundRow>, BoundError> {
    let unit = f64::from(UNITS);
    let rows = certificate.bounds.iter().map(|bound| {
        Ok(BoundRow {
            operation: bound.operation,
            bound: bound.bandwidth.per(unit),
            exact: [bound.bandwidth.numerator, bound.bandwidth.denominator],
            nccl: nccl(plan, bound.operation),
            reached: bound.reached.map(|reached| reached.per(unit)),
            shortfall: Shortfall::of(&certificate.graph, bound),
            limit: Limit::of(&certificate.graph, bound.operation, &bound.proof)
                .map_err(BoundError::Wrong)?,
        })
    });
    rows.collect()
}

/// Whether a machine has Intel CPUs, GPUs and no NVSwitch, so that GPUs write through the bridges.
fn intel_bridges(planned: &Planned) -> bool {
    let views = planned.job.hosts.distinct().map(|host| host.view.system());
    let mut views = views.filter(|system| system.count(NodeType::Nvs) == 0);
    views.any(|system| system.cpus().any(|(_, cpu)| cpu.vendor == CpuVendor::Intel))
}
