//! Assumptions that decide: what the plan is with another value than is assumed of a machine.

use pages::numbers::gbps;
use pages::{Page, Table};
use plan::cost::{Calls, TunedOperation};
use plan::{DecidingAssumption, GpuTransport, GraphSummary, Plan, PlanFigures};
use planner::{Planned, Settings};
use program::Collective;

use crate::job::{JobSpec, Machine};

/// The message whose all-reduce is compared, bytes: one that bandwidth decides.
const SIZE: u64 = 256 << 20;

/// Bandwidths that differ by less are alike.
const ALIKE: f64 = 0.05;

/// Most jobs that are planned.
const MOST: usize = 32;

/// The assumptions of a job's machines that decide, each with both plans. Jobs that cannot be
/// planned with another value are left out.
pub fn deciding(spec: &JobSpec, settings: &Settings, planned: &Planned) -> Vec<DecidingAssumption> {
    let so = figures(planned);
    let mut found: Vec<DecidingAssumption> = Vec::new();
    let all = spec.machines.iter().flat_map(|it| it.alternatives.iter());
    let mut seen = Vec::new();
    for other in all {
        let key = (&other.assumed, &other.otherwise);
        if seen.contains(&key) || seen.len() == MOST {
            continue;
        }
        seen.push(key);
        let mut changed = spec.clone();
        for machine in &mut changed.machines {
            change(machine, key.0, key.1);
        }
        let planned = changed.job().ok();
        let planned = planned.and_then(|it| planner::plan(&it.job, settings).ok());
        let Some(then) = planned.map(|it| figures(&it)) else {
            continue;
        };
        if differ(&so, &then) {
            found.push(DecidingAssumption {
                assumed: other.assumed.clone(),
                so: so.clone(),
                otherwise: other.otherwise.clone(),
                then,
                settled_by: other.settled_by.clone(),
            });
        }
    }
    found
}

fn change(machine: &mut Machine, assumed: &str, otherwise: &str) {
    let mut all = machine.alternatives.iter();
    let found = all.find(|it| it.assumed == assumed && it.otherwise == otherwise);
    if let Some(found) = found {
        machine.document = found.document.clone().into();
    }
}

/// An assumption in two sentences.
pub fn sentence(it: &DecidingAssumption) -> String {
    let words = |it: &PlanFigures| {
        let mut cells = cells(it);
        if let Some(bandwidth) = cells.last_mut().filter(|it| !it.is_empty()) {
            bandwidth.push_str(" GB/s");
        }
        let cells = cells.into_iter().filter(|it| !it.is_empty());
        cells.collect::<Vec<_>>().join("; ")
    };
    format!(
        "Assumed: {} ({}). If {}: ({}). `{}` tells.",
        it.assumed,
        words(&it.so),
        it.otherwise,
        words(&it.then),
        it.settled_by
    )
}

/// The figures of a plan.
fn figures(planned: &Planned) -> PlanFigures {
    let plan = planned.plan();
    let operation = TunedOperation {
        collective: Collective::AllReduce,
        bytes: SIZE,
        calls: Calls::ONE,
    };
    let choice = planned.costs.choose_for(&operation).ok();
    PlanFigures {
        channels: channels(plan),
        transports: transports(plan),
        all_reduce: choice.as_ref().map_or_else(String::new, |it| {
            format!("{} {}", it.algorithm, it.protocol)
        }),
        bus_bandwidth_gbps: choice.and_then(|it| it.bus_bandwidth),
    }
}

/// Whether a value decides.
fn differ(one: &PlanFigures, other: &PlanFigures) -> bool {
    let near = match (one.bus_bandwidth_gbps, other.bus_bandwidth_gbps) {
        (Some(one), Some(other)) => (one - other).abs() <= ALIKE * one.max(other),
        (one, other) => one == other,
    };
    let key = |it: &PlanFigures| {
        (
            it.channels.clone(),
            it.transports.clone(),
            it.all_reduce.clone(),
        )
    };
    !near || key(one) != key(other)
}

fn cells(it: &PlanFigures) -> [String; 4] {
    let bandwidth = it.bus_bandwidth_gbps;
    [
        it.transports.join(", "),
        it.channels.join(", "),
        it.all_reduce.clone(),
        bandwidth.map_or_else(String::new, |it| gbps(it as f32)),
    ]
}

/// `ring 2x24 PHB`, as all hosts have them.
fn channels(plan: &Plan) -> Vec<String> {
    let graphs = plan.common.iter().flat_map(|it| &it.graphs);
    let one = |graph: &GraphSummary| {
        let network = match plan.request.hosts {
            0 | 1 => String::new(),
            _ => format!("+{} {}", gbps(graph.bw_inter), graph.type_inter),
        };
        format!(
            "{} {}x{} {}{network}",
            graph.kind,
            graph.channels,
            gbps(graph.bw_intra),
            graph.type_intra
        )
    };
    graphs.filter(|it| it.channels > 0).map(one).collect()
}

/// The transports between GPUs, each once.
fn transports(plan: &Plan) -> Vec<String> {
    let groups = plan.machines.iter().flat_map(|it| &it.groups);
    let groups: Vec<_> = groups.collect();
    let mut found = Vec::new();
    for group in &groups {
        let Some(transports) = &group.transports else {
            continue;
        };
        for (from, row) in transports.between.iter().enumerate() {
            let others = row.iter().enumerate().filter(|(to, _)| *to != from);
            for (_, at) in others {
                let text = match transports.distinct.get(usize::from(*at)) {
                    Some(GpuTransport::Direct { path, .. }) => format!("P2P {path}"),
                    Some(GpuTransport::SharedMemory { path, .. }) => format!("SHM {path}"),
                    Some(GpuTransport::Network { .. }) => "NET".to_owned(),
                    None => continue,
                };
                if !found.contains(&text) {
                    found.push(text);
                }
            }
        }
    }
    if groups.len() > plan.machines.len() {
        found.push("NET".to_owned());
    }
    found.dedup();
    found
}

/// Adds the assumptions that decide to a page, with both outcomes.
pub fn add(page: &mut Page, assumptions: &[DecidingAssumption]) {
    let Some(first) = assumptions.first() else {
        return;
    };
    let mut table = Table::new([
        "if",
        "instead of",
        "GPU–GPU",
        "channels",
        "all-reduce",
        ">bus GB/s",
        "settled by",
    ]);
    let mut row = |words: &str, assumed: &str, outcome: &PlanFigures, settled_by: &str| {
        let mut cells = vec![words.to_owned(), assumed.to_owned()];
        cells.extend(self::cells(outcome));
        cells.push(settled_by.to_owned());
        table.row(cells);
    };
    row("as assumed", "", &first.so, "");
    for it in assumptions {
        row(&it.otherwise, &it.assumed, &it.then, &it.settled_by);
    }
    let remark = "another value than is assumed changes the plan; the all-reduce is one of 256 MiB";
    page.section("Assumptions", remark).table(table);
}
