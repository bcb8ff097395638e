//! The answers.

use std::sync::Arc;

use bounds::{Wanted, capacity_graph, certify};
use draw::{Channels, Marks};
use plan::certificate::{LinkSet, Operation, UNITS, check};
use plan::cost::{TunedOperation, doubling};
use plan::{CostTable, Graph, GraphKind, Pattern, compare};
use planner::HostPlan;
use planner::explain::{self, NodeNames};
use program::Collective;
use serde_json::{Value, json};
use topology::{NodeId, NodeType};

use crate::job::{self, Made};
use crate::request::{JobRequest, Request};
use crate::{doctor, log, results};

/// Sizes of the cost plot: 1 KiB to 4 GiB.
const SIZES: (u64, u64) = (1 << 10, 4 << 30);

/// The collectives of the cost plot.
const COLLECTIVES: [Collective; 5] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::Reduce,
];

/// Most values of plans that are listed as different.
const MOST_FACTS: usize = 400;

/// Answers a request.
///
/// # Errors
/// A sentence for the reader of the page.
pub fn answer(request: &Request) -> Result<Value, String> {
    match request {
        Request::Machines => Ok(machines()),
        Request::Plan { job, highlight } => plan(job, highlight.as_deref()),
        Request::Cost {
            job,
            collective,
            bytes,
        } => one_cost(job, collective, *bytes),
        Request::Path { job, from, to } => path(job, from, to),
        Request::Bound { job } => bound(job),
        Request::Difference { job, other } => difference(job, other),
        Request::Doctor { job } => doctor::answer(job),
        Request::Results { file, job } => results::answer(file, job),
        Request::Log { name, text } => log::answer(name, text),
    }
}

fn machines() -> Value {
    let machines = built_in::MACHINES
        .iter()
        .map(|it| json!({ "name": it.name, "title": it.title, "summary": it.summary }));
    let versions = planner::NcclVersion::ALL.iter().map(ToString::to_string);
    json!({
        "machines": machines.collect::<Vec<_>>(),
        "versions": versions.collect::<Vec<_>>(),
    })
}

/// The first host of a job: hosts that differ are drawn one by one by the program.
fn host(made: &Made) -> Result<&HostPlan, String> {
    let machine = made.planned.machines().first();
    let host = machine.and_then(|machine| machine.nodes.first());
    host.ok_or_else(|| "the job has no host".to_owned())
}

fn plan(request: &JobRequest, highlight: Option<&str>) -> Result<Value, String> {
    let made = job::plan(request)?;
    let plan = made.planned.plan();
    let host = host(&made)?;
    let names = NodeNames::new(host.view.system());
    let devices = [NodeType::Gpu, NodeType::Net, NodeType::Cpu, NodeType::Pci];
    let devices = devices.iter().flat_map(|kind| names.system().nodes(*kind));
    let channels = host.graphs.iter().filter(|it| !it.channels.is_empty());
    let channels = channels.map(|graph| {
        json!({
            "kind": graph.kind.to_string(),
            "count": graph.channels.len(),
            "bandwidth_gbps": graph.bw_intra,
            "network_gbps": graph.bw_inter,
        })
    });
    let trails = host.trails.iter().map(|trail| {
        let attempts = explain::attempts(trail, host.view.inter);
        let attempts = attempts
            .iter()
            .zip(&trail.attempts)
            .map(|(story, attempt)| {
                json!({
                    "asks": story.asks,
                    "found": story.found,
                    "next": story.next,
                    "pass": attempt.pass,
                    "first_pass": story.first_pass,
                    "bandwidth_gbps": attempt.bw_intra,
                })
            });
        json!({
            "kind": trail.kind.to_string(),
            "story": explain::search(trail),
            "attempts": attempts.collect::<Vec<_>>(),
        })
    });
    let json = plan.to_json().map_err(|why| why.to_string())?;
    Ok(json!({
        "name": made.planned.name(),
        "summary": explain::machine(names.system()),
        "version": made.planned.version().to_string(),
        "ranks": plan.rank_count(),
        "plan": json,
        "graph": made.planned.graph_file().ok(),
        "picture": picture(&made, host, highlight, &Marks::default())?,
        "devices": devices.map(|node| names.label(node).to_owned()).collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
        "trails": trails.collect::<Vec<_>>(),
        "costs": plan.costs.as_ref().map(costs),
        "notes": made.notes,
    }))
}

/// A host with the load of its links, and channels as arrows.
fn picture(
    made: &Made,
    host: &HostPlan,
    highlight: Option<&str>,
    marks: &Marks,
) -> Result<String, String> {
    let (kind, channel) = match highlight.map(|it| it.split_once(':').unwrap_or((it, ""))) {
        None => (GraphKind::Ring, None),
        Some((kind, channel)) => {
            let kinds = host.graphs.iter().map(|graph| graph.kind);
            let kind = kinds.into_iter().find(|it| it.to_string() == kind);
            (kind.ok_or("there are no such channels")?, Some(channel))
        }
    };
    let none = Graph::empty(kind, Pattern::Ring);
    let graph = host.graph(kind).unwrap_or(&none);
    let count = graph.channels.len();
    let routes: Vec<usize> = match channel {
        None => Vec::new(),
        Some("") => (0..count).collect(),
        Some(number) => vec![number.parse().map_err(|_| "there is no such channel")?],
    };
    let name = match made.planned.request().hosts {
        0 | 1 => made.planned.name(),
        hosts => format!("{}, one of {hosts} hosts", made.planned.name()),
    };
    let channels = Channels {
        routing: host.view.routing(),
        graph,
        routes: &routes,
        marks,
    };
    Ok(draw::channels(&name, channels, true))
}

/// For each collective the choice and all candidates by size.
fn costs(table: &CostTable) -> Value {
    let rows = COLLECTIVES.iter().map(|collective| {
        let sizes = doubling(SIZES.0, SIZES.1);
        let sizes = sizes.map(|bytes| cost(table, &TunedOperation::new(*collective, bytes)));
        json!({ "collective": collective.to_string(), "sizes": sizes.collect::<Vec<_>>() })
    });
    rows.collect()
}

/// The choice and all candidates.
fn cost(table: &CostTable, operation: &TunedOperation) -> Value {
    let candidates = table.candidates(operation);
    let candidates = candidates
        .iter()
        .map(|(choice, time_us)| json!([format!("{} {}", choice.0, choice.1), time_us]));
    let chosen = table.choose_for(operation).ok();
    json!({
        "bytes": operation.bytes,
        "choice": chosen.as_ref().map(|it| format!("{} {}", it.algorithm, it.protocol)),
        "time_us": chosen.as_ref().map(|it| it.time_us),
        "bus_gbps": chosen.as_ref().and_then(|it| it.bus_bandwidth),
        "channels": chosen.as_ref().map(|it| it.channels),
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

fn one_cost(request: &JobRequest, collective: &str, bytes: u64) -> Result<Value, String> {
    let found = COLLECTIVES
        .iter()
        .find(|it| it.command_name() == collective);
    let found = found.ok_or_else(|| {
        let known = COLLECTIVES.map(|it| it.command_name());
        format!(
            "there are no costs of {collective}, only of {}",
            known.join(", ")
        )
    })?;
    let plan = job::plan(request)?.planned.plan();
    let table = plan.costs.as_ref();
    let table = table.ok_or_else(|| "this version of NCCL has no cost model here".to_owned())?;
    Ok(cost(table, &TunedOperation::new(*found, bytes)))
}

fn path(request: &JobRequest, from: &str, to: &str) -> Result<Value, String> {
    let made = job::plan(request)?;
    let host = host(&made)?;
    let system = Arc::new(host.view.system().clone());
    let names = NodeNames::new(&system);
    let find = |name: &str| {
        let nodes = (0..system.node_count() as u32).map(NodeId);
        // A GPU before its device, which has the same name.
        let mut nodes = nodes.filter(|node| {
            let port = system.net(*node).and_then(|net| net.name.as_deref());
            names.label(*node) == name || port == Some(name)
        });
        nodes
            .next()
            .ok_or_else(|| format!("there is no device {name}"))
    };
    let (from, to) = (find(from)?, find(to)?);
    let answer = explain::path(&system, made.settings, &names, (from, to));
    let answer = answer.map_err(|why| why.to_string())?;
    let shown = |path: &explain::ExplainedPath| {
        let hops = path.hops.iter().map(|hop| {
            json!({
                "from": hop.from,
                "to": hop.to,
                "link": hop.link.name(),
                "bandwidth_gbps": hop.bw,
                "so_far": hop.so_far.to_string(),
                "narrowest": hop.narrowest,
            })
        });
        json!({
            "type": path.kind.to_string(),
            "bandwidth_gbps": path.bw,
            "hops": hops.collect::<Vec<_>>(),
            "reason": path.reason,
        })
    };
    let diverted = answer.diverted.as_ref();
    Ok(json!({
        "from": names.full(from),
        "to": names.full(to),
        "widest": shown(&answer.widest),
        "diverted": diverted.map(|(path, why)| json!({ "path": shown(path), "why": why })),
        "verdicts": answer.verdicts,
    }))
}

fn bound(request: &JobRequest) -> Result<Value, String> {
    let made = job::plan(request)?;
    let plan = made.planned.plan();
    let graph = capacity_graph(&made.planned, LinkSet::Rules);
    if graph.ranks() < 2 {
        return Err("one rank sends nothing; take at least two GPUs".to_owned());
    }
    let wanted = Wanted {
        fingerprint: plan.fingerprint,
        links: LinkSet::Rules,
        operations: Operation::ALL.to_vec(),
        forests: false,
        units: None,
    };
    let certificate = certify(graph, &wanted).map_err(|why| why.to_string())?;
    check(&certificate).map_err(|why| why.to_string())?;
    let rows = certificate.bounds.iter().map(|bound| {
        let value = bound.bandwidth.per(f64::from(UNITS));
        let nccl = bounds::reach::nccl(&plan, bound.operation);
        let limit = bounds::limit::Limit::of(&certificate.graph, bound.operation, &bound.proof)?;
        Ok(json!({
            "operation": bound.operation.to_string(),
            "bound_gbps": value,
            "nccl_gbps": nccl,
            "border": limit.border,
            "limit": limit.summary(),
        }))
    });
    let rows: Result<Vec<Value>, String> = rows.collect();
    Ok(json!({ "bounds": rows? }))
}

fn difference(request: &JobRequest, other: &JobRequest) -> Result<Value, String> {
    let made = [job::plan(request)?, job::plan(other)?];
    let plans = [made[0].planned.plan(), made[1].planned.plan()];
    let sizes: Vec<u64> = doubling(SIZES.0, SIZES.1).collect();
    let found = compare::compare(&plans[0], &plans[1], &sizes).map_err(|why| why.to_string())?;
    let hosts = [host(&made[0])?, host(&made[1])?];
    let names = hosts.map(|host| NodeNames::new(host.view.system()));
    let marks = [
        draw::differences::marks(&names[0], &names[1], "gone"),
        draw::differences::marks(&names[1], &names[0], "new"),
    ];
    let mut pictures = Vec::new();
    for number in [0, 1] {
        pictures.push(picture(&made[number], hosts[number], None, &marks[number])?);
    }
    Ok(json!({
        "equal": found.is_empty(),
        "names": [made[0].planned.name(), made[1].planned.name()],
        "pictures": pictures,
        "facts": found.facts.iter().take(MOST_FACTS).collect::<Vec<_>>(),
        "choices": found.choices.iter().take(MOST_FACTS).collect::<Vec<_>>(),
    }))
}
