//! The communication of a step, as a page.

use pages::numbers::{count, microseconds, milliseconds as ms, or_dash, percent};
use pages::{Page, Section, Table, row};
use program::Collective;

use super::picture::size;
use super::{Alike, Correction, Sharing, StepCall, StepGroup, StepReport};
use crate::head;

/// µs of a ms.
const MS: f64 = 1e3;

impl StepReport {
    /// The page, with at most `shown` kinds of calls. `written`: files of a placement, with their
    /// uses.
    pub fn page(&self, shown: usize, written: &[(String, String)]) -> Page {
        let mut page = Page::new(&self.name);
        let hosts = count(self.hosts as usize, "host");
        let ranks = count(self.ranks as usize, "rank");
        page.field("job", format!("{hosts}, {ranks}"));
        page.field("nccl", head::version(&self.profile));
        page.fields.extend(self.settings.iter().cloned());
        page.section("Step", "of each rank, predicted")
            .table(self.parts());
        let remark = "the communicators of each, and their part of the step, ms";
        page.section("Groups", remark).table(self.of_groups());
        let remark = "those that take most time, on the communicator of the group for which they take longest";
        self.of_calls(page.section("Calls", remark), shown);
        if self.calls.iter().any(|call| call.measured.is_some()) {
            let remark = "what the same calls took in the trace; errors of the prediction, of the median and the worst";
            self.measured(page.section("Measured", remark), shown);
        }
        let remark = "what all of them allocate on a GPU";
        self.memory(page.section("Communicators", remark));
        if !self.calibration.is_empty() {
            let remark = "how many times longer than predicted; errors of predicted times, and of those corrected by all \
                          other measurements";
            page.section("Calibration", remark)
                .table(corrections(&self.calibration));
        }
        if let Some(placement) = &self.placement {
            placement.section(&mut page, written);
        }
        let section = page.section("", "").lines("\n");
        for note in self.remarks() {
            section.say(note);
        }
        page
    }

    fn parts(&self) -> Table {
        let mut table = Table::new(["", ">ms", ">share"]);
        let mut row = |name: &str, us: f64| table.row(row![name, ms(us), share(us, self.step_us)]);
        row("computation", self.compute_us);
        row("exposed communication", self.exposed_us);
        let idle = self.timeline.end_us - self.compute_us - self.exposed_us;
        if idle > 0.001 * MS {
            row("idle until a call starts", idle);
        }
        if self.bubble_us > 0.0 {
            row("bubble of the pipeline", self.bubble_us);
        }
        row("step", self.step_us);
        if let Some([least, most]) = self.range_us {
            row("step at least", least);
            row("step at most", most);
        }
        let hidden = self.communication_us - self.exposed_us;
        row("all communication", self.communication_us);
        if hidden > 0.001 * MS {
            row("hidden behind computation", hidden);
        }
        table
    }

    fn of_groups(&self) -> Table {
        let mut table = Table::new([
            "group", "ranks", ">calls", ">GB", ">time", ">exposed", ">of step", ">bound",
        ]);
        for group in &self.groups {
            let bound = match group.bounded_us {
                0.0 => "–".to_owned(),
                _ if group.bounded_us < group.time_us => format!("≥ {}", ms(group.bound_us)),
                _ => ms(group.bound_us),
            };
            table.row(row![
                group.name,
                group.ranks(),
                group.calls,
                gigabytes(group.bytes as f64),
                ms(group.time_us),
                ms(group.exposed_us),
                share(group.exposed_us, self.step_us),
                bound,
            ]);
        }
        table
    }

    fn of_calls(&self, section: &mut Section, shown: usize) {
        let mut table = Table::new([
            "group",
            "collective",
            ">size",
            "type",
            ">calls",
            "NCCL takes",
            ">time µs",
            ">bound µs",
            ">all ms",
            ">share",
        ]);
        for call in self.calls.iter().take(shown) {
            table.row(row![
                call.group,
                call.kind.operation(),
                size(call.kind.bytes),
                call.kind.data_type,
                call.count,
                call.taken(),
                microseconds(call.price.time_us),
                or_dash(call.price.bound_us.map(microseconds)),
                ms(call.all_us),
                share(call.all_us, self.communication_us),
            ]);
        }
        section.table(table);
        let all = self.calls.len();
        let left = all.saturating_sub(shown);
        if left > 0 {
            section
                .faint(format!("… and {}", count(left, "kind")))
                .hint(format!("(--calls {all})"));
        }
    }

    fn measured(&self, section: &mut Section, shown: usize) {
        let mut table = Table::new([
            "group",
            "collective",
            ">size",
            ">calls",
            ">predicted µs",
            ">median µs",
            ">longest µs",
            ">error",
            ">worst",
            ">waiting ms",
        ]);
        let calls = self.calls.iter();
        let measured = calls.filter_map(|call| Some((call, call.measured?)));
        let mut errors: Vec<(f64, f64)> = Vec::new();
        let mut is_told_apart = true;
        for (at, (call, found)) in measured.enumerate() {
            errors.push((found.error, found.worst));
            is_told_apart &= found.waiting_us.is_some();
            if at >= shown {
                continue;
            }
            table.row(row![
                call.group,
                call.kind.operation(),
                size(call.kind.bytes),
                found.count,
                microseconds(call.price.time_us),
                microseconds(found.median_us),
                microseconds(found.range_us[1]),
                percent(found.error),
                percent(found.worst),
                or_dash(found.waiting_us.map(ms)),
            ]);
        }
        section.table(table);
        errors.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let middle = errors.get(errors.len() / 2);
        let worst = errors.iter().map(|it| it.1);
        let worst = worst.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        if let (Some((middle, _)), Some(worst)) = (middle, worst) {
            section.say(format!(
                "Over all kinds of calls: median error {}, worst {}.{}",
                percent(*middle),
                percent(worst),
                match is_told_apart {
                    true => "",
                    false => " A measured time holds what a rank waits for later ones.",
                }
            ));
        }
    }

    fn memory(&self, section: &mut Section) {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let mut table = Table::new(["group", ">MiB on the GPU", ">multicast objects"]);
        for group in &self.groups {
            let memory = &group.memory;
            table.row(row![
                group.name,
                mib(memory.device_bytes),
                memory.multicast_objects
            ]);
        }
        section.table(table);
        for limit in &self.limits {
            let shown = |value| match limit.name {
                "GPU memory" => format!("{} MiB", mib(value)),
                _ => value.to_string(),
            };
            let fit = match limit.times() {
                Some(0) => ": they do not fit",
                _ => "",
            };
            let (taken, room) = (shown(limit.taken), shown(limit.room));
            section.say(format!("{}: {taken} of {room}{fit}.", limit.name));
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            let name = &group.name;
            let calls = || self.calls.iter().filter(|call| call.kind.group == at);
            let Sharing {
                links,
                uplinks,
                exchange,
            } = group.sharing;
            if links > 1.0 {
                notes.push(format!(
                    "The communicators of {name} share links: bytes take {links:.1} times as long as for one alone."
                ));
            }
            let is_exchange = |it: &StepCall| it.kind.collective == Collective::AllToAll;
            let asking = [
                (uplinks, "rings ask", calls().any(|it| !is_exchange(it))),
                (exchange, "an all-to-all asks", calls().any(is_exchange)),
            ];
            for (times, what, is_called) in asking {
                if is_called && times > 1.0 {
                    notes.push(format!(
                        "Uplinks of leaf switches carry less than {what} for in group {name}: bytes take {times:.1} times \
                         as long."
                    ));
                }
            }
            let slowest = calls().next();
            let slowest = slowest.and_then(|call| group.alike.get(call.price.slowest));
            if let (Some(first), Some(slowest)) = (group.alike.first(), slowest)
                && first.words() != slowest.words()
            {
                let ranks = slowest.first_ranks.iter().take(3);
                let ranks: Vec<String> = ranks.map(u32::to_string).collect();
                notes.push(format!(
                    "{name} takes longest on {}, such as ranks {}, …",
                    slowest.words(),
                    ranks.join(", ")
                ));
            }
        }
        notes.extend(self.notes.iter().cloned());
        if !self.is_measured {
            notes.push(
                "Not measured: published runs reach 0.8 to 1.2 of the predicted bandwidth \
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

fn corrections(all: &[Correction]) -> Table {
    let mut table = Table::new([
        "collective",
        "hosts",
        ">measured",
        ">latency",
        ">rest",
        ">error",
        ">worst",
        ">corrected",
        ">worst",
    ]);
    let worst = |share: f64| match share.is_finite() {
        true => percent(share),
        false => "–".to_owned(),
    };
    for it in all {
        table.row(row![
            it.scope.collective.command_name(),
            if it.scope.across { "several" } else { "one" },
            it.samples,
            format!("× {:.2}", it.latency),
            format!("× {:.2}", it.rest),
            share(it.before[0], 1.0),
            worst(it.before[1]),
            share(it.held_out[0], 1.0),
            worst(it.held_out[1]),
        ]);
    }
    table
}

impl StepGroup {
    /// The communicators in words.
    fn ranks(&self) -> String {
        let number: u32 = self.alike.iter().map(|alike| alike.number).sum();
        let mut kinds: Vec<String> = Vec::new();
        for words in self.alike.iter().map(Alike::words) {
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
}

impl Alike {
    /// How the ranks of a communicator lie on hosts.
    fn words(&self) -> String {
        let (ranks, hosts) = (self.ranks, self.hosts);
        let [least, most] = self.on_a_host;
        let domains = match self.machines < hosts {
            true => format!(" in {}", count(self.machines as usize, "NVLink domain")),
            false => String::new(),
        };
        match (hosts, least == most) {
            (1, _) => format!("{ranks} on a host"),
            (_, true) => format!("{ranks}, {least} on each of {hosts} hosts{domains}"),
            (_, false) => format!("{ranks}, {least} to {most} on each of {hosts} hosts{domains}"),
        }
    }
}

impl StepCall {
    /// What NCCL takes.
    fn taken(&self) -> String {
        let price = &self.price;
        if self.kind.tokens.is_some() && price.protocol.is_some() {
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
