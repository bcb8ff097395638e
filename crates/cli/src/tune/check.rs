//! The check of a proposal by an NCCL library: it takes the files and decides as planned.

use std::path::{Path, PathBuf};

use answers::export::{ExportReport, Kind};
use answers::tune::{LibraryCheck, Proposal};
use anyhow::{Result, bail};
use nccl_binary::check::{Asked, Check, check};
use nccl_binary::job::RESERVED;
use nccl_binary::message::Network;
use plan::Algorithm;
use plan::cost::{Calls, doubling};
use planner::Job;
use planner::cost::RUBIN_DRIVER;
use planner::settings::DRIVER_VERSION;
use program::Protocol;
use records::nccl_log::compare::{Field, FieldComparison, Tally};

use crate::environment::Environment;
use crate::nccl_check::{host_process, library};
use crate::output::Output;
use crate::settings::with_graph_file;

/// NCCL's variable for a graph file.
const GRAPH_FILE: &str = "NCCL_GRAPH_FILE";

/// Asks a library about a job with a proposal, whose files were written.
///
/// # Errors
/// The library is not there.
pub(crate) fn tune_check(
    given: &Path,
    job: &Job,
    proposal: &Proposal,
    done: &ExportReport,
    environment: &Environment,
) -> Result<LibraryCheck> {
    let library = library::find(given, false, environment)?;
    let shown = library.display().to_string();
    Ok(match ask(&library, job, proposal, done) {
        Ok(check) => of(shown, &check),
        Err(why) => LibraryCheck {
            library: shown,
            version: None,
            agrees: false,
            values: 0,
            differing: 0,
            why: Some(format!("{why:#}")),
        },
    })
}

fn ask(library: &Path, job: &Job, proposal: &Proposal, done: &ExportReport) -> Result<Check> {
    let folder = Path::new(&done.folder);
    let file = |kind: Kind| {
        let mut files = done.files.iter().filter(|it| it.kind == kind);
        files.next().map(|it| folder.join(&it.file))
    };
    let graphs = done.files.iter().filter(|it| it.kind == Kind::Graph);
    if proposal.rings.is_some() && graphs.count() > 1 {
        bail!("the ranks of the job read different graph files; NCCL can be asked with one only");
    }
    let settings = &proposal.planned.settings;
    let given = settings
        .deciding()
        .filter(|(name, _)| !RESERVED.contains(name) && *name != DRIVER_VERSION);
    let mut set: Vec<(String, String)> = given
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if proposal.rings.is_some()
        && let Some(graph) = file(Kind::Graph)
    {
        set.push((GRAPH_FILE.to_owned(), graph.display().to_string()));
    }
    let tuner: Option<PathBuf> = file(Kind::Plugin).filter(|_| proposal.needs_choices);
    let asked = Asked {
        program: host_process()?,
        timeout: None,
        network: Network::Merging,
        tuner,
        sizes: doubling(1 << 10, 256 << 20).step_by(3).collect(),
        calls: Calls::ONE,
        peers: false,
        driver: settings.tuning.driver.unwrap_or(RUBIN_DRIVER),
        set,
    };
    let mut found = check(&asked, library, job, |settings| {
        with_graph_file(settings, &mut Output::default())
    })?;
    if asked.tuner.is_some() {
        found.replace(compared_choices(&found, proposal));
    }
    Ok(found)
}

/// What NCCL took beside the choices of the plug-in's table, not the plan's own.
fn compared_choices(found: &Check, proposal: &Proposal) -> FieldComparison {
    let mut tally = Tally::new(Field::Choices);
    let name = |(algorithm, protocol): (Algorithm, Protocol)| format!("{algorithm}/{protocol}");
    for ((collective, bytes), said) in &found.answer.choices {
        let wanted = proposal.choices.choose(*collective, *bytes);
        let wanted = wanted.map(|it| name((it.algorithm, it.protocol)));
        tally.compare(
            format!("{collective} of {bytes} bytes"),
            &name(*said),
            &wanted.unwrap_or_else(|why| why.to_string()),
            String::clone,
        );
    }
    tally.finish()
}

fn of(library: String, check: &Check) -> LibraryCheck {
    let different = check.fields.iter().flat_map(|it| &it.differences);
    let first = check.fields.iter().find(|it| !it.agrees);
    let why = |it: &FieldComparison| match it.differences.first() {
        Some(first) => format!(
            "{}: {}: NCCL {}, planned {}",
            it.field.name(),
            first.what,
            first.nccl,
            first.plan
        ),
        None => format!("{} is lacking", it.field.name()),
    };
    LibraryCheck {
        library,
        version: Some(check.nccl.clone()),
        agrees: check.agrees,
        values: check.fields.iter().map(|it| it.values).sum(),
        differing: different.count() as u64,
        why: first.map(why),
    }
}
