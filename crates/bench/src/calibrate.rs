//! Measures the choices that may be the fastest here, for a cost profile.

use std::fmt;

use anyhow::Result;
use backend_cpu::profile::MeasuredChoice;
use backend_cpu::speeds::Speeds;
use backend_cpu::{Profile, kept};
use program::Collective;

use crate::event::Event;
use crate::processes;
use crate::row::RunRow;
use crate::spec::Spec;

/// Measured sizes, bytes: one line, a page, the caches, and beyond.
const SIZES: [u64; 7] = [8, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20];

/// The runs of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Name of the profile.
    pub name: String,
    /// Numbers of ranks.
    pub ranks: Vec<u32>,
    /// Numbers of hosts as which processes of this machine act.
    pub hosts: Vec<u32>,
    /// Whether buffers of the communicator are measured.
    pub own_memory: bool,
    /// Whether buffers of the program are measured, on one host.
    pub callers_memory: bool,
    /// Time to spend in all, s.
    pub time_s: f64,
    /// Message sizes, ascending, bytes; empty: the usual ones.
    pub sizes: Vec<u64>,
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

    /// Measures the choices that may be the fastest by the built-in profile. `show` learns of each
    /// collective, its ranks, and its size in bytes.
    ///
    /// # Errors
    /// A rank failed, or there is not enough memory.
    pub fn measure(
        &self,
        print: fn(&str),
        show: &mut (dyn FnMut(&str, u64) + Send),
    ) -> Result<Profile> {
        let basis = &Profile::built_in();
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
                if let Event::Row(row) = event {
                    let name = row.collective.command_name();
                    show(&format!("{name} of {shape}"), row.bytes);
                }
            };
            let rows = processes::run(&spec, basis, print, &mut show)?.1;
            add(&mut profile, shape, &rows);
        }
        profile.model = basis.model.fit(&profile);
        Ok(profile)
    }

    fn spec(&self, shape: Shape) -> Spec {
        Spec {
            processes: true,
            hosts: shape.hosts,
            callers_memory: shape.callers_memory,
            sizes: self.sizes().to_vec(),
            time_ms: (self.time_s * 1e3 / self.count() as f64).max(1.0) as u64,
            check: false,
            survey: Collective::ALL.to_vec(),
            ..Spec::new(shape.ranks, Collective::AllReduce)
        }
    }
}

/// Processes that are measured together.
#[derive(Debug, Clone, Copy)]
struct Shape {
    ranks: u32,
    hosts: u32,
    callers_memory: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processes", self.ranks)?;
        if self.hosts > 1 {
            write!(f, " as {} hosts", self.hosts)?;
        }
        if self.callers_memory {
            write!(f, " on callers' memory")?;
        }
        Ok(())
    }
}

/// The shapes to measure.
fn shapes(wanted: &Calibration) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for ranks in &wanted.ranks {
        for hosts in wanted.hosts.iter().filter(|hosts| *hosts <= ranks) {
            // Only processes of one host access buffers of peers.
            let callers = wanted.callers_memory && *hosts == 1;
            let memory = [(wanted.own_memory, false), (callers, true)];
            let memory = memory.into_iter().filter(|(is_wanted, _)| *is_wanted);
            shapes.extend(memory.map(|(_, callers_memory)| Shape {
                ranks: *ranks,
                hosts: *hosts,
                callers_memory,
            }));
        }
    }
    shapes
}

/// Adds the times of a survey, in which sizes come in ascending order.
fn add(profile: &mut Profile, shape: Shape, rows: &[RunRow]) {
    let begin = profile.measured.len();
    let Shape {
        ranks,
        hosts,
        callers_memory,
    } = shape;
    for of_collective in rows.chunk_by(|one, next| one.collective == next.collective) {
        for (first, row) in of_collective.iter().enumerate() {
            for (choice, time_us) in &row.compared {
                let collective = row.collective;
                let new = MeasuredChoice::new(collective, choice, (ranks, hosts), callers_memory);
                let measured = &mut profile.measured;
                let known = measured[begin..].iter().position(|it| it.is_like(&new));
                let known = known.map_or(measured.len(), |it| begin + it);
                if known == measured.len() {
                    measured.push(MeasuredChoice { first, ..new });
                }
                measured[known].times_us.push(rounded(*time_us));
            }
        }
    }
}

/// Three digits: more are noise.
fn rounded(time_us: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - time_us.max(1e-3).log10().floor());
    (time_us * scale).round() / scale
}
