//! `topo calibrate`: measures every algorithm here and writes a cost profile.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use backend_cpu::Profile;
use backend_cpu::model::Model;
use backend_cpu::profile::MeasuredChoice;
use program::{Collective, ElementType, Reduction};

use super::event::Event;
use super::spec::Devices;
use super::{RunRow, Spec, processes, threads};
use crate::arguments::run::{BackendName, BufferOwner, CalibrateArguments};
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
    let shapes = shapes(arguments);
    let figures = Collective::ALL.len() * SIZES.len() * shapes.len();
    let mut progress = Steps::new(environment, figures);
    for shape in shapes {
        for collective in Collective::ALL {
            let spec = spec(arguments, collective, shape);
            let mut show = |event: Event<'_>| {
                let Event::Size(bytes) = event else {
                    return;
                };
                let (name, size) = (collective.command_name(), sizes::short(bytes));
                progress.show(&format!("{name} of {shape}, {size}"));
            };
            let rows = match shape.kind {
                Kind::Threads => threads(&spec, &basis, &mut show)?,
                Kind::Processes { .. } => processes::run(&spec, &basis, &mut show)?.1,
            };
            add(&mut profile.measured, collective, shape, &rows);
        }
    }
    let measured_on = u32::try_from(cores()).unwrap_or(u32::MAX);
    profile.model = Model::fit(&profile.measured, &profile.sizes, measured_on);
    output.write(profile.to_toml()?, arguments.output.as_deref())
}

/// Ranks that are measured together.
#[derive(Debug, Clone, Copy)]
struct Shape {
    ranks: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Threads,
    Processes { hosts: u32, callers_memory: bool },
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Threads => write!(f, "{} threads", self.ranks),
            Kind::Processes {
                hosts,
                callers_memory,
            } => {
                write!(f, "{} processes", self.ranks)?;
                if hosts > 1 {
                    write!(f, " as {hosts} hosts")?;
                }
                if callers_memory {
                    write!(f, " on callers' memory")?;
                }
                Ok(())
            }
        }
    }
}

/// What is measured. Threads are always on one host.
fn shapes(arguments: &CalibrateArguments) -> Vec<Shape> {
    let of = |ranks: u32| {
        let hosts = arguments.hosts.iter().filter(move |hosts| **hosts <= ranks);
        let own = arguments.buffers.contains(&BufferOwner::Own);
        let of_hosts = move |hosts: u32| {
            // Only processes of one host access buffers of peers.
            let callers = arguments.buffers.contains(&BufferOwner::Caller) && hosts == 1;
            let kinds = [own.then_some(false), callers.then_some(true)];
            let kinds = kinds.into_iter().flatten();
            kinds.map(move |callers_memory| Kind::Processes {
                hosts,
                callers_memory,
            })
        };
        let processes = hosts.flat_map(move |hosts| of_hosts(*hosts));
        let threads = (own && arguments.hosts.contains(&1)).then_some(Kind::Threads);
        let kinds = threads.into_iter().chain(processes);
        kinds.map(move |kind| Shape { ranks, kind })
    };
    arguments
        .ranks
        .iter()
        .flat_map(|ranks| of(*ranks))
        .collect()
}

/// Adds the times of a survey, in which the sizes of each choice come in ascending order.
fn add(measured: &mut Vec<MeasuredChoice>, collective: Collective, shape: Shape, rows: &[RunRow]) {
    let known = measured.len();
    let (kind, hosts) = match shape.kind {
        Kind::Threads => ((true, false), 1),
        Kind::Processes {
            hosts,
            callers_memory,
        } => ((false, callers_memory), hosts),
    };
    for row in rows {
        let new = MeasuredChoice::new(collective, &row.choice, (shape.ranks, hosts), kind);
        let time_us = rounded(row.separate.time_us);
        match measured[known..].iter_mut().find(|it| it.is_like(&new)) {
            Some(known) => known.times_us.push(time_us),
            None => measured.push(MeasuredChoice {
                times_us: vec![time_us],
                ..new
            }),
        }
    }
}

/// Three digits: more are noise.
fn rounded(time_us: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - time_us.max(1e-3).log10().floor());
    (time_us * scale).round() / scale
}

fn spec(arguments: &CalibrateArguments, collective: Collective, shape: Shape) -> Spec {
    Spec {
        ranks: shape.ranks,
        processes: shape.kind != Kind::Threads,
        hosts: match shape.kind {
            Kind::Threads => 1,
            Kind::Processes { hosts, .. } => hosts,
        },
        callers_memory: matches!(
            shape.kind,
            Kind::Processes {
                callers_memory: true,
                ..
            }
        ),
        network: None,
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
        explained: 0,
        timeout_s: 60,
        rings: Vec::new(),
        trees: Vec::new(),
        forest: None,
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
