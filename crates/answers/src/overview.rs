//! The plan of a job, how it was found, and a picture of a host, as JSON.

use pages::Page;
use pages::draw::plans;
use planner::explain::{self, NodeNames};
use serde_json::{Value, json};
use topology::NodeType;

use crate::assumptions;
use crate::request::PlannedJob;

/// Shows a planned job with a host of one of its distinct machines; `highlight` names channels to
/// draw.
///
/// # Errors
/// There is no such machine, or there are no such channels.
pub fn overview(
    job: &PlannedJob,
    highlight: Option<&str>,
    machine: usize,
) -> Result<Value, String> {
    let plan = job.planned.plan();
    let host = job.host(machine)?;
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
                    "improved": attempt.improved,
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
    let machines = plan.machines.iter().enumerate().map(|(number, it)| {
        let runs = plan.hosts.iter();
        let hosts = runs.filter(|run| run.machine as usize == number);
        let first_ranks: Vec<u32> = hosts.clone().map(|run| run.first_rank).collect();
        json!({
            "name": it.name,
            "summary": it.summary,
            "hosts": hosts.map(|run| run.count * it.hosts).sum::<u32>(),
            "first_ranks": first_ranks,
        })
    });
    let mut page = Page::default();
    assumptions::add(&mut page, &job.assumptions);
    let json = plan.to_json().map_err(|why| why.to_string())?;
    Ok(json!({
        "name": job.planned.name(),
        "summary": explain::machine(names.system()),
        "version": job.planned.version().to_string(),
        "ranks": plan.rank_count(),
        "hosts": plan.request.hosts,
        "machines": machines.collect::<Vec<_>>(),
        "plan": json,
        "graph": job.planned.graph_file().ok(),
        "picture": picture(job, machine, highlight)?,
        "devices": devices.map(|node| names.label(node).to_owned()).collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
        "trails": trails.collect::<Vec<_>>(),
        "notes": job.notes,
        "assumptions": job.assumptions,
        "page": page,
    }))
}

/// A host of a machine, by its place among the distinct ones, with the load of its links, and
/// channels as arrows.
///
/// # Errors
/// There is no such machine, or there are no such channels.
pub fn picture(
    job: &PlannedJob,
    machine: usize,
    highlight: Option<&str>,
) -> Result<String, String> {
    let host = job.host(machine)?;
    let name = &job.planned.machines()[machine].name;
    let highlight = highlight.map(plans::highlight).transpose()?;
    plans::host(&job.planned, (name, host), highlight)
}
