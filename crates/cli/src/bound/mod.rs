//! `topo bound`: the most that any schedule of a collective reaches, with proofs.

pub mod json;
pub mod rows;

use std::path::Path;

use anyhow::{Context, Result, bail};
use bounds::limit::Limit;
use bounds::reach::{collective, in_network, nccl};
use bounds::{Shortfall, Wanted, capacity_graph, certify, on_rails};
use plan::Plan;
use plan::certificate::{CapacityGraph, Certificate, LinkSet, Operation, UNITS, check};
use planner::Planned;
use program::Collective;
use topology::{CpuVendor, NodeType};

use crate::arguments::bound::{BoundArguments, Links};
use crate::arguments::compare::TextOrJson;
use crate::environment::Environment;
use crate::input::Source;
use crate::job;
use crate::output::{self, Output};
use crate::render::{bound as page, names};
use crate::report;
use crate::sources;

use json::BoundReport;
use rows::{JobBounds, Row};

pub fn run(
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(proof) = &arguments.check {
        return run_check(proof, arguments, environment, output);
    }
    let planned = planned(arguments, environment, output)?;
    let plan = planned.plan();
    let links = LinkSet::from(arguments.links.unwrap_or(Links::Rules));
    let operations = operations(arguments.collective, &plan)?;
    let graph = graph(&planned, links, arguments.rails);
    let name = names::job(&plan);
    if graph.ranks() < 2 {
        bail!("{name}: the job has one rank, which sends nothing; expected at least two GPUs");
    }
    let wanted = Wanted {
        fingerprint: plan.fingerprint,
        links,
        operations,
        forests: true,
        units: None,
    };
    let certificate = certify(graph, &wanted)?;
    check(&certificate).context("this is a fault of topo: it made a proof that does not hold")?;
    if let Some(file) = &arguments.certificate {
        output::write(file, &certificate.to_json()?)?;
    }
    let bounds = of(name, &certificate, &planned, &plan)?;
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&bounds, environment.look()),
        TextOrJson::Json => report::json(&BoundReport::of(&bounds))?,
    };
    Ok(())
}

/// The links of a job, over a network with or without rails.
fn graph(planned: &Planned, links: LinkSet, rails: bool) -> CapacityGraph {
    let graph = capacity_graph(planned, links);
    match rails {
        true => on_rails(graph),
        false => graph,
    }
}

fn planned(
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    for file in &arguments.job.files {
        if let Source::Plan(name, _) = Source::read(file, output)? {
            bail!(
                "{name} is a plan, which does not hold every link of its machines; expected topology files"
            );
        }
    }
    let machines = sources::machines(&arguments.job, output)?;
    job::plan_machines(machines, &arguments.job, environment, output)
}

/// The operations of a collective, or all.
fn operations(collective: Option<Collective>, plan: &Plan) -> Result<Vec<Operation>> {
    let reduces = in_network(plan, Collective::AllReduce).is_some();
    let all = Operation::ALL
        .into_iter()
        .filter(|operation| reduces || *operation != Operation::AllReduceInNetwork);
    let Some(collective) = collective else {
        return Ok(all.collect());
    };
    let chosen: Vec<Operation> = all
        .filter(|operation| self::collective(*operation) == collective)
        .collect();
    if chosen.is_empty() {
        let known = Operation::ALL.map(self::collective);
        let mut names: Vec<&str> = known.map(Collective::command_name).to_vec();
        names.dedup();
        bail!(
            "--collective {}: it has no bound; expected one of {}",
            collective.command_name(),
            names.join(", ")
        );
    }
    Ok(chosen)
}

fn of(
    name: String,
    certificate: &Certificate,
    planned: &Planned,
    plan: &Plan,
) -> Result<JobBounds> {
    let unit = f64::from(UNITS);
    let rows = certificate.bounds.iter().map(|bound| {
        Ok(Row {
            operation: bound.operation,
            bound: bound.bandwidth.per(unit),
            exact: [bound.bandwidth.numerator, bound.bandwidth.denominator],
            nccl: nccl(plan, bound.operation),
            reached: bound.reached.map(|reached| reached.per(unit)),
            shortfall: Shortfall::of(&certificate.graph, bound),
            limit: Limit::of(&certificate.graph, bound.operation, &bound.proof)
                .map_err(anyhow::Error::msg)?,
        })
    });
    Ok(JobBounds {
        name,
        profile: plan.profile.clone(),
        hosts: certificate.graph.host_count(),
        ranks: certificate.graph.ranks(),
        links: certificate.links,
        intel_bridges: intel_bridges(planned),
        rows: rows.collect::<Result<_>>()?,
    })
}

/// Whether a machine has Intel CPUs, GPUs and no NVSwitch, so that GPUs write through the bridges.
fn intel_bridges(planned: &Planned) -> bool {
    let views = planned.job.hosts.distinct().map(|host| host.view.system());
    let mut views = views.filter(|system| system.count(NodeType::Nvs) == 0);
    views.any(|system| system.cpus().any(|(_, cpu)| cpu.vendor == CpuVendor::Intel))
}

/// Checks a certificate; with a topology also that it is about that job.
fn run_check(
    proof: &Path,
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let name = proof.display();
    if let TextOrJson::Json = arguments.form.format() {
        bail!("--check prints text only; expected no --json or --format json beside it");
    }
    let text = files::read_text(proof, Certificate::MAX_BYTES)
        .with_context(|| format!("cannot read the certificate {name}"))?;
    let certificate = Certificate::from_json(&text).with_context(|| name.to_string())?;
    check(&certificate).with_context(|| name.to_string())?;
    if let Some(asked) = arguments.links
        && LinkSet::from(asked) != certificate.links
    {
        bail!(
            "{name}: the proofs hold, but they count the links of --links {}; expected --links {}",
            Links::name(certificate.links),
            Links::name(asked.into())
        );
    }
    if let Some(asked) = arguments.collective {
        let mut bounds = certificate.bounds.iter();
        if !bounds.any(|bound| self::collective(bound.operation) == asked) {
            bail!(
                "{name}: the proofs hold, but none is about {}, which --collective names",
                asked.command_name()
            );
        }
    }
    let about = match arguments.job.files.is_empty() {
        true => None,
        false => {
            let planned = planned(arguments, environment, output)?;
            if graph(&planned, certificate.links, arguments.rails) != certificate.graph {
                bail!(
                    "{name}: the proofs hold, but for other links than those of {}; expected the job that they were made for",
                    planned.name()
                );
            }
            if planned.plan().fingerprint != certificate.fingerprint {
                bail!(
                    "{name}: the proofs hold for these links, but its fingerprint {} is not that of {}, {}; expected the machines and settings that it was made for",
                    certificate.fingerprint,
                    planned.name(),
                    planned.plan().fingerprint
                );
            }
            Some(planned.name())
        }
    };
    output.text = page::checked(&name.to_string(), &certificate, about.as_deref());
    Ok(())
}
