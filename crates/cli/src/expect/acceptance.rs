//! `topo expect --run`: reads, measures and judges this machine.

use std::path::Path;
use std::sync::Arc;

use answers::acceptance::{AcceptanceReport, AcceptedMachine};
use answers::doctor::{CheckedMachine, doctor};
use answers::{Machine, report};
use anyhow::{Context, Result};
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

pub(crate) fn run(
    arguments: &AcceptanceArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    arguments.outputs.refuse_overwriting(&arguments.dcgm)?;
    let launched = launched_rank(environment)?;
    let host = net::Host::this(None).name;
    // Ranks are placed host by host.
    let first_of = |ranks: u32| {
        launched
            .as_ref()
            .is_none_or(|it| it.rank % ranks.max(1) == 0)
    };
    let ranks_of_host = launched
        .as_ref()
        .and_then(|it| it.local)
        .unwrap_or(u32::MAX);
    let (is_first, tells) = (first_of(ranks_of_host), first_of(u32::MAX));
    let progress = Progress::new(environment, "reading this machine");
    let selection = SelectionArguments::default();
    let probe = live::probe(&arguments.source, &selection, environment)?;
    let gpus = probe.gpus.len() as u32;
    let folder = arguments.output.as_ref().map(|it| match &launched {
        None => it.clone(),
        Some(_) => it.join(files::printable(&host).replace('/', "_")),
    });
    if let Some(folder) = folder.as_ref().filter(|_| is_first) {
        let cannot = || format!("cannot make the folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut programs = Vec::new();
    if gpus > 0 {
        let question = &arguments.question;
        let mut show = |part: &str| progress.set(format!("measuring: {part}"));
        programs = measure(question, gpus, launched.is_some(), is_first, &mut show)?;
    }
    if !is_first {
        return Ok(());
    }
    // nccl-tests print their table on the first rank alone.
    if !tells {
        programs.retain(|it| it.part == answers::acceptance::LINKS);
    }
    let page = machine::page(&probe);
    let driver = probe.answers.driver.value().map(ToString::to_string);
    let document = Arc::new(probe.document.clone());
    let settings = environment.settings(&[], &Default::default(), &mut output.warnings);
    let checked = CheckedMachine {
        file: String::new(),
        content: Ok(Arc::clone(&document)),
        is_probed: true,
        are_bridges_read: probe.are_bridges_read(),
        findings: probe.findings,
    };
    let mut faults = doctor(&[checked], &settings)?;
    crate::doctor::add_dcgm(&mut faults, &arguments.dcgm)?;
    let known = AcceptedMachine {
        host,
        topo: env!("CARGO_PKG_VERSION"),
        driver,
        document: Arc::clone(&document),
        page,
        doctor: faults,
        settings: &settings,
    };
    let answer = AcceptanceReport::of(known, programs);
    drop(progress);
    arguments
        .outputs
        .judge("topo expect --run", &answer.checks, output)?;
    if let Some(folder) = &folder {
        save(
            &answer,
            &Machine::new(&*answer.host, document),
            &settings,
            folder,
        )?;
    }
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
    put("report.xml", &junit("topo expect --run", &answer.checks))?;
    answer
        .programs
        .iter()
        .try_for_each(|it| put(&format!("{}.txt", it.part), &it.out))
}
