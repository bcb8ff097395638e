//! The communication of a step, as tables.

use answers::communicators::Limit;
use answers::step::calibration::Correction;
use answers::step::picture::size;
use answers::step::{Alike, Sharing, StepAnswer, StepCall, StepGroup};
use planner::Settings;
use program::Collective;
use workload::Workload;

use super::placed::PlacementSection;
use crate::render::table::Columns;
use crate::render::{
    Look, count, milliseconds as ms, or_dash, settings, trim_lines, version, wrap,
};

/// µs of a ms.
const MS: f64 = 1e3;

/// What a page shows.
pub(super) struct Page<'a> {
    /// The answer.
    pub(super) answer: &'a StepAnswer,
    /// The calls.
    pub(super) workload: &'a Workload,
    /// NCCL's settings.
    pub(super) settings: &'a Settings,
    /// Most kinds of calls.
    pub(super) shown: usize,
    /// Whether times come from measurements.
    pub(super) is_measured: bool,
    /// A better placement, if one was looked for.
    pub(super) placement: Option<PlacementSection<'a>>,
}

impl Page<'_> {
    /// The page.
    pub(super) fn text(&self, look: Look) -> String {
        let answer = self.answer;
        let mut text = format!("{}\n", look.heading(&answer.name));
        let job = format!(
            "{}, {}",
            count(answer.hosts as usize, "host"),
            count(answer.ranks as usize, "rank")
        );
        text.push_str(&look.field("job", &job));
        text.push_str(&version::of_profile(&answer.profile, look));
        text.push_str(&settings::lines(self.settings, look));
        text.push_str(&look.section("Step", "of each rank, predicted", &self.step(look)));
        text.push_str(&look.section(
            "Groups",
            "the communicators of each, and their part of the step, ms",
            &self.groups(look),
        ));
        text.push_str(&look.section(
            "Calls",
            "those that take most time, on the communicator of the group for which they take longest",
            &self.calls(look),
        ));
        if !self.workload.measured.is_empty() {
            text.push_str(&look.section(
                "Measured",
                "what the same calls took in the trace; errors of the prediction, of the median and the worst",
                &self.measured(look),
            ));
        }
        text.push_str(&look.section(
            "Communicators",
            "what all of them allocate on a GPU",
            &self.memory(look),
        ));
        let corrections = &answer.calibration.corrections;
        if !corrections.is_empty() {
            text.push_str(&look.section(
                "Calibration",
                "how many times longer than predicted; errors of predicted times, and of those corrected by all other \
                 measurements",
                &calibration(corrections, look),
            ));
        }
        if let Some(placement) = &self.placement {
            text.push_str(&placement.text(look));
        }
        for note in self.notes() {
            text.push_str(&wrap(&note, "  ", "  ", look.width));
        }
        trim_lines(&text)
    }

    fn step(&self, look: Look) -> String {
        let answer = self.answer;
        let whole = answer.step_us();
        let line = &answer.timeline;
        let mut table = Columns::new(look, &["", "ms", "share"]).right(&[1, 2]);
        let mut row = |name: &str, us: f64| {
            table.row(vec![name.to_owned(), ms(us), share(us, whole)]);
        };
        row("computation", line.compute_us);
        row("exposed communication", line.exposed_us);
        let idle = line.end_us - line.compute_us - line.exposed_us;
        if idle > 0.001 * MS {
            row("idle until a call starts", idle);
        }
        if answer.bubble_us > 0.0 {
            row("bubble of the pipeline", answer.bubble_us);
        }
        row("step", whole);
        if let Some([least, most]) = answer.range_us {
            row("step at least", least);
            row("step at most", most);
        }
        let hidden = answer.communication_us() - line.exposed_us;
        row("all communication", answer.communication_us());
        if hidden > 0.001 * MS {
            row("hidden behind computation", hidden);
        }
        table.finish()
    }

    fn groups(&self, look: Look) -> String {
        let whole = self.answer.step_us();
        let headers = [
            "group", "ranks", "calls", "GB", "time", "exposed", "of step", "bound",
        ];
        let mut table = Columns::new(look, &headers).right(&[2, 3, 4, 5, 6, 7]);
        for group in &self.answer.groups {
            let bound = match group.bounded_us {
                0.0 => "–".to_owned(),
                _ if group.bounded_us < group.time_us => format!("≥ {}", ms(group.bound_us)),
                _ => ms(group.bound_us),
            };
            table.row(vec![
                group.name.clone(),
                ranks(group),
                group.calls.to_string(),
                gigabytes(group.bytes as f64),
                ms(group.time_us),
                ms(group.exposed_us),
                share(group.exposed_us, whole),
                bound,
            ]);
        }
        table.finish()
    }

    fn calls(&self, look: Look) -> String {
        let all = self.answer.communication_us();
        let headers = [
            "group",
            "collective",
            "size",
            "type",
            "calls",
            "NCCL takes",
            "time µs",
            "bound µs",
            "all ms",
            "share",
        ];
        let mut table = Columns::new(look, &headers).right(&[2, 4, 6, 7, 8, 9]);
        for call in self.answer.calls.iter().take(self.shown) {
            table.row(vec![
                self.answer.groups[call.kind.group].name.clone(),
                call.kind.operation().to_owned(),
                size(call.kind.bytes),
                call.kind.data_type.to_string(),
                call.count.to_string(),
                taken(call),
                crate::render::microseconds(call.price.time_us),
                or_dash(call.price.bound_us.map(crate::render::microseconds)),
                ms(call.time_us()),
                share(call.time_us(), all),
            ]);
        }
        let left = self.answer.calls.len().saturating_sub(self.shown);
        let mut text = table.finish();
        if left > 0 {
            let more = format!(
                "… and {} (--calls {})",
                count(left, "kind"),
                self.answer.calls.len()
            );
            text.push_str(&look.faint(&wrap(&more, "  ", "  ", look.width)));
        }
        text
    }

    fn measured(&self, look: Look) -> String {
        let headers = [
            "group",
            "collective",
            "size",
            "calls",
            "predicted µs",
            "median µs",
            "longest µs",
            "error",
            "worst",
            "waiting ms",
        ];
        let mut table = Columns::new(look, &headers).right(&[2, 3, 4, 5, 6, 7, 8, 9]);
        let calls = self.answer.calls.iter();
        let measured = calls.filter_map(|call| Some((call, call.measured?)));
        let mut errors: Vec<(f64, f64)> = Vec::new();
        let mut is_told_apart = true;
        for (at, (call, found)) in measured.enumerate() {
            errors.push((found.error, found.worst));
            is_told_apart &= found.waiting_us.is_some();
            if at >= self.shown {
                continue;
            }
            table.row(vec![
                self.answer.groups[call.kind.group].name.clone(),
                call.kind.operation().to_owned(),
                size(call.kind.bytes),
                found.count.to_string(),
                crate::render::microseconds(call.price.time_us),
                crate::render::microseconds(found.median_us),
                crate::render::microseconds(found.range_us[1]),
                crate::render::percent(found.error),
                crate::render::percent(found.worst),
                or_dash(found.waiting_us.map(ms)),
            ]);
        }
        errors.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let mut text = table.finish();
        let middle = errors.get(errors.len() / 2);
        let worst = errors.iter().map(|it| it.1);
        let worst = worst.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        if let (Some((middle, _)), Some(worst)) = (middle, worst) {
            let line = format!(
                "Over all kinds of calls: median error {}, worst {}.{}",
                crate::render::percent(*middle),
                crate::render::percent(worst),
                match is_told_apart {
                    true => "",
                    false => " A measured time holds what a rank waits for later ones.",
                }
            );
            text.push_str(&wrap(&line, "  ", "  ", look.width));
        }
        text
    }

    fn memory(&self, look: Look) -> String {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let headers = ["group", "MiB on the GPU", "multicast objects"];
        let mut table = Columns::new(look, &headers).right(&[1, 2]);
        for group in &self.answer.groups {
            table.row(vec![
                group.name.clone(),
                mib(group.memory.bytes.device),
                group.memory.multicast_objects.to_string(),
            ]);
        }
        let mut text = table.finish();
        for limit in &self.answer.limits {
            let shown = |value| match limit.name {
                "GPU memory" => format!("{} MiB", mib(value)),
                _ => value.to_string(),
            };
            let fit = match Limit::times(limit) {
                Some(0) => ": they do not fit",
                _ => "",
            };
            let line = format!(
                "{}: {} of {}{fit}.",
                limit.name,
                shown(limit.taken),
                shown(limit.room)
            );
            text.push_str(&wrap(&line, "  ", "  ", look.width));
        }
        text
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![String::new()];
        for (at, group) in self.answer.groups.iter().enumerate() {
            let Sharing {
                links,
                uplinks,
                exchange,
            } = group.sharing;
            if links > 1.0 {
                notes.push(format!(
                    "The communicators of {} share links: bytes take {links:.1} times as long as for one alone.",
                    group.name
                ));
            }
            let calls = |exchanges: bool| {
                let mut calls = self.answer.calls.iter().filter(|it| it.kind.group == at);
                calls.any(|it| (it.kind.collective == Collective::AllToAll) == exchanges)
            };
            let asking = [
                (uplinks, "rings ask", calls(false)),
                (exchange, "an all-to-all asks", calls(true)),
            ];
            for (times, what, is_called) in asking {
                if is_called && times > 1.0 {
                    notes.push(format!(
                        "Uplinks of leaf switches carry less than {what} for in group {}: bytes take {times:.1} times as long.",
                        group.name
                    ));
                }
            }
            let its = self.answer.calls.iter().find(|call| call.kind.group == at);
            let slowest = its.and_then(|call| group.alike.get(call.slowest));
            if let (Some(first), Some(slowest)) = (group.alike.first(), slowest)
                && lie(first) != lie(slowest)
            {
                let ranks: Vec<String> = slowest.first.iter().take(3).map(u32::to_string).collect();
                notes.push(format!(
                    "{} takes longest on {}, such as ranks {}, …",
                    group.name,
                    lie(slowest),
                    ranks.join(", ")
                ));
            }
        }
        notes.extend(self.workload.notes.iter().cloned());
        if !self.is_measured {
            notes.push(
                "Without measurements (--measured): published runs reach 0.8 to 1.2 of the predicted bandwidth \
                 (docs/acceptance.md)."
                    .to_owned(),
            );
        }
        notes.push(
            "Times are those of NCCL's own model, of transfers an estimate. Groups do not slow each other. The bound is what \
             no schedule of one communicator beats: bandwidth without latency."
                .to_owned(),
        );
        notes
    }
}

fn calibration(corrections: &[Correction], look: Look) -> String {
    let headers = [
        "collective",
        "hosts",
        "measured",
        "latency",
        "rest",
        "error",
        "worst",
        "corrected",
        "worst",
    ];
    let mut table = Columns::new(look, &headers).right(&[2, 3, 4, 5, 6, 7, 8]);
    let percent = |share: f64| match share.is_finite() {
        true => crate::render::percent(share),
        false => "–".to_owned(),
    };
    for it in corrections {
        table.row(vec![
            it.scope.collective.command_name().to_owned(),
            if it.scope.across { "several" } else { "one" }.to_owned(),
            it.samples.to_string(),
            format!("× {:.2}", it.latency),
            format!("× {:.2}", it.rest),
            share(it.before[0], 1.0),
            percent(it.before[1]),
            share(it.held_out[0], 1.0),
            percent(it.held_out[1]),
        ]);
    }
    table.finish()
}

/// The communicators of a group in words.
fn ranks(group: &StepGroup) -> String {
    let number: u32 = group.alike.iter().map(|alike| alike.number).sum();
    let mut kinds: Vec<String> = Vec::new();
    for alike in &group.alike {
        let words = lie(alike);
        if !kinds.contains(&words) {
            kinds.push(words);
        }
    }
    match &kinds[..] {
        [one] => format!("{number} × {one}"),
        [one, others @ ..] => format!("{number} × {one}; {} other", others.len()),
        [] => number.to_string(),
    }
}

/// How the ranks of a communicator lie on hosts.
fn lie(alike: &Alike) -> String {
    let (ranks, hosts) = (alike.shape.ranks(), alike.shape.hosts());
    let (least, most) = alike.shape.on_a_host();
    let machines = alike.shape.machines();
    let domains = match machines < hosts {
        true => format!(" in {}", count(machines as usize, "NVLink domain")),
        false => String::new(),
    };
    match (hosts, least == most) {
        (1, _) => format!("{ranks} on a host"),
        (_, true) => format!("{ranks}, {least} on each of {hosts} hosts{domains}"),
        (_, false) => format!("{ranks}, {least} to {most} on each of {hosts} hosts{domains}"),
    }
}

/// What NCCL takes for a call.
fn taken(call: &StepCall) -> String {
    let price = &call.price;
    if call.kind.tokens.is_some() && price.protocol.is_some() {
        return "two stages, simulated".to_owned();
    }
    match (price.algorithm, price.protocol) {
        (Some(algorithm), Some(protocol)) => {
            format!("{algorithm} {protocol} ×{}", price.channels)
        }
        (None, Some(protocol)) => format!("transfers {protocol} ×{}", price.channels),
        _ => "nothing".to_owned(),
    }
}

fn share(part: f64, whole: f64) -> String {
    match part / whole {
        share if share.is_finite() => format!("{:.0} %", share * 100.0),
        _ => "–".to_owned(),
    }
}

fn gigabytes(bytes: f64) -> String {
    let value = bytes / 1e9;
    let digits = match value {
        100.0.. => 0,
        1.0.. => 1,
        _ => 3,
    };
    format!("{value:.digits$}")
}
