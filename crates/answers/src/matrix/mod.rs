//! The connections of GPUs and NICs as `nvidia-smi topo -m` draws them.

mod wiring;

use crate::JsonSchema;
use serde::Serialize;

use crate::names::processors;
use crate::report::Report;
pub use wiring::{Device, Wiring};

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
    /// The report of a machine.
    pub fn of(wiring: &Wiring) -> Self {
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
                cpus: processors(&device.affinity),
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
