//! `topo calibrate`: measures every way on this machine and writes the profile by which ways are chosen.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::Result;
use backend_cpu::Profile;
use backend_cpu::profile::{Measured, serves};
use executor::{Request, Way};
use plan::program::{Schedule, Transfer};
use plan::{Collective, ElementType, Protocol, Reduction};

use super::{Spec, processes, threads};
use crate::arguments::run::CalibrateArguments;
use crate::output::Output;

/// Message sizes at which is measured: what fits one line, a page, the first, the second cache, and no cache.
const SIZES: [u64; 8] = [
    8,
    256,
    2048,
    16 << 10,
    128 << 10,
    1 << 20,
    8 << 20,
    64 << 20,
];

/// Measures and prints or writes the profile.
pub fn run(arguments: &CalibrateArguments, output: &mut Output) -> Result<()> {
    let base = Profile::default();
    let mut profile = Profile {
        name: arguments.name.clone(),
        machine: machine(),
        sizes: SIZES.to_vec(),
        ways: Vec::new(),
        ..base
    };
    let mut progress = Steps::new(arguments);
    for ranks in &arguments.ranks {
        for one_process in [true, false] {
            let basis = Arc::new(profile.clone());
            for collective in Collective::ALL {
                for way in ways(collective, *ranks) {
                    progress.show(collective, &way, *ranks);
                    let spec = spec(arguments, collective, &way, *ranks, !one_process);
                    let rows = if one_process {
                        threads(&spec, &basis, &mut |_| {})?
                    } else {
                        processes::run(&spec, &basis, &mut |_| {})?
                    };
                    profile.ways.push(Measured {
                        collective,
                        algorithm: way.schedule.name().to_owned(),
                        transfer: way.transfer.name().to_owned(),
                        protocol: way.protocol,
                        ranks: *ranks,
                        threads: one_process,
                        times_us: rows
                            .iter()
                            .map(|row| rounded(row.separate.time_us))
                            .collect(),
                    });
                }
            }
        }
    }
    progress.clear();
    let text = profile.to_toml()?;
    match &arguments.output {
        Some(path) => crate::plan::write_beside(path, &text)?,
        None => output.text = text,
    }
    Ok(())
}

/// Three digits: more are noise.
fn rounded(time_us: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - time_us.max(1e-3).log10().floor());
    (time_us * scale).round() / scale
}

/// All ways of a collective.
fn ways(collective: Collective, ranks: u32) -> Vec<Way> {
    let request = Request {
        collective,
        element: ElementType::F32,
        reduction: Reduction::Sum,
        root: 0,
        to: 0,
        in_place: false,
        count: 1,
        way: None,
    };
    let mut ways = Vec::new();
    for schedule in Schedule::ALL {
        for transfer in Transfer::ALL {
            for protocol in Protocol::ALL {
                let way = Way {
                    schedule,
                    transfer,
                    protocol,
                    channels: 1,
                    piece_bytes: 0,
                };
                let once = transfer == Transfer::Fifo || protocol == Protocol::Simple;
                if once && serves(&request, &way, ranks) {
                    ways.push(way);
                }
            }
        }
    }
    ways
}

fn spec(
    arguments: &CalibrateArguments,
    collective: Collective,
    way: &Way,
    ranks: u32,
    processes: bool,
) -> Spec {
    Spec {
        ranks,
        processes,
        collective,
        algorithm: Some(way.schedule.name().to_owned()),
        transfer: Some(way.transfer.name().to_owned()),
        protocol: (way.transfer == Transfer::Fifo).then_some(way.protocol),
        channels: None,
        element: ElementType::F32.name().to_owned(),
        op: Reduction::Sum.name().to_owned(),
        root: u32::from(collective == Collective::SendRecv),
        sizes: SIZES.to_vec(),
        iterations: None,
        warmup: 2,
        time_ms: arguments.time,
        check: false,
        in_place: false,
        reply: collective == Collective::Broadcast,
        bind: true,
        timeout_s: 60,
        rings: Vec::new(),
        trees: Vec::new(),
    }
}

/// The processor, as the kernel names it, and how many cores may be used.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{model}, {cores} cores")
}

/// A line on the terminal that says how far it is.
struct Steps {
    all: usize,
    done: usize,
    shown: bool,
}

impl Steps {
    fn new(arguments: &CalibrateArguments) -> Self {
        let each = |ranks: &u32| -> usize {
            let collectives = Collective::ALL.into_iter();
            collectives.map(|it| 2 * ways(it, *ranks).len()).sum()
        };
        Self {
            all: arguments.ranks.iter().map(each).sum(),
            done: 0,
            shown: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, collective: Collective, way: &Way, ranks: u32) {
        self.done += 1;
        if self.shown {
            let (done, all) = (self.done, self.all);
            let _ = write!(
                std::io::stderr(),
                "\r\u{1b}[K{done} of {all}: {} {way}, {ranks} ranks",
                crate::sizes::kebab(collective)
            );
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}
