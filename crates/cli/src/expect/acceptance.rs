//! `topo expect --run`: reads, measures and judges this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::acceptance::{
    AcceptanceQuestion, AcceptanceReport, AcceptedMachine, LINKS, ProgramRun,
};
use answers::doctor::{CheckedMachine, doctor};
use answers::job_options::Variables;
use answers::{Machine, report};
use anyhow::{Context, Error, Result, bail};
use bench::acceptance::measure;
use findings::check::junit;
use pages::draw::plans::{self, PictureFormat};
use planner::Settings;

use crate::arguments::acceptance::AcceptanceArguments;
use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::SelectionArguments;
use crate::environment::Environment;
use crate::input;
use crate::live;
use crate::output::{Output, write};
use crate::progress::Progress;
use crate::render::machine;
use crate::run::launched_rank;

/// This process among those that a launcher started.
struct Place {
    is_launched: bool,
    /// It is the first one of its host: it reads the host, and measures its links.
    is_first: bool,
    /// It is rank 0, where programs print their tables.
    has_tables: bool,
    host: String,
    /// The folder of the report.
    folder: Option<PathBuf>,
}

impl Place {
    fn of(arguments: &AcceptanceArguments, environment: &Environment) -> Result<Self> {
        // A job of one rank measures all GPUs.
        let launched = launched_rank(environment)?.filter(|it| it.world > 1);
        let host = net::Host::this(None).name;
        let is_first = match &launched {
            None => true,
            Some(it) => it.on_host.map(|rank| rank == 0).with_context(|| {
                format!("{} does not say which rank of this host this is", it.by)
            })?,
        };
        let has_tables = launched.as_ref().is_none_or(|it| it.rank == 0);
        let folder = arguments.output.as_ref().map(|it| match &launched {
            None => it.clone(),
            Some(_) => it.join(files::printable(&host).replace('/', "_")),
        });
        if let Some(folder) = folder.as_ref().filter(|_| is_first) {
            let cannot = || format!("cannot make the folder {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
        }
        Ok(Self {
            is_launched: launched.is_some(),
            is_first,
            has_tables,
            host,
            folder: folder.filter(|_| is_first),
        })
    }

    /// Measures as this process is to do.
    fn measure(
        &self,
        question: &AcceptanceQuestion,
        gpus: u32,
        progress: &Progress,
    ) -> Result<Vec<ProgramRun>> {
        let show = |part: &str| progress.set(format!("measuring: {part}"));
        // What was measured stays if the rest is interrupted.
        let mut keep = |run: &ProgramRun| match &self.folder {
            Some(folder) => {
                write(&folder.join(format!("{}.txt", run.part)), &run.out)?;
                match run.errors.is_empty() {
                    true => Ok(()),
                    false => write(
                        &folder.join(format!("{}.errors.txt", run.part)),
                        &run.errors,
                    ),
                }
            }
            None => Ok(()),
        };
        let is_launched = self.is_launched;
        let mut all = match gpus {
            0 => Vec::new(),
            gpus => measure(question, gpus, is_launched, self.is_first, &show, &mut keep)?,
        };
        all.retain(|it| self.has_tables || it.part == LINKS);
        Ok(all)
    }
}

pub(crate) fn run(
    arguments: &AcceptanceArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    arguments.outputs.refuse_overwriting(&arguments.dcgm.dcgm)?;
    if let Some(recording) = &arguments.source.from {
        bail!(
            "--from {}: a recording cannot be measured; expected this machine (topo doctor --from reads it)",
            recording.display()
        );
    }
    let dcgm = arguments.dcgm.read()?;
    let place = Place::of(arguments, environment)?;
    let progress = Progress::new(environment, "reading this machine");
    let selection = SelectionArguments::default();
    let probe = live::probe(&arguments.source, &selection, environment)?;
    let programs = place.measure(&arguments.question, probe.gpus.len() as u32, &progress)?;
    if !place.is_first {
        return Ok(());
    }
    let page = machine::page(&probe);
    let driver = probe.answers.driver.value().map(ToString::to_string);
    let document = Arc::new(probe.document.clone());
    let settings = environment.settings(&[], &Variables::default(), &mut output.warnings);
    let checked = CheckedMachine {
        file: String::new(),
        content: Ok(Arc::clone(&document)),
        is_probed: true,
        are_bridges_read: probe.are_bridges_read(),
        findings: probe.findings,
    };
    let mut faults = doctor(&[checked], &settings)?;
    for (name, bytes) in dcgm {
        faults.add_dcgm(&name, &bytes).map_err(Error::msg)?;
    }
    let known = AcceptedMachine {
        host: place.host,
        topo: env!("CARGO_PKG_VERSION"),
        driver,
        document: Arc::clone(&document),
        page,
        doctor: faults,
        settings: &settings,
        collectives_elsewhere: !place.has_tables,
    };
    let answer = AcceptanceReport::of(known, programs);
    drop(progress);
    if let Some(folder) = &place.folder {
        let machine = Machine::new(&*answer.host, document);
        save(&answer, &machine, &settings, folder)?;
    }
    arguments
        .outputs
        .judge("topo expect --run", &answer.checks, output)?;
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page().text(environment.look()),
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}

/// Writes the report, and what it is made of.
fn save(
    answer: &AcceptanceReport,
    machine: &Machine,
    settings: &Settings,
    folder: &Path,
) -> Result<()> {
    let page = answer.page();
    let text = page.text(plans::LOOK);
    let html = match input::system(machine, settings) {
        Ok(system) => plans::machine(&machine.name, &system, PictureFormat::Html, &text),
        // A machine that is none cannot be drawn.
        Err(_) => pages::draw::html::page(&machine.name, &[], &text),
    };
    let put = |name: &str, text: &str| write(&folder.join(name), text);
    put("topology.xml", &topology::xml::write(&machine.document))?;
    put("report.txt", &text)?;
    put("report.md", &page.markdown())?;
    put("report.html", &html)?;
    put("report.json", &report::json(answer)?)?;
    put("report.xml", &junit("topo expect --run", &answer.checks))
}
