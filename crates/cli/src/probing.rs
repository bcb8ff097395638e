//! `topo probe`: a machine's topology, and what was not found.

use anyhow::Result;
use planner::Settings;
use probe::Probe;
use serde_json::json;

use crate::arguments::machine::{ProbeArguments, ProbeFormat};
use crate::doctor::{self, Report, priced};
use crate::environment::Environment;
use crate::live;
use crate::output::Output;
use crate::render::{Look, machine};

/// Probes and prints.
pub fn run(
    arguments: &ProbeArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let probe = live::probe(arguments, environment)?;
    let report = priced(&probe.findings, &probe.document, &Settings::default());
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    // Standard error is another place, which may be no terminal.
    let plain = Look {
        colour: false,
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

fn json(probe: &Probe, report: &Report) -> Result<String> {
    let value = json!({
        "topology": topology::xml::write(&probe.document),
        "gpus": probe.gpus,
        "nets": probe.nets,
        "machine": probe.machine,
        "findings": report.rows(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
