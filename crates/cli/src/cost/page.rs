//! Costs of collectives, as tables.

use std::ops::RangeInclusive;

use answers::cost::forest::ForestCost;
use answers::cost::{CostAnswer, PricedJob, SizeCost, Sweep};
use plan::CostTable;
use plan::cost::{Calls, CostModel, Estimate, WindowMethod};
use planner::cost::Scheme;
use program::{Collective, Protocol};

use super::transfers;
use crate::render::table::Columns;
use crate::render::{
    FIELD, Look, count, measured, microseconds, percent, settings, slow_hosts, trim_lines, version,
    wrap,
};
use crate::sizes::short;

/// Calls of a group whose channels are shown.
const SHOWN_CALLS: usize = 4;

/// Marks a size at which the choice changes.
const CHANGE: &str = "▸";

pub(super) fn page(answer: &CostAnswer, notes: &[String], look: Look) -> String {
    let job = &answer.job;
    let mut text = head(job, notes, look);
    let title = title(&answer.calls);
    for sweep in &answer.sweeps {
        match &sweep.transfers {
            Some(found) => text.push_str(&transfers::section(job, sweep, found, look)),
            None => {
                let choices = choices(sweep, look);
                text.push_str(&look.section(sweep.collective.name(), &title, &choices));
            }
        }
        if sweep.sizes.iter().any(|size| size.window.is_some()) {
            text.push_str(&look.section(
                &format!("{} on windows", sweep.collective),
                "the kernels for symmetric memory, and what registering gains",
                &windows(job, sweep, look),
            ));
            if takes_few_blocks(job, sweep) {
                let sentence = wrap(FEW_BLOCKS, "  ", "  ", look.width);
                text.push_str(&look.notice(&sentence));
            }
        }
        text.push_str(&on_measured(sweep, look));
        text.push_str(&forest(job, sweep, look));
        if !sweep.schemes.is_empty() {
            text.push_str(&look.section(
                &format!("{} by the α–β model", sweep.collective),
                &model(job),
                &schemes(job, sweep, look),
            ));
        }
    }
    if let Some((links, _)) = &job.measured {
        text.push_str(&measured::section(links, look));
    }
    trim_lines(&text)
}

/// The times on measured links, if there are any.
fn on_measured(sweep: &Sweep, look: Look) -> String {
    let headers = [
        "size",
        "NCCL takes",
        "by NCCL's links µs",
        "measured links µs",
        "fastest there",
        "µs",
    ];
    let mut table = Columns::new(look, &headers).right(&[0, 2, 3, 5]);
    let mut rows = 0;
    for size in &sweep.sizes {
        let (Some(times), Ok(choice)) = (&size.measured, &size.choice) else {
            continue;
        };
        let ((algorithm, protocol), least) = times.fastest;
        rows += 1;
        table.row(vec![
            short(size.bytes),
            format!("{} {}", choice.algorithm, choice.protocol),
            microseconds(f64::from(choice.time_us)),
            microseconds(f64::from(times.taken)),
            format!("{algorithm} {protocol}"),
            microseconds(f64::from(least)),
        ]);
    }
    if rows == 0 {
        return String::new();
    }
    let title = format!("{} on the measured links", sweep.collective);
    look.section(
        &title,
        "time of what NCCL takes, and of the fastest that it compares",
        &table.finish(),
    )
}

/// The calls.
fn title(calls: &Calls) -> String {
    let mut taken = "what NCCL takes for a message of this size".to_owned();
    if calls.registration != Calls::ONE.registration {
        taken.push_str(&format!(", buffers registered ({})", calls.registration));
    }
    let (data_type, reduction) = (calls.data_type, calls.reduction);
    match calls.number {
        1 if (data_type, reduction) == (Calls::ONE.data_type, Calls::ONE.reduction) => taken,
        1 => format!("{taken}: {data_type}, {reduction}"),
        number => format!(
            "what NCCL takes for {number} calls of this size in one group: {data_type}, {reduction}"
        ),
    }
}

pub(crate) fn head(job: &PricedJob, notes: &[String], look: Look) -> String {
    let mut text = format!("{}\n", look.heading(&job.name));
    let (hosts, ranks) = (job.plan.request.hosts, job.plan.rank_count());
    let size = format!(
        "{}, {}",
        count(hosts as usize, "host"),
        count(ranks as usize, "rank")
    );
    text.push_str(&look.field("job", &size));
    text.push_str(&slow_hosts::lines(&job.plan, look));
    text.push_str(&version::of_profile(&job.plan.profile, look));
    if job.costs.profile != job.plan.profile {
        text.push_str(&look.field("profile", &job.costs.profile));
    }
    text.push_str(&settings::of_plan(&job.plan.settings, look));
    for note in notes {
        text.push_str(&look.notice(&wrap(note, FIELD, FIELD, look.width)));
    }
    text
}

/// The costs of the plan's trees, if it has any.
fn forest(job: &PricedJob, sweep: &Sweep, look: Look) -> String {
    let Some(forest) = &sweep.forest else {
        return String::new();
    };
    let times = sweep.sizes.iter().filter_map(|size| {
        let choice = size.choice.as_ref().ok()?;
        Some((size.bytes, f64::from(choice.time_us)))
    });
    let times: Vec<(u64, f64)> = times.collect();
    let nccl = bounds::reach::nccl_bandwidth(&job.plan, sweep.collective);
    let mut table = Columns::new(look, &["size", "trees µs", "NCCL µs"]).right(&[0, 1, 2]);
    for (bytes, nccl) in &times {
        let own = microseconds(forest.time_us(*bytes));
        table.row(vec![short(*bytes), own, microseconds(*nccl)]);
    }
    let sentence = wrap(
        &sentence(forest, sweep.collective, &times, nccl),
        "  ",
        "  ",
        look.width,
    );
    let title = format!("{} by trees", sweep.collective);
    look.section(
        &title,
        "expected time beside NCCL's choice",
        &table.finish(),
    ) + &sentence
}

/// Says from which size on trees are faster than what NCCL takes, and why. `times` has NCCL's
/// times, µs.
fn sentence(
    forest: &ForestCost,
    collective: Collective,
    times: &[(u64, f64)],
    nccl: Option<f64>,
) -> String {
    let faster = |(bytes, time): &&(u64, f64)| forest.time_us(*bytes) < *time;
    let reaches = match nccl {
        Some(nccl) => format!("{:.1} GB/s, NCCL's plan {nccl:.1}", forest.bandwidth),
        None => format!("{:.1} GB/s", forest.bandwidth),
    };
    let when = match times.iter().find(faster) {
        Some((bytes, _)) => format!("faster from {} on", short(*bytes)),
        None => "not faster at these sizes".to_owned(),
    };
    format!(
        "Trees ({}, topo run --algorithm forest) are {when}: for long messages they reach {reaches}. They are up \
         to {} links high; a link is priced as a step of a ring with Simple.",
        collective.command_name(),
        forest.height
    )
}

fn bandwidth(bandwidth: Option<f64>) -> String {
    bandwidth.map_or_else(String::new, |bandwidth| format!("{bandwidth:.2}"))
}

fn choices(sweep: &Sweep, look: Look) -> String {
    if !Collective::TUNED.contains(&sweep.collective) {
        return look
            .faint("  NCCL makes it of point-to-point transfers: there is nothing to choose\n");
    }
    let headers = [
        "",
        "size",
        "algorithm",
        "protocol",
        "channels",
        "threads",
        "time µs",
        "alg GB/s",
        "bus GB/s",
        "runner-up",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 4, 5, 6, 7, 8]);
    for (at, size) in sweep.sizes.iter().enumerate() {
        let mark = if sweep.changes(at) { CHANGE } else { "" };
        let mut row = vec![mark.to_owned(), short(size.bytes)];
        match &size.choice {
            Ok(choice) => {
                let time = f64::from(choice.time_us);
                let next = choice.runner_up.map_or_else(String::new, |next| {
                    let (algorithm, protocol) = next.choice;
                    let more = if time > 0.0 {
                        percent(next.time_us / time - 1.0)
                    } else {
                        String::new()
                    };
                    format!("{algorithm} {protocol} {more}")
                });
                row.extend([
                    choice.algorithm.to_string(),
                    choice.protocol.to_string(),
                    channels(&size.spread),
                    (choice.warps * 32).to_string(),
                    microseconds(time),
                    bandwidth(choice.algorithm_bandwidth),
                    bandwidth(choice.bus_bandwidth),
                    next,
                ]);
            }
            Err(problem) => {
                return look.notice(&wrap(&problem.to_string(), "  ", "  ", look.width));
            }
        }
        table.row(row);
    }
    table.finish()
}

/// Measurements where NCCL's model takes too few blocks. Source: NVIDIA/nccl issue 2305.
const FEW_BLOCKS: &str = "NCCL's model takes too few CTAs here: on GB200 and GB300 reduce-scatters of 2 to \
     4 MiB a rank were measured 1.3 to 2.4 times as fast with NCCL_SYM_KERNEL=ReduceScatter_LD and \
     NCCL_SYM_CTAS=64.";

/// Whether a reduce-scatter on Blackwell leaves most blocks unused for long messages.
fn takes_few_blocks(job: &PricedJob, sweep: &Sweep) -> bool {
    let ranks = u64::from(job.costs.job.ranks.max(1));
    let long = |size: &&SizeCost| (2 << 20..=4 << 20).contains(&(size.bytes / ranks));
    let windows = job.costs.windows.as_ref();
    let chosen = windows.is_some_and(|it| it.blocks.is_some() || it.forced);
    let few = |size: &SizeCost| match size.window.map(|it| it.method) {
        Some(WindowMethod::Kernel { kernel, blocks }) => {
            blocks < 16 && kernel.collective() == Collective::ReduceScatter
        }
        _ => false,
    };
    !chosen && job.costs.job.min_cc >= 100 && sweep.sizes.iter().filter(long).any(few)
}

/// The choices where buffers are symmetric windows.
fn windows(job: &PricedJob, sweep: &Sweep, look: Look) -> String {
    let headers = [
        "size",
        "kernel",
        "CTAs",
        "time µs",
        "bus GB/s",
        "without µs",
        "gain",
    ];
    let mut table = Columns::new(look, &headers).right(&[0, 2, 3, 4, 5]);
    for size in &sweep.sizes {
        let (kernel, blocks) = match size.window.map(|it| it.method) {
            Some(WindowMethod::Kernel { kernel, blocks }) => (kernel.name(), blocks.to_string()),
            Some(WindowMethod::CopyEngines) => ("copy engines", "0".to_owned()),
            None => ("none", String::new()),
        };
        let time = size.window.and_then(|it| it.time_us);
        let without = size.choice.as_ref().ok();
        let without = without.map(|choice| f64::from(choice.time_us));
        let gain = time.zip(without).filter(|(time, _)| *time > 0.0);
        let bytes = size.bytes.saturating_mul(u64::from(size.calls));
        table.row(vec![
            short(size.bytes),
            kernel.to_owned(),
            blocks,
            time.map_or_else(String::new, microseconds),
            bandwidth(time.and_then(|it| job.costs.bus_bandwidth(sweep.collective, bytes, it))),
            without.map_or_else(String::new, microseconds),
            gain.map_or_else(String::new, |(time, without)| percent(without / time - 1.0)),
        ]);
    }
    table.finish()
}

/// The channels of one call by number, those of several by range.
fn channels(spread: &[RangeInclusive<u32>]) -> String {
    match spread {
        [] => String::new(),
        [one] => one.clone().count().to_string(),
        several => {
            let ranges = several.iter().take(SHOWN_CALLS);
            let ranges = ranges.map(|it| match it.start() == it.end() {
                true => it.start().to_string(),
                false => format!("{}-{}", it.start(), it.end()),
            });
            let ranges: Vec<_> = ranges.collect();
            let more = if several.len() > SHOWN_CALLS {
                " …"
            } else {
                ""
            };
            format!("{}{more}", ranges.join(" "))
        }
    }
}

fn model(job: &PricedJob) -> String {
    job.alpha_beta.map_or_else(String::new, |model| {
        format!(
            "algorithms that NCCL does not have; α {} µs per message, 1/β {:.1} GB/s over all channels",
            model.alpha_us(),
            model.bandwidth()
        )
    })
}

fn schemes(job: &PricedJob, sweep: &Sweep, look: Look) -> String {
    let headers = [
        "",
        "size",
        "algorithm",
        "time µs",
        "alg GB/s",
        "bus GB/s",
        "runner-up",
        "NCCL's choice µs",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 3, 4, 5, 7]);
    let mut before: Option<Scheme> = None;
    for (at, (bytes, estimates)) in sweep.schemes.iter().enumerate() {
        let Some(best) = estimates.first() else {
            continue;
        };
        let mark = if before.is_some_and(|before| before != best.choice) {
            CHANGE
        } else {
            ""
        };
        before = Some(best.choice);
        let next = estimates
            .get(1)
            .map_or_else(String::new, |next| more(best, next));
        let nccl = sweep.sizes.get(at);
        let nccl = nccl.and_then(|size| size.choice.as_ref().ok());
        let alone = (best.time_us > 0.0).then(|| *bytes as f64 / best.time_us / 1000.0);
        let factor = sweep.collective.bus_factor(job.costs.job.ranks);
        table.row(vec![
            mark.to_owned(),
            short(*bytes),
            best.choice.to_string(),
            microseconds(best.time_us),
            bandwidth(alone),
            bandwidth(alone.map(|alone| alone * factor)),
            next,
            nccl.map_or_else(String::new, |choice| {
                microseconds(f64::from(choice.time_us))
            }),
        ]);
    }
    table.finish()
}

fn more(best: &Estimate<Scheme>, next: &Estimate<Scheme>) -> String {
    if best.time_us > 0.0 {
        format!(
            "{} {}",
            next.choice,
            percent(next.time_us / best.time_us - 1.0)
        )
    } else {
        next.choice.to_string()
    }
}

/// Bandwidth and latency of every algorithm and protocol.
pub(super) fn table_page(answer: &CostAnswer, notes: &[String], look: Look) -> String {
    let job = &answer.job;
    let mut text = head(job, notes, look);
    for sweep in &answer.sweeps {
        text.push_str(&look.section(
            sweep.collective.name(),
            "message bytes per time without latency, and the time of an empty message",
            &entries(&job.costs, sweep.collective, look),
        ));
    }
    trim_lines(&text)
}

fn entries(costs: &CostTable, collective: Collective, look: Look) -> String {
    let entries: Vec<_> = costs
        .entries
        .iter()
        .filter(|entry| entry.collective == collective)
        .collect();
    if entries.is_empty() {
        return look.faint("  no algorithm to choose\n");
    }
    let mut table = Columns::new(
        look,
        &[
            "algorithm",
            "protocol",
            "GB/s",
            "latency µs",
            "threads",
            "remark",
        ],
    )
    .right(&[2, 3, 4]);
    for entry in entries {
        let threads = costs.threads(entry.algorithm).most[entry.protocol as usize];
        let (gbps, remark) = match entry.off {
            None => (format!("{:.2}", entry.bandwidth), String::new()),
            Some(off) => ("-".to_owned(), off.reason().to_owned()),
        };
        let protocol: Protocol = entry.protocol;
        table.row(vec![
            entry.algorithm.to_string(),
            protocol.to_string(),
            gbps,
            microseconds(f64::from(entry.latency)),
            threads.to_string(),
            remark,
        ]);
    }
    table.finish()
}
