//! `topo plan`: what NCCL would do on a machine, or on many.

mod check_settings;

use answers::Machine;
use answers::assumptions;
use answers::better_rings::{BetterRings, BetterRingsError, better_rings};
use answers::forests::with_forests;
use answers::head;
use answers::measured::{MeasuredLinks, page::section};
use anyhow::{Error, Result, bail};
use pages::draw::plans::{self, PictureFormat};
use plan::Plan;
use planner::Planned;

use crate::arguments::{PlanArguments, Strategy};
use crate::environment::Environment;
use crate::output::{self, Output, PlanFormat};
use crate::progress::Progress;
use crate::render::plan::PlanPage;
use crate::render::summary;
use crate::sources::{self, Sources};
use crate::{job, measured};

pub(crate) fn run(
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if arguments.trees.is_some() && arguments.strategy != Strategy::Forest {
        bail!("--trees is for --strategy forest only");
    }
    if arguments.measured.measured.is_some() && arguments.strategy == Strategy::Nccl {
        bail!(
            "NCCL's own plan knows no measurements; expected --measured with --strategy ring or forest"
        );
    }
    if let Some(path) = &arguments.output {
        output::refuse_overwriting("-o", path, &arguments.job.hosts.files)?;
    }
    if let Some(file) = &arguments.check_settings {
        return check_settings::run(arguments, file.as_deref(), environment, output);
    }
    let mut made = PlanFacts::default();
    let plan = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, plan) => {
            if arguments.strategy != Strategy::Nccl {
                bail!("{name} is a plan; expected topology files with --strategy");
            }
            plan
        }
        Sources::Machines(machines) => {
            let mut assumptions = Vec::new();
            let planned = match arguments.strategy {
                Strategy::Ring => {
                    let rings = with_better_rings(machines, arguments, environment, output)?;
                    let (rings, links) = rings;
                    (made.graph_file, made.rings) = (rings.file, Some(rings.line));
                    made.measured = links;
                    rings.planned
                }
                _ => {
                    let asked = machines.clone();
                    let (job, settings) =
                        job::given(machines, &arguments.job, environment, output)?;
                    let _progress = Progress::new(environment, "planning");
                    let planned = job::plan_job(&job, &settings, output)?;
                    assumptions =
                        job::deciding(asked, &arguments.job, environment, &settings, &planned)?;
                    planned
                }
            };
            let plan = match arguments.strategy {
                Strategy::Forest => {
                    made.measured = measured::links(&arguments.measured, &planned)?;
                    let links = made.measured.as_ref();
                    let on_links = links.map(|links| {
                        planned.on_measured(|system, link| links.bandwidth(system, link))
                    });
                    with_forests(on_links.as_ref().unwrap_or(&planned), arguments.trees)?
                }
                _ => planned.plan().clone(),
            };
            let plan = match &made.measured {
                Some(links) => plan.with_measured(links.in_plan())?,
                None => plan,
            };
            made.planned = Some(planned);
            match assumptions.is_empty() {
                true => plan,
                false => plan.with_assumptions(assumptions)?,
            }
        }
    };
    show(&plan, &made, arguments, environment, output)
}

/// Facts about a plan that was made here, beside it.
#[derive(Debug, Default)]
struct PlanFacts {
    planned: Option<Planned>,
    /// The graph file with other rings than NCCL's.
    graph_file: Option<String>,
    /// The rings that were found, in one line.
    rings: Option<String>,
    /// The measured links.
    measured: Option<MeasuredLinks>,
}

/// Plans a job with the best rings that were found.
fn with_better_rings(
    machines: Vec<Machine>,
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(BetterRings, Option<MeasuredLinks>)> {
    let (job, settings) = job::given(machines, &arguments.job, environment, output)?;
    if settings.graphs.is_some() {
        bail!("{} with --strategy ring", BetterRingsError::GivenRings);
    }
    let planned = job::plan_job(&job, &settings, output)?;
    let links = measured::links(&arguments.measured, &planned)?;
    let rings = better_rings(&job, planned, links.as_ref())?;
    output.warnings.extend_from_slice(&rings.losses);
    Ok((rings, links))
}

/// A warning where ranks of a job have other graphs than the first rank, whose file they must not
/// read.
fn not_for_all(plan: &Plan) -> Option<String> {
    let groups = plan.machines.iter().map(|machine| machine.groups.len());
    let files: usize = groups.sum();
    (files > 1).then(|| {
        format!(
            "the job has {files} graph files, each for other ranks, and this is the first rank's: NCCL fails with the file \
             of other ranks; `topo export --dir DIR` writes all of them and says who reads which"
        )
    })
}

fn show(
    plan: &Plan,
    made: &PlanFacts,
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let live = made.planned.as_ref();
    if let Some(path) = &arguments.output {
        output::write(path, &plan.to_json()?)?;
    }
    let format = match arguments.json {
        true => PlanFormat::Json,
        false => arguments.format,
    };
    if let (Some(planned), true) = (live, format != PlanFormat::Text) {
        output.warnings.extend(head::notes(&planned.settings));
    }
    if let (Some(links), true) = (&made.measured, format != PlanFormat::Text) {
        output.warnings.extend(measured::notes(links));
    }
    if arguments.highlight.is_some() && format != PlanFormat::Svg {
        bail!("--highlight is for --format svg only");
    }
    output.text = match format {
        PlanFormat::Quiet => summary::quiet(plan),
        PlanFormat::Json => {
            let said = plan.assumptions.iter().map(assumptions::sentence);
            output.warnings.extend(said);
            plan.to_json()?
        }
        PlanFormat::NcclGraph => match &made.graph_file {
            Some(file) => file.clone(),
            None => {
                output.warnings.extend(not_for_all(plan));
                plan.graph_file()?
            }
        },
        PlanFormat::Text | PlanFormat::Svg | PlanFormat::Html | PlanFormat::Dot => {
            let page = PlanPage {
                plan,
                expansion: plan.expansion()?,
                live,
                rings: made.rings.as_deref(),
                explain: arguments.explain,
                connections: arguments.connections,
                look: match format {
                    PlanFormat::Text => environment.look(),
                    _ => plans::LOOK,
                },
            };
            let drawn = match format {
                PlanFormat::Svg => PictureFormat::Svg,
                PlanFormat::Html => PictureFormat::Html,
                PlanFormat::Dot => PictureFormat::Dot,
                _ => {
                    let mut page = page.page();
                    let links = made.measured.as_ref();
                    page.sections.extend(links.map(section));
                    output.text = page.text(environment.look());
                    return Ok(());
                }
            };
            let Some(planned) = live else {
                bail!(
                    "a plan holds no links to draw; expected topology files with --format svg, html or dot"
                );
            };
            {
                let text = page.page().text(plans::LOOK);
                plans::plan(planned, &text, drawn, arguments.highlight).map_err(Error::msg)?
            }
        }
    };
    Ok(())
}
