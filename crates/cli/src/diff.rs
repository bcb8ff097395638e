//! `topo diff`: two machines, settings or plans by what a job would notice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::diff::groups::{self, Content, Groups};
use answers::diff::{DiffError, DiffReport, diff};
use answers::head;
use answers::job_options::Variables;
use answers::sizes::{self, Sizes};
use answers::{JobSpec, Machine, report};
use anyhow::{Context, Error, Result, anyhow, bail};
use pages::draw::plans;
use plan::{NcclVersion, Plan};
use planner::Planned;
use topology::differences::{Inventory, MachineDifference};
use topology::edit::Edit;

use crate::arguments::compare::{DiffArguments, DiffFormat};
use crate::arguments::{of_variables, refuse_beside_plan};
use crate::environment::Environment;
use crate::input::{Source, refuse_missing, why};
use crate::job::{self, Remedy};
use crate::output::Output;
use crate::render::Look;
use crate::settings::read_settings;

/// One side: its file, settings and edits.
struct Side<'a> {
    file: &'a Path,
    set: &'a [(String, String)],
    nccl: Option<NcclVersion>,
    /// A and B are of different versions.
    upgraded: bool,
    without: &'a [Edit],
    degrade: &'a [Edit],
}

impl Side<'_> {
    /// Whether an option is for this side only.
    const fn is_edited(&self) -> bool {
        self.upgraded
            || !(self.set.is_empty() && self.without.is_empty() && self.degrade.is_empty())
    }
}

/// Prints the differences; the exit status is 1 if there are any.
pub(crate) fn run(
    arguments: &DiffArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input can be read once only; expected a file for one of the two");
    }
    match arguments.files.as_slice() {
        [] => bail!("no file is given; expected at least one"),
        [first] => two(arguments, [first, first], environment, output),
        [first, second] => two(arguments, [first, second], environment, output),
        files => many(arguments, files, environment, output),
    }
}

/// Groups three or more files.
fn many(
    arguments: &DiffArguments,
    files: &[PathBuf],
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let of_sides = [&arguments.set_a, &arguments.set_b]
        .iter()
        .any(|set| !set.is_empty())
        || [
            &arguments.without_a,
            &arguments.without_b,
            &arguments.degrade_a,
            &arguments.degrade_b,
        ]
        .iter()
        .any(|edits| !edits.is_empty())
        || arguments.nccl.len() > 1;
    if of_sides {
        bail!(
            "{} files are given, but options for A or B such as --set-b are for two; expected --set, which applies to all",
            files.len()
        );
    }
    files.iter().try_for_each(|file| refuse_missing(file))?;
    let mut members = Vec::new();
    for file in files {
        let content = match Source::read(file, output) {
            Ok(Source::Plan(_, plan)) => Content::Plan(plan),
            Ok(Source::Topology(machine)) => Content::Machine(machine.document),
            Err(problem) => Content::Unreadable(why(file, &problem)),
        };
        members.push((file.display().to_string(), content));
    }
    groups::refuse_unreadable(&members)?;
    let variables = variables(arguments, &[], arguments.nccl.first().copied());
    let given = read_settings(&[], &variables, environment, output)?;
    let hosts = arguments.hosts.unwrap_or(1);
    output.warnings.extend(head::notes(&given));
    let groups = Groups::of(members, &given, |content| {
        let document = match content {
            Content::Plan(plan) => return Ok(plan.clone()),
            Content::Unreadable(why) => return Err(why.clone()),
            Content::Machine(document) => Arc::clone(document),
        };
        let machine = Machine::new(&*document.file, document.clone());
        // Notes on each plan would say the same of most files.
        let mut quiet = Output::default();
        let planned = job::checked(
            spec(machine, hosts, arguments),
            Remedy::Complete,
            &mut quiet,
        )
        .and_then(|job| job::plan_job(&job, &given, &mut quiet));
        match planned {
            Ok(planned) => Ok(planned.plan().clone()),
            Err(problem) => Err(format!("{problem:#}")),
        }
    })?;
    let report = DiffReport::of_groups(groups);
    output.differs = !report.equal;
    output.text = match arguments.format() {
        DiffFormat::Html => bail!(
            "{} files are given, but --format html shows two machines; expected two",
            files.len()
        ),
        DiffFormat::Text => text(&report, environment.look()),
        DiffFormat::Json => report::json(&report)?,
    };
    Ok(())
}

/// The page; empty where nothing differs.
fn text(report: &DiffReport, look: Look) -> String {
    let page = report.page.as_ref();
    page.map_or_else(String::new, |page| page.text(look))
}

/// The versions of A and B.
fn versions(given: &[NcclVersion]) -> Result<[Option<NcclVersion>; 2]> {
    Ok(match *given {
        [] => [None; 2],
        [both] => [Some(both); 2],
        [first, second] => [Some(first), Some(second)],
        _ => bail!(
            "--nccl is given {} times; expected once for both, or once for A and once for B",
            given.len()
        ),
    })
}

/// The files of A and B with the options of each.
fn sides<'a>(
    arguments: &'a DiffArguments,
    [first, second]: [&'a PathBuf; 2],
) -> Result<[Side<'a>; 2]> {
    let [nccl_a, nccl_b] = versions(&arguments.nccl)?;
    let upgraded = nccl_a != nccl_b;
    let first = Side {
        file: first,
        set: &arguments.set_a,
        nccl: nccl_a,
        upgraded,
        without: &arguments.without_a,
        degrade: &arguments.degrade_a,
    };
    let second = Side {
        file: second,
        set: &arguments.set_b,
        nccl: nccl_b,
        upgraded,
        without: &arguments.without_b,
        degrade: &arguments.degrade_b,
    };
    Ok([first, second])
}

/// Compares A and B.
fn two(
    arguments: &DiffArguments,
    files: [&PathBuf; 2],
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let [first, second] = sides(arguments, files)?;
    refuse_missing(first.file)?;
    if arguments.files.len() < 2 && !first.is_edited() && !second.is_edited() {
        bail!(
            "only one file is given, and no option tells A from B; expected a second one, or options such as --set-b, --without-b or a second --nccl"
        );
    }
    if arguments.files.len() < 2 && first.file == Path::new("-") {
        bail!("standard input can be read once only; expected a file for one of the two");
    }
    let sizes =
        sizes::expand(&arguments.sizes, 2, Sizes::USUAL).map_err(|problem| anyhow!(problem))?;
    let sources = [
        Source::read(first.file, output)?,
        Source::read(second.file, output)?,
    ];
    if let [Source::Plan(name, _), Source::Plan(..)] = &sources {
        refuse_beside_plan(name, &of_variables(&variables(arguments, &[], None)))?;
    }
    // A machine is compared with a plan as a job of as many hosts.
    let hosts = arguments
        .hosts
        .or_else(|| sources.iter().find_map(equal_hosts));
    let hosts = hosts.unwrap_or(1);
    let devices = devices(&sources, [&first, &second]);
    if let Some(names) = both_of_amd(&sources, [&first, &second]) {
        return files_alone(names, &devices, arguments, environment, output);
    }
    let [source, other] = sources;
    let (name, plan, planned) = read(source, hosts, arguments, &first, environment, output)?;
    let (other_name, other, other_planned) =
        read(other, hosts, arguments, &second, environment, output)?;
    let sides = [(name.as_str(), &plan), (other_name.as_str(), &other)];
    let answer = diff(sides, devices, &sizes).map_err(|error| match error {
        DiffError::Costs { .. } => anyhow!("{error} (topo plan -o writes them)"),
        error => error.into(),
    })?;
    output.differs = !answer.equal;
    output.text = match arguments.format() {
        DiffFormat::Text => text(&answer, environment.look()),
        DiffFormat::Html => {
            let (Some(one), Some(other)) = (&planned, &other_planned) else {
                bail!("a plan holds no links to draw; expected topology files with --format html");
            };
            plans::differences([one, other], &text(&answer, plans::LOOK)).map_err(Error::msg)?
        }
        DiffFormat::Json => report::json(&answer)?,
    };
    Ok(())
}

/// The names of two files that NCCL does not plan.
fn both_of_amd<'s>(sources: &'s [Source; 2], sides: [&Side<'_>; 2]) -> Option<[&'s str; 2]> {
    match sources {
        [Source::Topology(one), Source::Topology(other)]
            if one.document.is_rccl()
                && other.document.is_rccl()
                && !sides.iter().any(|it| it.is_edited()) =>
        {
            Some([&one.name, &other.name])
        }
        _ => None,
    }
}

/// Compares files that NCCL does not plan.
fn files_alone(
    names: [&str; 2],
    devices: &[MachineDifference],
    arguments: &DiffArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let report = DiffReport::of_files(names.map(str::to_owned), devices);
    output.differs = !report.equal;
    output.text = match arguments.format() {
        DiffFormat::Html => bail!(
            "{} and {} are topologies of AMD's RCCL, which are not drawn; expected --format text or json",
            names[0],
            names[1]
        ),
        DiffFormat::Text => text(&report, environment.look()),
        DiffFormat::Json => report::json(&report)?,
    };
    Ok(())
}

/// How the devices of the second file differ from those of the first. Edits are known anyway.
fn devices(sources: &[Source; 2], sides: [&Side<'_>; 2]) -> Vec<MachineDifference> {
    let edited = |side: &&Side<'_>| !(side.without.is_empty() && side.degrade.is_empty());
    match sources {
        [Source::Topology(one), Source::Topology(other)] if !sides.iter().any(edited) => {
            Inventory::of(&one.document).differences(&Inventory::of(&other.document))
        }
        _ => Vec::new(),
    }
}

/// The number of hosts of a plan, if they are equal and joined by the network.
fn equal_hosts(source: &Source) -> Option<u32> {
    let Source::Plan(_, plan) = source else {
        return None;
    };
    let one = plan.machines.len() == 1 && plan.machines.iter().all(|machine| machine.hosts == 1);
    one.then_some(plan.request.hosts)
}

fn read(
    source: Source,
    hosts: u32,
    arguments: &DiffArguments,
    side: &Side<'_>,
    environment: &Environment,
    output: &mut Output,
) -> Result<(String, Plan, Option<Planned>)> {
    match source {
        Source::Plan(name, plan) => {
            // The job's options are for the other side when that is a machine.
            let given = [
                ("--without", !side.without.is_empty()),
                ("--degrade", !side.degrade.is_empty()),
                ("--set", !side.set.is_empty()),
                ("--nccl", side.nccl.is_some()),
            ];
            refuse_beside_plan(&name, &given)?;
            Ok((name, plan, None))
        }
        Source::Topology(machine) => {
            let variables = variables(arguments, side.set, side.nccl);
            let given = read_settings(
                std::slice::from_ref(&machine),
                &variables,
                environment,
                output,
            )?;
            output.warnings.extend(head::notes(&given));
            let file = machine.document.file.to_string();
            let spec = JobSpec {
                edits: [side.without, side.degrade].concat(),
                ..spec(machine, hosts, arguments)
            };
            let job = job::checked(spec, Remedy::Complete, output)?;
            let planned = job::plan_job(&job, &given, output).context(file)?;
            Ok((planned.name(), planned.plan().clone(), Some(planned)))
        }
    }
}

/// The options for both sides, with the variables and the version of one.
fn variables(
    arguments: &DiffArguments,
    set: &[(String, String)],
    nccl: Option<NcclVersion>,
) -> Variables {
    Variables {
        set: [&arguments.set[..], set].concat(),
        nccl,
        engine: arguments.engine.clone(),
        driver_version: arguments.driver_version.clone(),
    }
}

/// A job of hosts like a machine, with the options for both sides.
fn spec(machine: Machine, hosts: u32, arguments: &DiffArguments) -> JobSpec {
    JobSpec {
        hosts,
        nvlink_domain: arguments.nvlink_domain,
        collnet: arguments.collnet,
        as_is: arguments.preparation.as_is,
        physical_ports: arguments.preparation.physical_ports(),
        ..JobSpec::of(machine)
    }
}
