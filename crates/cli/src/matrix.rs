//! `topo show --matrix`: what `nvidia-smi topo -m` draws, without nvidia-smi.

use std::collections::BTreeMap;

use answers::matrix::{MatrixReport, Wiring};
use answers::report;
use anyhow::{Result, bail};
use probe::Probe;
use topology::BusId;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::MatrixArguments;
use crate::environment::Environment;
use crate::input::FileOrProbe;
use crate::output::Output;
use crate::render::matrix;

pub(crate) fn run(
    arguments: &MatrixArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let subject = FileOrProbe::read(
        arguments.file.as_deref(),
        &arguments.source,
        environment,
        output,
    )?;
    let (wiring, name) = match &subject {
        FileOrProbe::File { machine, .. } => (Wiring::new(&machine.document), machine.name.clone()),
        FileOrProbe::Probed(probe) => (
            Wiring::with_host_bridges(&probe.document, &host_bridges(probe)),
            "this machine".to_owned(),
        ),
    };
    if wiring.devices.is_empty() {
        bail!(
            "{name} has no GPU with a rank and no network port with a number: there is nothing to draw; \
             `topo doctor` says what is missing"
        );
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => matrix::wiring(&wiring, environment.look()),
        TextOrJson::Json => report::json(&MatrixReport::of(&wiring))?,
    };
    Ok(())
}

/// The host bridge above each PCI function.
fn host_bridges(probe: &Probe) -> BTreeMap<BusId, String> {
    let known = probe.machine.pci.iter();
    known
        .filter_map(|function| {
            Some((
                BusId::parse(&function.bus_id),
                function.root_complex()?.to_owned(),
            ))
        })
        .collect()
}
