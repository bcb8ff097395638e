//! Measures the choices that may be the fastest here, for a cost profile.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use backend_cpu::profile::MeasuredChoice;
use backend_cpu::speeds::Speeds;
use backend_cpu::{Profile, kept};
use program::Collective;

use crate::event::Event;
use crate::row::RunRow;
use crate::spec::Spec;
use crate::{processes, threads};

/// Measured sizes, bytes: one line, a page, the caches, and beyond.
const SIZES: [u64; 8] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20];

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
    /// Time to spend in all, s.
    pub time_s: f64,
    /// Message sizes, ascending, bytes; empty: the usual ones.
    pub sizes: Vec<u64>,
    /// Choices are measured that are expected to take at most so many times as long as the fastest.
    pub within: f64,
}

impl Calibration {
    /// Sizes of all collectives that are measured.
    pub fn count(&self) -> usize {
        Collective::ALL.len() * self.sizes().len() * shapes(self).len()
    }

    fn sizes(&self) -> &[u64] {
        match self.sizes.as_slice() {
            [] => &SIZES,
            sizes => sizes,
        }
    }

    /// Measures; `basis` knows which choices may be the fastest. `show` learns of each collective,
    /// its ranks, and its size in bytes.
    ///
    /// # Errors
    /// A rank failed, or there is not enough memory.
    pub fn measure(
        &self,
        basis: &Arc<Profile>,
        print: fn(&str),
        show: &mut (dyn FnMut(&str, u64) + Send),
    ) -> Result<Profile> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut profile = Profile {
            name: self.name.clone(),
            machine: kept::machine().to_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            speeds: Speeds::here(),
            sizes: self.sizes().to_vec(),
            measured: Vec::new(),
            ..(**basis).clone()
        };
        for shape in shapes(self) {
            let spec = self.spec(shape);
            let mut show = |event: Event<'_>| {
                if let Event::Surveyed(collective, bytes) = event {
                    let name = collective.command_name();
                    show(&format!("{name} of {shape}"), bytes);
                }
            };
            let rows = match shape.kind {
                Kind::Threads => threads::run(&spec, basis, &mut show)?,
                Kind::Processes { .. } => processes::run(&spec, basis, print, &mut show)?.1,
            };
            add(&mut profile, shape, &rows);
        }
        profile.model = basis.model.fit(&profile);
        Ok(profile)
    }

    fn spec(&self, shape: Shape) -> Spec {
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
            sizes: self.sizes().to_vec(),
            time_ms: (self.time_s * 1e3 / self.count() as f64).max(1.0) as u64,
            check: false,
            survey: Collective::ALL.to_vec(),
            compared: Some(self.within),
            ..Spec::new(shape.ranks, Collective::AllReduce)
        }
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
fn add(profile: &mut Profile, shape: Shape, rows: &[RunRow]) {
    let begin = profile.measured.len();
    let (kind, hosts) = match shape.kind {
        Kind::Threads => ((true, false), 1),
        Kind::Processes {
            hosts,
            callers_memory,
        } => ((false, callers_memory), hosts),
    };
    for row in rows {
        let new = MeasuredChoice::new(row.collective, &row.choice, (shape.ranks, hosts), kind);
        let time_us = rounded(row.separate.time_us);
        let first = profile.sizes.partition_point(|size| *size < row.bytes);
        match profile.measured[begin..]
            .iter_mut()
            .find(|it| it.is_like(&new))
        {
            Some(known) => known.times_us.push(time_us),
            None => profile.measured.push(MeasuredChoice {
                first,
                times_us: vec![time_us],
                ..new
            }),
        }
    }
    // A group of choices follows another, as they are compared.
    profile.measured[begin..].sort_by_key(|it| it.collective);
}

/// Three digits: more are noise.
fn rounded(time_us: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - time_us.max(1e-3).log10().floor());
    (time_us * scale).round() / scale
}
