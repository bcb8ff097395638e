//! Measures every algorithm here, for a cost profile.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use backend_cpu::Profile;
use backend_cpu::model::Model;
use backend_cpu::profile::MeasuredChoice;
use program::Collective;

use crate::event::Event;
use crate::row::RunRow;
use crate::spec::Spec;
use crate::{processes, threads};

/// Measured sizes, bytes: one line, a page, the caches, and beyond.
const SIZES: [u64; 8] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20];

/// Most bytes of /proc/cpuinfo that are read: machines with a thousand processors have 2 MB.
const CPUINFO_LIMIT: u64 = 16 << 20;

/// The runs of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Name of the profile.
    pub name: String,
    /// Numbers of ranks.
    pub ranks: Vec<u32>,
    /// Numbers of hosts as which processes of this machine act; 1 also measures threads.
    pub hosts: Vec<u32>,
    /// Whether buffers of the communicator are measured.
    pub own_memory: bool,
    /// Whether buffers of the program are measured, on one host.
    pub callers_memory: bool,
    /// Time to spend on each figure, ms.
    pub time_ms: u64,
}

impl Calibration {
    /// Sizes of all collectives that are measured.
    pub fn sizes(&self) -> usize {
        Collective::ALL.len() * SIZES.len() * shapes(self).len()
    }

    /// Measures; `show` learns of each collective, its ranks, and its size in bytes.
    ///
    /// # Errors
    /// A rank failed, or there is not enough memory.
    pub fn measure(
        &self,
        print: fn(&str),
        show: &mut (dyn FnMut(&str, u64) + Send),
    ) -> Result<Profile> {
        let mut profile = Profile {
            name: self.name.clone(),
            machine: machine(),
            sizes: SIZES.to_vec(),
            measured: Vec::new(),
            ..Profile::default()
        };
        let basis = Arc::new(profile.clone());
        for shape in shapes(self) {
            for collective in Collective::ALL {
                let spec = spec(self, collective, shape);
                let what = format!("{} of {shape}", collective.command_name());
                let mut show = |event: Event<'_>| {
                    if let Event::Size(bytes) = event {
                        show(&what, bytes);
                    }
                };
                let rows = match shape.kind {
                    Kind::Threads => threads::run(&spec, &basis, &mut show)?,
                    Kind::Processes { .. } => processes::run(&spec, &basis, print, &mut show)?.1,
                };
                add(&mut profile.measured, collective, shape, &rows);
            }
        }
        let measured_on = u32::try_from(cores()).unwrap_or(u32::MAX);
        profile.model = Model::fit(&profile.measured, &profile.sizes, measured_on);
        Ok(profile)
    }
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

/// The shapes to measure. Threads are always on one host.
fn shapes(wanted: &Calibration) -> Vec<Shape> {
    let of = |ranks: u32| {
        let hosts = wanted.hosts.iter().filter(move |hosts| **hosts <= ranks);
        let own = wanted.own_memory;
        let of_hosts = move |hosts: u32| {
            // Only processes of one host access buffers of peers.
            let callers = wanted.callers_memory && hosts == 1;
            let kinds = [own.then_some(false), callers.then_some(true)];
            let kinds = kinds.into_iter().flatten();
            kinds.map(move |callers_memory| Kind::Processes {
                hosts,
                callers_memory,
            })
        };
        let processes = hosts.flat_map(move |hosts| of_hosts(*hosts));
        let threads = (own && wanted.hosts.contains(&1)).then_some(Kind::Threads);
        let kinds = threads.into_iter().chain(processes);
        kinds.map(move |kind| Shape { ranks, kind })
    };
    wanted.ranks.iter().flat_map(|ranks| of(*ranks)).collect()
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

fn spec(wanted: &Calibration, collective: Collective, shape: Shape) -> Spec {
    let (processes, hosts, callers_memory) = match shape.kind {
        Kind::Threads => (false, 1, false),
        Kind::Processes {
            hosts,
            callers_memory,
        } => (true, hosts, callers_memory),
    };
    Spec {
        processes,
        hosts,
        callers_memory,
        sizes: SIZES.to_vec(),
        warmup: 1,
        time_ms: wanted.time_ms,
        check: false,
        reply: collective == Collective::Broadcast,
        survey: true,
        ..Spec::new(shape.ranks, collective)
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
