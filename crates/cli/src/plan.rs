//! `topo plan`: what NCCL would do on a machine, or on many.

use anyhow::Result;
use plan::Plan;
use planner::Planned;
use planner::explain::NodeNames;

use crate::arguments::PlanArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::{self, Output, PlanFormat};
use crate::render::{
    Look, channels, connections, job_plan, matrix, settings, summary, trail, trim_lines,
};
use crate::wiring::Wiring;

pub fn run(
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let planned = job::plan(&arguments.job, environment, output)?;
    if let Some(path) = &arguments.output {
        output::write(path, &planned.plan().to_json()?)?;
    }
    if arguments.format != PlanFormat::Text {
        output
            .warnings
            .extend(settings::warnings(&planned.settings));
    }
    match arguments.format {
        PlanFormat::Quiet => output.text = summary::quiet(&planned),
        PlanFormat::Json => output.text = planned.plan().to_json()?,
        PlanFormat::NcclGraph => output.text = planned.graph_file()?,
        PlanFormat::Text => {
            let look = environment.look();
            let artifact = arguments.connections.then(|| planned.plan());
            for machine in 0..planned.machines().len() {
                if machine > 0 {
                    output.text.push('\n');
                }
                output
                    .text
                    .push_str(&page(&planned, machine, arguments, artifact.as_ref(), look));
            }
        }
    }
    Ok(())
}

fn page(
    planned: &Planned,
    machine: usize,
    arguments: &PlanArguments,
    artifact: Option<&Plan>,
    look: Look,
) -> String {
    let plan = planned.node(machine);
    let routing = plan.view.routing();
    let names = NodeNames::new(plan.view.system());
    let mut text = summary::head(planned, machine, look);
    let mut section = |title: &str, remark: &str, body: &str| {
        text.push_str(&look.section(title, remark, body));
    };
    let wiring = Wiring::new(&planned.machines()[machine].document);
    section(
        "Wiring",
        "as nvidia-smi topo -m draws it, from the file",
        &matrix::wiring(&wiring, look),
    );
    section(
        "Paths",
        "those NCCL takes, in GB/s",
        &matrix::bandwidths(routing, &names, look),
    );
    let graphs = summary::graphs(plan, look) + &channels::all(plan, look);
    section(
        "Channels",
        "GB/s of each and of all; the worst paths they use",
        &graphs,
    );
    if let Some(artifact) = artifact {
        section(
            "Connections",
            "how the bytes travel, by what is equal",
            &connections::page(artifact, machine, look),
        );
    }
    if machine + 1 == planned.machines().len() {
        section(
            "Job",
            "what all ranks together use",
            &job_plan::facts(&planned.job, look),
        );
    }
    if arguments.explain {
        let attempts = trail::long(&plan.trails, plan.view.inter, look);
        section("Search", "attempt by attempt", &attempts);
    } else {
        let searches = trail::short(&plan.trails, look);
        section("Search", "--explain tells it all", &searches);
    }
    trim_lines(&text)
}
