//! The driver: missing drivers and failed calls.

use crate::nvml::{self, Answer, DeviceAnswers};
use crate::probed::Probe;
use findings::{Finding, Rule};

/// The driver's name.
const DRIVER: &str = "nvidia";

/// Errors that only mean that the feature does not exist.
const NO_SUCH_THING: [&str; 3] = ["NotSupported", "InvalidArg", "FailedToLoadSymbol"];

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let gpus = || probe.machine.pci.iter().filter(|it| it.is_nvidia_gpu());
    if let Some(reason) = probe
        .answers
        .driver
        .failure()
        .filter(|_| probe.has_no_driver())
    {
        let seen = match gpus().count() {
            0 => format!("{reason}; no GPU of NVIDIA on the PCI buses"),
            count => format!("{reason}; {count} GPU functions of NVIDIA on the PCI buses"),
        };
        findings.push(match reason.starts_with(nvml::NO_ANSWER) {
            true => Finding::new(Rule::NoAnswer, "the driver", seen, "answers"),
            false => Finding::new(
                Rule::NoDriver,
                "this machine",
                seen,
                format!("the driver's library, {}", nvml::LIBRARY),
            ),
        });
        return findings;
    }
    if let Some(reason) = probe.answers.count.failure() {
        findings.push(Finding::new(
            Rule::NoAnswer,
            "the driver",
            format!("number of GPUs: {reason}"),
            "an answer",
        ));
    }
    for (index, device) in probe.answers.devices.iter().enumerate() {
        let failed = failed_calls(device);
        if !failed.is_empty() {
            findings.push(Finding::new(
                Rule::NoAnswer,
                format!("GPU{index}"),
                failed.join(", "),
                "answers",
            ));
        }
    }
    // A container hides GPUs that the host's driver has.
    for function in gpus() {
        let known = probe.gpus.iter().any(|gpu| gpu.bus_id == function.bus_id);
        if !known && function.driver.as_deref() != Some(DRIVER) {
            let seen = match &function.driver {
                Some(driver) => format!("driver {driver}"),
                None => "no driver".to_owned(),
            };
            findings.push(Finding::new(
                Rule::GpuWithoutDriver,
                function.bus_id.clone(),
                seen,
                "driver nvidia",
            ));
        }
    }
    for gpu in probe
        .gpus
        .iter()
        .filter(|gpu| gpu.mig && gpu.rank.is_some())
    {
        findings.push(Finding::new(
            Rule::Partitioned,
            probe.label(&gpu.bus_id),
            "MIG is on",
            "whole GPUs, where a job uses several",
        ));
    }
    findings
}

fn failed_calls(device: &DeviceAnswers) -> Vec<String> {
    let mut failed = Vec::new();
    let mut must = |call: &str, failure: Option<&str>| {
        if let Some(failure) = failure {
            failed.push(format!("{call}: {failure}"));
        }
    };
    must("bus id", device.pci.failure());
    must("compute capability", device.compute_capability.failure());
    must("brand", device.brand.failure());
    must("link generation", device.link_generation.failure());
    must("link width", device.link_width.failure());
    let real =
        |failure: Option<&'_ str>| failure.is_some_and(|failure| !NO_SUCH_THING.contains(&failure));
    let links = device.nvlinks.iter().filter(|link| {
        let usable = link.p2p.value() == Some(&true);
        let up = link.up.value() == Some(&true);
        real(link.p2p.failure())
            || usable && real(link.up.failure())
            || usable && up && link.remote.failure().is_some()
    });
    match links.count() {
        0 => {}
        count => failed.push(format!("state of {count} NVLinks")),
    }
    let odd = device
        .c2c
        .iter()
        .filter(|link| link.up.failure().is_some() || link.bandwidth.failure().is_some());
    match odd.count() {
        0 => {}
        count => failed.push(format!("state of {count} C2C links")),
    }
    let peers = device
        .peers
        .iter()
        .filter(|peer| real(peer.read.failure()) || real(peer.write.failure()));
    match peers.count() {
        0 => {}
        count => failed.push(format!("peer access to {count} GPUs")),
    }
    for (call, failure) in [
        ("C2C links", failure_of(&device.c2c_count)),
        ("MIG", failure_of(&device.mig)),
        ("fabric", failure_of(&device.fabric)),
    ] {
        if real(failure) {
            failed.push(format!("{call}: {}", failure.unwrap_or_default()));
        }
    }
    failed
}

fn failure_of<T>(answer: &Answer<T>) -> Option<&str> {
    answer.failure()
}
