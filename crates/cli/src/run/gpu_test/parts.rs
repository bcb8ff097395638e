//! The parts that this program runs itself, each in a process of its own: it prints its result as
//! JSON.

use anyhow::{Context, Result, anyhow};
use executor::Settings;
use executor::suite::{self, Case};
use program::Schedule;
use serde::{Deserialize, Serialize};

use super::report::MachineFacts;
use super::{one_gpu, test};
use crate::arguments::run::{GpuTestArguments, GpuTestPart};
use crate::output::{self, Output};
use measurement::cuda;

/// Elements of a block in the matrix.
const COUNTS: [usize; 8] = [0, 1, 2, 7, 64, 1023, 20_011, 150_001];

/// How the cases of a part ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cases {
    pub cases: usize,
    /// The first wrong or failed one.
    pub problem: Option<String>,
}

/// Runs a part with `--ranks` ranks.
pub fn run(part: GpuTestPart, arguments: &GpuTestArguments, output: &mut Output) -> Result<()> {
    let ranks = arguments.ranks.first().copied().context("no ranks")?;
    output.text = match part {
        GpuTestPart::Machine => output::json(&machine()?)?,
        GpuTestPart::Shared => {
            let opened = cuda::open_on_first(ranks, &test::settings())?;
            cases(opened, ranks, false, arguments.cases)?
        }
        GpuTestPart::Each | GpuTestPart::Nvls => {
            let opened = cuda::open_one_each(ranks, &test::settings())?;
            cases(opened, ranks, part == GpuTestPart::Nvls, arguments.cases)?
        }
        GpuTestPart::Copy => output::json(&copy_bandwidth(arguments.end)?)?,
        GpuTestPart::OneGpu => output::json(&one_gpu::measure(ranks, arguments.end)?)?,
    };
    Ok(())
}

fn machine() -> Result<MachineFacts> {
    let opened = cuda::open_all()?;
    let (multicast_gpus, multicast_problem) = match cuda::count_for_multicast() {
        Ok(count) => (Some(count), None),
        Err(why) => (None, Some(format!("{why:#}"))),
    };
    let memory = opened.devices().map(|it| it.properties.memory_bytes);
    Ok(MachineFacts {
        gpus: cuda::describe(&opened).lines().map(str::to_owned).collect(),
        memory_bytes: memory.min().unwrap_or_default(),
        multicast_gpus,
        multicast_problem,
    })
}

fn cases(opened: cuda::OpenedRanks, ranks: u32, nvls: bool, size: usize) -> Result<String> {
    let mut all: Vec<Case> = suite::cases(&[ranks], &COUNTS);
    all.retain(Case::is_of_nccl);
    all.retain(|case| (case.choice.schedule == Schedule::Nvls) == nvls);
    let drawn = suite::sample(&all, size, u64::from(ranks));
    let result = suite::run(opened.communicators, &drawn);
    output::json(&Cases {
        cases: drawn.len(),
        problem: result.err(),
    })
}

/// Bandwidth of copies within the first GPU's memory, GB/s of bytes copied.
fn copy_bandwidth(bytes: u64) -> Result<f64> {
    let opened = cuda::open_on_first(1, &Settings::default())?;
    let driver = &opened.process_ranks.driver;
    let bandwidth = driver.copy_bandwidth(0, bytes.max(1 << 20));
    bandwidth.map_err(|why| anyhow!(why))
}
