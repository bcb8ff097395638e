//! `topo calibrate`: measures every algorithm here and writes a cost profile.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use backend_cpu::Profile;
use backend_cpu::model::Model;
use backend_cpu::profile::MeasuredChoice;
use program::{Collective, ElementType, Reduction};

use super::event::Event;
use super::spec::Devices;
use super::{Spec, processes, threads};
use crate::arguments::run::{BackendName, CalibrateArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Steps;
use crate::sizes;

/// Measured sizes, bytes: one line, a page, the caches, and beyond.
const SIZES: [u64; 8] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20];

/// Most bytes of /proc/cpuinfo that are read: machines with a thousand processors have 2 MB.
const CPUINFO_LIMIT: u64 = 16 << 20;

/// Measures and prints or writes the profile.
pub fn run(
    arguments: &CalibrateArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let base = Profile::default();
    let mut profile = Profile {
        name: arguments.name.clone(),
        machine: machine(),
        sizes: SIZES.to_vec(),
        measured: Vec::new(),
        ..base
    };
    let basis = Arc::new(profile.clone());
    let figures = 2 * Collective::ALL.len() * SIZES.len() * arguments.ranks.len();
    let mut progress = Steps::new(environment, figures);
    for ranks in &arguments.ranks {
        for one_process in [true, false] {
            for collective in Collective::ALL {
                let spec = spec(arguments, collective, *ranks, !one_process);
                let mut show = |event: Event<'_>| {
                    let Event::Size(bytes) = event else {
                        return;
                    };
                    let (name, size) = (collective.command_name(), sizes::short(bytes));
                    let kind = if one_process { "threads" } else { "processes" };
                    progress.show(&format!("{name} of {ranks} {kind}, {size}"));
                };
                let rows = if one_process {
                    threads(&spec, &basis, &mut show)?
                } else {
                    processes::run(&spec, &basis, &mut show)?.1
                };
                let known = profile.measured.len();
                // The sizes of each choice come in ascending order.
                for row in &rows {
                    let measured =
                        MeasuredChoice::new(collective, &row.choice, *ranks, one_process);
                    let same = |it: &&mut MeasuredChoice| it.is_like(&measured);
                    let time_us = rounded(row.separate.time_us);
                    match profile.measured[known..].iter_mut().find(same) {
                        Some(known) => known.times_us.push(time_us),
                        None => profile.measured.push(MeasuredChoice {
                            times_us: vec![time_us],
                            ..measured
                        }),
                    }
                }
            }
        }
    }
    let measured_on = u32::try_from(cores()).unwrap_or(u32::MAX);
    profile.model = Model::fit(&profile.measured, &profile.sizes, measured_on);
    output.write(profile.to_toml()?, arguments.output.as_deref())
}

/// Three digits: more are noise.
fn rounded(time_us: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - time_us.max(1e-3).log10().floor());
    (time_us * scale).round() / scale
}

fn spec(
    arguments: &CalibrateArguments,
    collective: Collective,
    ranks: u32,
    processes: bool,
) -> Spec {
    Spec {
        ranks,
        processes,
        hosts: 1,
        backend: BackendName::Cpu,
        devices: Devices::default(),
        collective,
        algorithm: None,
        transfer: None,
        protocol: None,
        channels: None,
        element: ElementType::F32.name().to_owned(),
        op: Reduction::Sum.name().to_owned(),
        root: u32::from(collective == Collective::SendRecv),
        sizes: SIZES.to_vec(),
        iterations: None,
        warmup: 1,
        time_ms: arguments.time,
        check: false,
        in_place: false,
        reply: collective == Collective::Broadcast,
        bind: true,
        survey: true,
        timeout_s: 60,
        rings: Vec::new(),
        trees: Vec::new(),
        nodes: Vec::new(),
        plan: None,
    }
}

/// The processor, as the kernel names it, and how many cores may be used.
fn machine() -> String {
    let text = files::read_text(Path::new("/proc/cpuinfo"), CPUINFO_LIMIT).unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let cores = cores();
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{model}, {cores} cores")
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
