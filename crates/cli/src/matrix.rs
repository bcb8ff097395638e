//! `topo matrix`: what `nvidia-smi topo -m` draws, without nvidia-smi.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use probe::Probe;
use serde_json::{Value, json};
use topology::BusId;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::MatrixArguments;
use crate::environment::Environment;
use crate::input::FileOrProbe;
use crate::output::{self, Output};
use crate::render::{matrix, words};
use crate::wiring::Wiring;

pub fn run(
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
        FileOrProbe::File(machine) => (Wiring::new(&machine.document), machine.name.clone()),
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
    output.text = match arguments.format {
        TextOrJson::Text => matrix::wiring(&wiring, environment.look()),
        TextOrJson::Json => output::json(&json(&wiring))?,
    };
    Ok(())
}

fn json(wiring: &Wiring) -> Value {
    let all = 0..wiring.devices.len();
    let devices: Vec<Value> = wiring
        .devices
        .iter()
        .map(|device| {
            json!({
                "label": device.label,
                "kind": if device.is_gpu { "gpu" } else { "nic" },
                "name": device.name,
                "numa": (device.numa >= 0).then_some(device.numa),
                "cpus": words::processors(&device.affinity),
            })
        })
        .collect();
    let row = |from: usize| -> Vec<String> {
        let letters = all.clone().map(|to| wiring.letters(from, to));
        letters.map(|letters| letters.trim().to_owned()).collect()
    };
    let matrix: Vec<Vec<String>> = all.clone().map(row).collect();
    json!({"devices": devices, "matrix": matrix})
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
