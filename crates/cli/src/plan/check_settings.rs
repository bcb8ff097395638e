//! `topo plan --check-settings`: what NCCL's settings do to a job.

use std::path::Path;

use answers::report;
use answers::settings::{SettingsAnswer, SettingsReport, settings};
use anyhow::{Context, Result, bail};
use planner::Settings;

use crate::arguments::PlanArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::{Output, PlanFormat};
use crate::render::{Look, trim_lines, version, wrap};
use crate::settings::{read_settings, with_graph_file};
use crate::sources::{self, Sources};

/// Largest file with settings that is read, bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// The indent of lines below a verdict.
const BELOW: &str = "             ";

pub(super) fn run(
    arguments: &PlanArguments,
    file: Option<&Path>,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, _) => {
            bail!(
                "{name} is a plan, whose settings were read; expected topology files with --check-settings"
            )
        }
        Sources::Machines(machines) => machines,
    };
    let given = match file {
        Some(file) => {
            let mut variables = of_file(file)?;
            variables.extend(arguments.job.variables.set.iter().cloned());
            let version = arguments.job.variables.nccl.unwrap_or_default();
            with_graph_file(Settings::with_variables(version, variables), output)?
        }
        None => read_settings(&arguments.job.variables, environment, output)?,
    };
    let job = job::job(machines, &arguments.job, environment, output)?;
    let answer = settings(&job, &given)?;
    output.differs = answer.has_faults();
    let format = match arguments.json {
        true => PlanFormat::Json,
        false => arguments.format,
    };
    output.text = match format {
        PlanFormat::Json => report::json(&SettingsReport::of(&answer))?,
        PlanFormat::Text => page(&answer, environment.look()),
        _ => bail!("--check-settings prints text or JSON; expected --format text or json"),
    };
    Ok(())
}

/// NCCL's variables of a file: lines `NAME=VALUE`, as in nccl.conf and as `env` prints them, or as
/// the system keeps a process's environment.
fn of_file(file: &Path) -> Result<Vec<(String, String)>> {
    let text = files::read_text(file, FILE_LIMIT)
        .with_context(|| format!("cannot read settings from {}", file.display()))?;
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.split(['\n', '\0']) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // A shell takes quotes off; NCCL and `env` do not know them.
        let (line, quoted) = match line.strip_prefix("export ") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let bare = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
        let bare = bare('"').or_else(|| bare('\'')).filter(|_| quoted);
        // As in NCCL, the first of equal names counts.
        if name.starts_with("NCCL_") && found.iter().all(|(known, _)| known != name) {
            found.push((name.to_owned(), bare.unwrap_or(value).to_owned()));
        }
    }
    if found.is_empty() {
        bail!(
            "{} has no setting of NCCL; expected lines such as NCCL_CROSS_NIC=0",
            file.display()
        );
    }
    Ok(found)
}

fn page(answer: &SettingsAnswer, look: Look) -> String {
    let mut text = format!("{}\n", look.heading(&answer.name));
    text.push_str(&version::of_profile(answer.version.profile(), look));
    if answer.given.is_empty() {
        text.push_str(&look.field("settings", "none are given: NCCL's defaults"));
        return text;
    }
    let mut body = String::new();
    for finding in &answer.findings {
        let values = finding.names.iter().map(|name| {
            let value = answer.given.iter().find(|(known, _)| known == name);
            value.map_or_else(|| name.clone(), |(name, value)| format!("{name}={value}"))
        });
        let values: Vec<_> = values.collect();
        let head = format!("  {:<10} ", finding.verdict.name());
        body.push_str(&wrap(&values.join(" "), &head, BELOW, look.width));
        let sentence = wrap(&finding.text, BELOW, BELOW, look.width);
        body.push_str(&match finding.verdict.is_fault() {
            true => look.notice(&sentence),
            false => look.faint(&sentence),
        });
    }
    text.push_str(&look.section("Settings", "what each does to this job", &body));
    trim_lines(&text)
}
