//! `topo probe`: a machine's topology, and what was not found.

use anyhow::Result;
use planner::Settings;
use probe::Probe;
use serde_json::json;

use crate::arguments::machine::{ProbeArguments, ProbeFormat};
use crate::doctor::{self, FindingReport, priced};
use crate::environment::Environment;
use crate::live;
use crate::output::{self, Output};
use crate::render::{Look, machine};

pub fn run(
    arguments: &ProbeArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let probe = live::probe(arguments, environment)?;
    let report = priced(&probe.findings, &probe.document, &Settings::default());
    let look = environment.look();
    // Standard error is another place, which may be no terminal.
    let plain = Look {
        color: false,
        ..look
    };
    match arguments.format {
        ProbeFormat::Xml => {
            output.text = topology::xml::write(&probe.document);
            output.notes = doctor::table(&report, plain);
        }
        ProbeFormat::Json => output.text = json(&probe, &report)?,
        ProbeFormat::Text => {
            output.text = machine::page(&probe, look);
            output.text.push_str(&doctor::section(&report, look));
        }
    }
    Ok(())
}

fn json(probe: &Probe, report: &FindingReport) -> Result<String> {
    let value = json!({
        "topology": topology::xml::write(&probe.document),
        "gpus": probe.gpus,
        "nets": probe.nets,
        "machine": probe.machine,
        "findings": report.rows(),
    });
    output::json(&value)
}
