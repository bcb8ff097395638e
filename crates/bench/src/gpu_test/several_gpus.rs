//! Collectives on several GPUs by each algorithm and protocol, checked and timed: this program's
//! own `run`, with ranks as threads and as processes.

use std::process::Command;

use anyhow::Result;
use program::Collective;
use serde::Deserialize;

use crate::gpu_test::page::Page;
use crate::gpu_test::report::{Figure, Outcome};
use crate::gpu_test::test::Test;
use crate::gpu_test::{one_gpu, torch};

const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];

/// What is tried, and the options of `topo run` for it.
const VARIANTS: [(&str, &[&str]); 8] = [
    ("chosen", &[]),
    ("NVLS", &["--algorithm", "nvls"]),
    ("NVLS, registered", &["--algorithm", "nvls", "--register"]),
    ("direct", &["--transfer", "direct"]),
    (
        "direct, all blocks",
        &["--transfer", "direct", "--blocks", "0"],
    ),
    ("Simple", &["--transfer", "fifo", "--protocol", "simple"]),
    ("LL128", &["--protocol", "ll128"]),
    ("LL", &["--protocol", "ll"]),
];

/// The longest message whose protocol writes a flag with each word; longer ones are never so sent,
/// bytes.
const LONGEST_LL: u64 = 4 << 20;

/// The kinds of ranks, and the option of `topo run` for each.
const STARTERS: [(&str, &[&str]); 2] = [("threads", &[]), ("processes", &["--processes"])];

/// Longest time of one part, s.
const DEADLINE_S: u64 = 120;

/// The JSON of `topo run --json`.
#[derive(Debug, Deserialize)]
struct Rows {
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    bytes: u64,
    out_of_place: Placement,
}

#[derive(Debug, Deserialize)]
struct Placement {
    time_us: f64,
    bus_bandwidth_gbps: f64,
    wrong: Option<u64>,
}

/// One algorithm or protocol on some GPUs.
struct Variant<'a> {
    gpus: u32,
    collective: Collective,
    starter: (&'a str, &'a [&'a str]),
    variant: (&'a str, &'a [&'a str]),
}

impl Variant<'_> {
    fn name(&self) -> String {
        format!(
            "{}, {}, {} GPUs, {}",
            self.collective.command_name(),
            self.variant.0,
            self.gpus,
            self.starter.0
        )
    }

    fn command(&self, test: &Test<'_>, end: u64) -> Command {
        let end = match self.variant.0 {
            "LL" => end.min(LONGEST_LL),
            _ => end,
        };
        let mut command = test.own();
        command
            .args(["run", self.collective.command_name(), "--backend", "cuda"])
            .args(["--json", "--no-in-place", "-b", "1K"])
            .args(["--timeout", &test.options.timeout.to_string()])
            .args(["--warm", &test.options.warm.to_string()])
            .args(["-e", &end.to_string(), "-f", "4"])
            .args(["--ranks", &self.gpus.to_string()])
            .args(self.starter.1)
            .args(self.variant.1);
        command
    }

    fn figures(&self, rows: &Rows) -> Vec<Figure> {
        let figures = rows.rows.iter().map(|row| Figure {
            gpus: self.gpus,
            ranks: self.gpus,
            ranks_are: self.starter.0.to_owned(),
            collective: self.collective.command_name().to_owned(),
            variant: self.variant.0.to_owned(),
            bytes: row.bytes,
            time_us: row.out_of_place.time_us,
            bus_bandwidth_gbps: Some(row.out_of_place.bus_bandwidth_gbps),
            bound_us: None,
        });
        figures.collect()
    }
}

/// How the elements of a run came out.
fn outcome(rows: &Rows) -> Outcome {
    let wrong = rows
        .rows
        .iter()
        .find(|row| row.out_of_place.wrong != Some(0));
    match (wrong, rows.rows.as_slice()) {
        (Some(row), _) => {
            let elements = row.out_of_place.wrong.unwrap_or_default();
            Outcome::Failed(format!("{elements} wrong elements at {} bytes", row.bytes))
        }
        (None, [first, .., last]) => {
            Outcome::Right(format!("{} to {} bytes", first.bytes, last.bytes))
        }
        (None, [only]) => Outcome::Right(format!("{} bytes", only.bytes)),
        (None, []) => Outcome::Failed("it printed no row".to_owned()),
    }
}

/// Runs everything on `gpus` GPUs, and PyTorch's NCCL beside it.
pub(crate) fn run(page: &mut Page<'_>, gpus: u32) -> Result<()> {
    page.section(
        &format!("Bandwidth on {gpus} GPUs"),
        "Times of launches on the slowest rank below 1 MiB, bus bandwidth from there on, out of \
         place, f32; each element of every size was checked.",
    );
    let found = page.test.machine.gpus.len() as u32;
    if gpus > found {
        let why = format!("this machine has {found} GPUs");
        return page.leave_out(&format!("{gpus} GPUs"), &why);
    }
    let end = one_gpu::longest(page.test.options.end, 1, page.test.machine.memory_bytes);
    for starter in STARTERS {
        for collective in COLLECTIVES {
            for variant in VARIANTS {
                let variant = Variant {
                    gpus,
                    collective,
                    starter,
                    variant,
                };
                one(page, &variant, end)?;
            }
        }
        if starter.0 == "threads" {
            torch::run(page, gpus, end, &COLLECTIVES)?;
        }
    }
    Ok(())
}

fn one(page: &mut Page<'_>, variant: &Variant<'_>, end: u64) -> Result<()> {
    if variant.variant.0.starts_with("NVLS")
        && let Err(why) = page.test.multicast(variant.gpus)
    {
        return page.leave_out(&variant.name(), &why);
    }
    page.check(&variant.name(), DEADLINE_S, |test, deadline, figures| {
        let rows: Rows = crate::child_process::json(variant.command(test, end), deadline)?;
        figures.extend(variant.figures(&rows));
        Ok(outcome(&rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(wrong: &[Option<u64>]) -> Rows {
        let row = |wrong: &Option<u64>| Row {
            bytes: 1024,
            out_of_place: Placement {
                time_us: 2.0,
                bus_bandwidth_gbps: 1.0,
                wrong: *wrong,
            },
        };
        Rows {
            rows: wrong.iter().map(row).collect(),
        }
    }

    #[test]
    fn only_checked_rows_are_right() {
        assert!(matches!(
            outcome(&rows(&[Some(0), Some(0)])),
            Outcome::Right(_)
        ));
        for bad in [&[][..], &[None], &[Some(0), Some(3)]] {
            assert!(matches!(outcome(&rows(bad)), Outcome::Failed(_)), "{bad:?}");
        }
    }
}
