//! `topo matrix`: what `nvidia-smi topo -m` draws, without nvidia-smi.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use probe::Probe;
use schemars::JsonSchema;
use serde::Serialize;
use topology::BusId;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::MatrixArguments;
use crate::environment::Environment;
use crate::input::FileOrProbe;
use crate::output::Output;
use crate::render::{matrix, words};
use crate::wiring::Wiring;
use answers::report::{self, Report};

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
    output.text = match arguments.form.format() {
        TextOrJson::Text => matrix::wiring(&wiring, environment.look()),
        TextOrJson::Json => report::json(&MatrixReport::of(&wiring))?,
    };
    Ok(())
}

/// The connections between GPUs and NICs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MatrixReport {
    devices: Vec<DeviceRow>,
    /// For each device its connection to each device, in nvidia-smi's letters.
    matrix: Vec<Vec<String>>,
}

/// A GPU or a NIC.
#[derive(Debug, Serialize, JsonSchema)]
struct DeviceRow {
    /// Name in the matrix; in a file of several hosts with its host, `host1/GPU0`.
    label: String,
    kind: DeviceKind,
    /// Name of a NIC.
    name: Option<String>,
    /// NUMA node; null if it is unknown.
    numa: Option<i32>,
    /// CPUs of its NUMA node, as ranges.
    cpus: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DeviceKind {
    Gpu,
    Nic,
}

impl Report for MatrixReport {
    const FORMAT: &'static str = "topo-matrix";
    const VERSION: u32 = 1;
}

impl MatrixReport {
    fn of(wiring: &Wiring) -> Self {
        let all = 0..wiring.devices.len();
        let hosts = wiring.hosts();
        let label = |index: usize| {
            let label = &wiring.devices[index].label;
            match hosts.iter().position(|own| own.contains(&index)) {
                Some(host) if hosts.len() > 1 => format!("host{host}/{label}"),
                _ => label.clone(),
            }
        };
        let devices = wiring
            .devices
            .iter()
            .zip(0..)
            .map(|(device, index)| DeviceRow {
                label: label(index),
                kind: match device.is_gpu {
                    true => DeviceKind::Gpu,
                    false => DeviceKind::Nic,
                },
                name: device.name.clone(),
                numa: (device.numa >= 0).then_some(device.numa),
                cpus: words::processors(&device.affinity),
            });
        let row = |from: usize| -> Vec<String> {
            let letters = all.clone().map(|to| wiring.letters(from, to));
            letters.map(|letters| letters.trim().to_owned()).collect()
        };
        Self {
            devices: devices.collect(),
            matrix: all.clone().map(row).collect(),
        }
    }
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
