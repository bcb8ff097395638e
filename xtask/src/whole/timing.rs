//! `cargo xtask timing DIR`: the time of planning beside that of NCCL's own code for the same case.
//! Both are processor time of one core, so other load does not count.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use golden::Case;
use planner::{HostPlan, Job, Settings, View};
use topology::NodeType;

use crate::whole::measure::{self, Table, cell};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder with `topologies/`, `cases/` and `timing.json`
    directory: PathBuf,
    /// Only cases whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Runs of each case; the median counts
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

/// The time of parsing, building, paths and search in one run.
type Phases = [Duration; 4];

/// The processor time of this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn run_once(case: &Case, job: &Job, settings: &Arc<Settings>, bytes: &[u8]) -> Result<Phases> {
    let mut marks = vec![processor_time()];
    let document = topology::xml::parse(case.topology(), bytes)?;
    marks.push(processor_time());
    let system = topology::System::from_document(&document)?;
    marks.push(processor_time());
    let hosts = match job.nvlink_domain {
        true => 1,
        false => job.host_count(),
    };
    let ranks = system.count(NodeType::Gpu) * hosts as usize;
    let views = View::all(system, settings, job.collnet, ranks)?;
    marks.push(processor_time());
    let first = views.into_iter().next().context("a view")?;
    let _planned = HostPlan::search(first)?;
    marks.push(processor_time());
    Ok(std::array::from_fn(|at| marks[at + 1] - marks[at]))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = arguments.directory.join("timing.json");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let timing: serde_json::Value = serde_json::from_str(&text)?;
    let cases = timing["cases"]
        .as_object()
        .context("timing.json holds `cases`")?;
    let (mut total_ratios, mut search_ratios) = (Vec::new(), Vec::new());
    let heads = [
        "case, µs",
        "parse",
        "build",
        "paths",
        "search",
        "total",
        "NCCL",
        "total×",
        "search×",
    ];
    let (table, head) = Table::new(34, &heads);
    println!("{head}");
    for (name, theirs) in cases {
        if arguments
            .filter
            .as_ref()
            .is_some_and(|filter| !name.contains(filter.as_str()))
        {
            continue;
        }
        let case = Case::read(
            &arguments.directory.join(format!("cases/{name}.json")),
            &arguments.directory.join("topologies"),
        )?;
        let bytes = case.topology_bytes()?;
        let (job, settings) = (case.job()?, Arc::new(case.settings()));
        let runs: Vec<Phases> = (0..arguments.runs)
            .map(|_| run_once(&case, &job, &settings, &bytes))
            .collect::<Result<_>>()?;
        let median = |pick: &dyn Fn(&Phases) -> Duration| {
            let times = runs.iter().map(|run| pick(run).as_secs_f64() * 1e6);
            measure::median(times).unwrap_or(f64::NAN)
        };
        let phases = [0, 1, 2, 3].map(|at| median(&|run| run[at]));
        let total = median(&|run| run.iter().sum());
        let nccl = |key: &str| theirs[key].as_f64().unwrap_or(f64::NAN);
        total_ratios.push(nccl("total") / total);
        search_ratios.push(nccl("search_total") / phases[3]);
        let mut cells = vec![name.clone()];
        let times = phases.into_iter().chain([total, nccl("total")]);
        cells.extend(times.map(|it| cell(Some(it), 0)));
        cells.extend([total_ratios.last(), search_ratios.last()].map(|it| cell(it.copied(), 1)));
        println!("{}", table.row(&cells));
    }
    for (what, ratios) in [("total", total_ratios), ("search", search_ratios)] {
        let least = ratios.iter().copied().reduce(f64::min);
        println!(
            "{what:7}: median {} times faster, least {}",
            cell(measure::median(ratios), 1),
            cell(least, 1)
        );
    }
    Ok(ExitCode::SUCCESS)
}
