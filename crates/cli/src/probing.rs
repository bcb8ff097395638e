//! `topo probe`: a machine's topology, and what was not found.

use std::sync::Arc;

use crate::JsonSchema;
use answers::doctor::{self, PricedFinding, priced};
use answers::report::{self, Report};
use anyhow::Result;
use pages::Section;
use planner::Settings;
use probe::{Machine, Probe, ProbedGpu, ProbedNet};
use serde::Serialize;

use crate::arguments::machine::{ProbeArguments, ProbeFormat};
use crate::environment::Environment;
use crate::hints;
use crate::live;
use crate::output::Output;
use crate::render::{Look, count, machine};

pub(crate) fn run(
    arguments: &ProbeArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let probe = live::probe(&arguments.source, &arguments.selection, environment)?;
    let document = Arc::new(probe.document.clone());
    let findings = priced(&probe.findings, &document, &Settings::default());
    let look = environment.look();
    // Standard error is another place, which may be no terminal.
    let plain = Look {
        color: false,
        ..look
    };
    let format = match arguments.json {
        true => ProbeFormat::Json,
        false => arguments.format,
    };
    match format {
        ProbeFormat::Xml => {
            output.write(topology::xml::write(&probe.document), None)?;
            let mut section = Section::default();
            output.notes = doctor::findings(&mut section, &findings, &hints::advice).text(plain);
        }
        ProbeFormat::Json => output.text = report::json(&ProbeReport::of(&probe, findings))?,
        ProbeFormat::Text => {
            let mut page = machine::page(&probe);
            let section = page.section("Findings", count(findings.len(), "finding"));
            doctor::findings(section, &findings, &hints::advice);
            output.text = page.text(look);
        }
    }
    Ok(())
}

/// The JSON of `topo probe`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeReport<'a> {
    /// The topology, as NCCL reads and dumps it (XML).
    topology: String,
    /// The GPUs.
    gpus: &'a [ProbedGpu],
    /// The network devices, as NCCL lists them.
    nets: &'a [ProbedNet],
    /// The machine, as the files of `/sys` and `/proc` describe it.
    machine: &'a Machine,
    /// Missing and suspicious values.
    findings: Vec<PricedFinding>,
}

impl Report for ProbeReport<'_> {
    const FORMAT: &'static str = "topo-probe";
    const VERSION: u32 = 1;
}

impl<'a> ProbeReport<'a> {
    fn of(probe: &'a Probe, findings: Vec<PricedFinding>) -> Self {
        Self {
            topology: topology::xml::write(&probe.document),
            gpus: &probe.gpus,
            nets: &probe.nets,
            machine: &probe.machine,
            findings,
        }
    }
}
