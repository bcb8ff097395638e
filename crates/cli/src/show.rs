//! `topo show`: a machine as NCCL sees it, or one path through it.

use std::path::Path;
use std::sync::Arc;

use answers::head;
use answers::path::PathReport;
use answers::show::ShowReport;
use answers::{JobSpec, Machine, report};
use anyhow::{Result, bail};
use pages::Page;
use pages::draw::plans::{self, PictureFormat};
use plan::{DecidingAssumption, Plan};
use planner::Settings;
use planner::explain::{self, NodeNames};
use probe::checks::{self, SwitchPort};
use topology::{NodeData, NodeId, System};

use crate::arguments::{ShowArguments, of_variables, refuse_beside_plan};
use crate::environment::Environment;
use crate::input::{self, Source, is_recording};
use crate::live;
use crate::output::{Output, ShowFormat};
use crate::render::{Look, access_control, document, planned_machines, tree};

pub(crate) fn run(
    arguments: &ShowArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machine = match Source::read(&arguments.file, output)? {
        Source::Topology(machine) => machine,
        Source::Plan(name, plan) => {
            output.text = of_plan(&name, &plan, arguments, environment.look())?;
            return Ok(());
        }
    };
    let given = environment.settings(&[], &arguments.variables, &mut output.warnings);
    output.warnings.extend(head::notes(&given));
    let look = environment.look();
    let system = input::system(&machine, &given);
    let assumptions = deciding(&machine, &given);
    let format = format(arguments);
    let json = format == ShowFormat::Json;
    if let Some(picture) = picture(format) {
        if arguments.path.is_some() {
            bail!("a path is no picture; expected --format text or json with --path");
        }
        let system = system?;
        let text = whole(&machine, &system, &given, plans::LOOK);
        output.text = plans::machine(&machine.name, &system, picture, &text);
        return Ok(());
    }
    output.text = match (&arguments.path, system) {
        (None, Ok(system)) if json => {
            let mut shown = ShowReport::of(&machine.name, &system);
            shown.assumptions = assumptions;
            shown.profile = Some(given.rules.version().profile().to_owned());
            report::json(&shown)?
        }
        (None, Ok(system)) => {
            let mut page = Page::default();
            answers::assumptions::add(&mut page, &assumptions);
            let text = whole(&machine, &system, &given, look);
            match page.sections.is_empty() {
                true => text,
                false => format!("{text}{}", page.text(look)),
            }
        }
        (None, Err(_)) if json && machine.document.is_rccl() => {
            report::json(&ShowReport::of_rccl(&machine.name, &machine.document))?
        }
        (None, Err(error)) if json => return Err(error),
        (None, Err(error)) => file_alone(&machine, error, look, output)?,
        (Some(ends), system) => {
            let system = Arc::new(system?);
            let names = NodeNames::new(&system);
            let mut found = one_path(&machine, &names, &system, given, ends, output)?;
            if found.uses_pci() {
                let ports = switch_ports(&arguments.file, &system, found.ends)?;
                let verdict = access_control::access_control(&ports);
                found.verdicts.extend(verdict);
            }
            match json {
                true => report::json(&found)?,
                false => found.page().text(look),
            }
        }
    };
    Ok(())
}

/// The assumptions that decide how a host alone is planned.
fn deciding(machine: &Machine, settings: &Settings) -> Vec<DecidingAssumption> {
    if machine.alternatives.is_empty() {
        return Vec::new();
    }
    let spec = JobSpec::of(machine.clone());
    let planned = spec.clone().job().ok();
    let planned = planned.and_then(|it| planner::plan(&it.job, settings).ok());
    planned.map_or_else(Vec::new, |planned| {
        answers::assumptions::deciding(&spec, settings, &planned)
    })
}

const fn format(arguments: &ShowArguments) -> ShowFormat {
    match arguments.json {
        true => ShowFormat::Json,
        false => arguments.format,
    }
}

const fn picture(format: ShowFormat) -> Option<PictureFormat> {
    match format {
        ShowFormat::Text | ShowFormat::Json => None,
        ShowFormat::Svg => Some(PictureFormat::Svg),
        ShowFormat::Html => Some(PictureFormat::Html),
        ShowFormat::Dot => Some(PictureFormat::Dot),
    }
}

/// The machines of a plan.
fn of_plan(name: &str, plan: &Plan, arguments: &ShowArguments, look: Look) -> Result<String> {
    if arguments.path.is_some() {
        bail!("{name} is a plan, which holds no links; expected a topology file with --path");
    }
    refuse_beside_plan(name, &of_variables(&arguments.variables))?;
    match format(arguments) {
        ShowFormat::Text => Ok(planned_machines::page(plan, look)),
        ShowFormat::Json => Ok(report::json(&ShowReport::of_plan(plan))?),
        _ => bail!("{name} is a plan, which holds no links to draw; expected a topology file"),
    }
}

/// The file's tree, which helps to see why it is not a machine.
fn file_alone(
    machine: &Machine,
    error: anyhow::Error,
    look: Look,
    output: &mut Output,
) -> Result<String> {
    if machine.document.root.children.is_empty() {
        return Err(error);
    }
    // For AMD's files, the reader has already warned.
    if !machine.document.is_rccl() {
        output.warnings.push(format!(
            "only the file is shown, because no machine can be built from it: {error:#}"
        ));
    }
    let kind = if machine.document.is_rccl() {
        ", a topology of AMD's RCCL"
    } else {
        ""
    };
    Ok(format!(
        "{}{kind}\n\n{}",
        look.heading(&machine.name),
        document::tree(&machine.document, look)
    ))
}

fn whole(machine: &Machine, system: &System, settings: &Settings, look: Look) -> String {
    let names = NodeNames::new(system);
    let mut page = Page::new(&machine.name);
    page.remark = explain::machine(system);
    page.field("nccl", settings.rules.version().name());
    format!(
        "{}\n{}",
        page.text(look),
        tree::machine(system, &names, look)
    )
}

fn one_path(
    machine: &Machine,
    names: &NodeNames<'_>,
    system: &Arc<System>,
    settings: Settings,
    ends: &[String],
    output: &mut Output,
) -> Result<PathReport> {
    let [from, to] = ends else {
        bail!("--path takes two devices")
    };
    let found = answers::path::path(&machine.name, system, names, settings, [from, to])?;
    if let Some(error) = &found.refused {
        output.warnings.push(format!(
            "only the widest path is shown, because NCCL gives up on this machine: {error}"
        ));
    }
    Ok(found)
}

/// The switch ports between two devices of a recorded machine; a topology file does not tell.
fn switch_ports(file: &Path, system: &System, ends: [NodeId; 2]) -> Result<Vec<SwitchPort>> {
    if !is_recording(file) {
        return Ok(Vec::new());
    }
    let probe = live::replay(file, |it| it)?;
    let bus_id = |end: NodeId| match &system.node(end).data {
        NodeData::Gpu(gpu) => Some(gpu.bus_id.to_string()),
        NodeData::Net(net) => {
            let found = probe
                .nets
                .iter()
                .find(|it| Some(&it.name) == net.name.as_ref());
            found.and_then(|it| it.bus_id.clone())
        }
        _ => None,
    };
    let [from, to] = ends.map(bus_id);
    Ok(from.zip(to).map_or_else(Vec::new, |(from, to)| {
        checks::ports_between(&probe.machine, &from, &to)
    }))
}
