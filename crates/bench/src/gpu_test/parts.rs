//! The parts that this program runs itself, each in a process of its own: it prints its result as
//! JSON.

use answers::gpu_test::{GpuTestQuestion, Part};
use anyhow::{Context, Result, anyhow};
use executor::Settings;
use executor::suite::{self, Case};
use program::Schedule;
use serde::{Deserialize, Serialize};

use crate::cuda;

use crate::gpu_test::report::{MachineFacts, Outcome};
use crate::gpu_test::{nccl, one_gpu, silicon, test};

/// Elements of a block in the matrix.
const COUNTS: [usize; 8] = [0, 1, 2, 7, 64, 1023, 20_011, 150_001];

/// How the cases of a part ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cases {
    pub(crate) cases: usize,
    /// The first wrong or failed one.
    pub(crate) problem: Option<String>,
}

impl Cases {
    /// How the part came out.
    pub(crate) fn outcome(self) -> Outcome {
        match self.problem {
            Some(problem) => Outcome::Failed(problem),
            None => Outcome::Right(format!("{} cases", self.cases)),
        }
    }
}

/// Runs a part with the first number of ranks. Returns its result as JSON.
///
/// # Errors
/// The GPUs cannot be opened, or the part failed.
pub fn run(part: Part, options: &GpuTestQuestion) -> Result<String> {
    let ranks = options.ranks.first().copied().context("no ranks")?;
    let settings = test::settings(options);
    match part {
        Part::Machine => json(&machine()?),
        Part::Shared => {
            let opened = cuda::open_on_first(ranks, &settings)?;
            cases(opened, ranks, false, options.cases)
        }
        Part::Each | Part::Nvls => {
            let opened = cuda::open_one_each(ranks, &settings)?;
            cases(opened, ranks, part == Part::Nvls, options.cases)
        }
        Part::Copy => json(&copy_bandwidth(options.end)?),
        Part::OneGpu => json(&one_gpu::measure(ranks, options)?),
        Part::Nccl => json(&nccl::measure(ranks, options)?),
        Part::Launch
        | Part::Queue
        | Part::Overlap
        | Part::Captures
        | Part::Lines
        | Part::Messages
        | Part::Clock
        | Part::Mappings => json(&silicon::ask(part, options)?),
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
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
        mps: opened.mps(),
    })
}

fn cases(opened: cuda::OpenedRanks, ranks: u32, nvls: bool, size: usize) -> Result<String> {
    let mut all: Vec<Case> = suite::cases(&[ranks], &COUNTS);
    all.retain(Case::is_of_nccl);
    all.retain(|case| (case.choice.schedule == Schedule::Nvls) == nvls);
    let drawn = suite::sample(&all, size, u64::from(ranks));
    let result = suite::run(opened.communicators, &drawn);
    // Errors of kernels may show late.
    let result = result.and_then(|()| opened.process_ranks.synchronize());
    json(&Cases {
        cases: drawn.len(),
        problem: result.err(),
    })
}

/// Bandwidth of copies within the first GPU's memory, GB/s of bytes copied.
fn copy_bandwidth(bytes: u64) -> Result<f64> {
    let opened = cuda::open_on_first(1, &Settings::default())?;
    let driver = &opened.process_ranks.driver;
    let bytes = bytes.max(1 << 20);
    let bandwidth = driver.copy_bandwidth(0, bytes);
    let checked = bandwidth.and_then(|bandwidth| Ok((bandwidth, driver.check_copy(0, bytes)?)));
    Ok(checked.map_err(|why| anyhow!(why))?.0)
}
