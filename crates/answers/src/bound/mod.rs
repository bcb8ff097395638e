//! The most that any schedule of a collective reaches, with proofs.
//!
//! In reading order: this file, `page`.

mod page;

use bounds::limit::Limit;
use bounds::reach::{collective, in_network, nccl};
use bounds::{CertificateRequest, Shortfall, capacity_graph, certify, on_rails};
use findings::Check;
use pages::Page;
use plan::Plan;
use plan::certificate::{
    CapacityGraph, Certificate, CertificateError, LinkSet, Operation, UNITS, check,
};
use planner::Planned;
use program::Collective;
use serde::{Deserialize, Serialize};
use topology::{CpuVendor, NodeType};

use crate::measured::{MeasuredLinks, OnMeasured};
use crate::names;
use crate::report::Report;
use crate::values;
use crate::{Args, JsonSchema};
pub use page::checked;

/// Which bounds of a job to prove.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct BoundQuestion {
    /// Only this collective: all-gather, reduce-scatter, all-reduce, broadcast, reduce, all-to-all
    /// [default: all of them]
    #[serde(default, deserialize_with = "values::some_collective_by_name")]
    #[arg(long, value_name = "NAME", value_parser = names::collective)]
    #[schemars(with = "Option<String>")]
    pub collective: Option<Collective>,
    /// The links that a schedule may use: rules (links and turns on paths that NCCL's rules allow)
    /// or all [default: rules]
    #[serde(default, deserialize_with = "values::some_by_name")]
    #[arg(long, value_name = "SET")]
    #[schemars(with = "Option<String>")]
    pub links: Option<LinkSet>,
    /// The network has rails: a port reaches only the ports with its number on other hosts
    #[serde(default)]
    #[arg(long)]
    pub rails: bool,
    /// Trees that come near the bounds are not searched for.
    #[serde(skip)]
    #[arg(skip)]
    pub without_trees: bool,
}

impl BoundQuestion {
    /// The links that a schedule may use.
    pub fn links(&self) -> LinkSet {
        self.links.unwrap_or(LinkSet::Rules)
    }
}

/// The most that any schedule of each collective reaches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BoundReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u64,
    /// Ranks of the job.
    pub ranks: u128,
    /// The links that a schedule may use.
    pub links: LinkSet,
    /// The measured links that the bounds are about; absent if they are NCCL's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredLinks>,
    /// What was checked of measured links, and what came of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// One entry for each operation.
    pub bounds: Vec<OperationBound>,
    /// The profile of the plan; absent if a binary has judged its version.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    profile: Option<String>,
    /// GPUs write to PCIe through Intel host bridges, for which NCCL charges more.
    #[serde(skip)]
    intel_bridges: bool,
    /// The proofs, which were checked.
    #[serde(skip)]
    pub certificate: Certificate,
}

/// One operation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperationBound {
    /// The operation.
    pub operation: Operation,
    /// No schedule exceeds this bus bandwidth, GB/s.
    pub bound_gbps: f64,
    /// The bound as a fraction: numerator and denominator, 0.1 MB/s.
    pub bound_exact: [u128; 2],
    /// Bus bandwidth of NCCL's plan for long messages, GB/s; null if NCCL has no algorithm for it.
    pub nccl_gbps: Option<f64>,
    /// Bus bandwidth that forests with checked certificates reach, GB/s; null if there are none.
    pub reached_gbps: Option<f64>,
    /// Why the forests stay more than 5 % below the bound (`uneven`: traffic in and out shares
    /// links, which cuts do not count; `more-trees`: it takes more trees than are tried;
    /// `too-large`: none are sought for so many ranks); null if they do not.
    pub shortfall: Option<&'static str>,
    /// Switches at which traffic in and out shares links, the most uneven first, if that is why.
    pub uneven_at: Vec<String>,
    /// The border that limits the operation.
    pub tight: String,
    /// The links over the border; empty for a partition.
    pub tight_links: Vec<TightLink>,
    /// The links over the border in short.
    pub limit: String,
    /// Why the forests stay below the bound, in words.
    #[serde(skip)]
    why: Option<String>,
}

/// A link over a tight border.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TightLink {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Its type.
    pub kind: String,
    /// Bandwidth, GB/s.
    pub bandwidth_gbps: f64,
    /// Number of hosts that have it.
    pub hosts: u32,
}

impl Report for BoundReport {
    const FORMAT: &'static str = "topo-bound";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
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
    /// The plan contradicts itself on measured links.
    #[error(transparent)]
    Plan(plan::Error),
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
pub fn bound(planned: &Planned, question: &BoundQuestion) -> Result<BoundReport, BoundError> {
    on_links(planned, planned.plan(), question)
}

/// Proves the bounds of a job on measured links.
///
/// # Errors
/// As [`bound`].
pub fn bound_on(
    measured: &OnMeasured,
    question: &BoundQuestion,
) -> Result<BoundReport, BoundError> {
    let plan = measured.priced_plan().map_err(BoundError::Plan)?;
    Ok(BoundReport {
        checks: measured.links.link_checks(),
        measured: Some(measured.links.clone()),
        intel_bridges: false,
        ..on_links(&measured.planned, &plan, question)?
    })
}

/// The bounds of a job's links, beside what a plan reaches.
fn on_links(
    planned: &Planned,
    plan: &Plan,
    question: &BoundQuestion,
) -> Result<BoundReport, BoundError> {
    let operations = operations(question.collective, plan)?;
    let graph = graph(planned, question.links(), question.rails);
    let name = names::job(plan);
    if graph.ranks() < 2 {
        return Err(BoundError::OneRank(name));
    }
    let wanted = CertificateRequest {
        fingerprint: plan.fingerprint,
        links: question.links(),
        operations,
        forests: !question.without_trees,
        units: None,
    };
    let certificate = certify(graph, &wanted).map_err(BoundError::Links)?;
    check(&certificate).map_err(|why| BoundError::Wrong(why.to_string()))?;
    Ok(BoundReport {
        name,
        hosts: certificate.graph.host_count(),
        ranks: certificate.graph.ranks(),
        links: certificate.links,
        measured: None,
        checks: Vec::new(),
        bounds: rows(&certificate, plan)?,
        profile: Some(plan.profile.clone()),
        intel_bridges: intel_bridges(planned),
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

fn rows(certificate: &Certificate, plan: &Plan) -> Result<Vec<OperationBound>, BoundError> {
    let unit = f64::from(UNITS);
    let rows = certificate.bounds.iter().map(|bound| {
        let shortfall = Shortfall::of(&certificate.graph, bound);
        let limit = Limit::of(&certificate.graph, bound.operation, &bound.proof)
            .map_err(BoundError::Wrong)?;
        let links = limit.links.iter().map(|link| TightLink {
            from: link.from.clone(),
            to: link.to.clone(),
            kind: link.kind.clone(),
            bandwidth_gbps: link.bandwidth,
            hosts: link.hosts,
        });
        Ok(OperationBound {
            operation: bound.operation,
            bound_gbps: bound.bandwidth.per(unit),
            bound_exact: [bound.bandwidth.numerator, bound.bandwidth.denominator],
            nccl_gbps: nccl(plan, bound.operation),
            reached_gbps: bound.reached.map(|reached| reached.per(unit)),
            shortfall: shortfall.as_ref().map(Shortfall::name),
            tight_links: links.collect(),
            limit: limit.summary(),
            tight: limit.border,
            why: shortfall.as_ref().map(ToString::to_string),
            uneven_at: match shortfall {
                Some(Shortfall::Uneven(names)) => names,
                _ => Vec::new(),
            },
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
