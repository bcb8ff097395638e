//! Measurements beside the prediction and the bound, as pages.

use findings::check;
use pages::numbers::{count, microseconds, or_dash, percent, short};
use pages::{Page, Section, Table, row};
use planner::NcclVersion;
use records::results::ladder::ComparedRow;
use records::results::shortfall::{range, words};
use records::results::values::Tool;

use super::fit::trust::Summary;
use super::fit::{Fit, UndeterminedConstant};
use super::likely::Miss;
use super::{ComparedTable, NamedFit, ResultsReport};
use crate::head;

/// Most sizes of a table that are shown.
const MOST_ROWS: usize = 1 << 12;

/// Most constants that are not determined and that are shown one by one.
const SHOWN: usize = 12;

/// Causes that are shown. The first two are the likely ones; others show what else comes near.
const SHOWN_CAUSES: usize = 4;

/// Causes whose advice is shown.
const ADVISED: usize = 2;

impl ResultsReport {
    /// A page for each table, made when it is asked for; the last one ends with the fit.
    pub fn pages(&self) -> impl Iterator<Item = Page> + '_ {
        self.tables.iter().enumerate().map(|(at, table)| {
            let mut page = table.page();
            let is_last = at + 1 == self.tables.len();
            if is_last && self.tables.iter().any(ComparedTable::expects) {
                page.section("", "").faint(check::summary(&self.checks));
            }
            if let Some(fit) = self.fit.as_ref().filter(|_| is_last) {
                fit.section(&mut page);
            }
            page
        })
    }
}

impl ComparedTable {
    /// The page of a table.
    fn page(&self) -> Page {
        let mut page = self.head();
        let predicts = self.rows.iter().any(|row| row.predicted_us.is_some());
        let remark = match (self.expects(), predicts) {
            (true, _) => "measured and expected",
            (false, true) => "measured and predicted",
            (false, false) => "measured",
        };
        self.sizes(page.section("Sizes", remark));
        if !self.expects() && self.steps.iter().any(|step| step.ratio.is_some()) {
            let remark = "measured by predicted time of each algorithm and protocol";
            page.section("Steps", remark).table(self.ladder());
        }
        if !self.shortfalls.is_empty() {
            let section = page.section("Falls short", "");
            for shortfall in &self.shortfalls {
                section.item(&shortfall.text);
            }
        }
        for miss in &self.misses {
            miss.section(&mut page);
        }
        page
    }

    /// Whether it was asked what healthy machines reach. Then what NCCL predicts is left out.
    fn expects(&self) -> bool {
        let asked = |row: &ComparedRow| row.expected_gbps.is_some() || row.unknown.is_some();
        self.rows.iter().any(asked)
    }

    fn head(&self) -> Page {
        let collective = self.collective.map_or("unknown collective", |it| it.name());
        let what = self.read.first().map_or(String::new(), |row| {
            let mut what = match row.element.is_empty() {
                true => String::new(),
                false => format!(" of {}", row.element),
            };
            what.extend(row.reduction.iter().flat_map(|it| [", ", it.as_ref()]));
            what
        });
        let mut page = Page::new(format!("{collective}{what}"));
        page.remark = match self.line {
            0 => self.file.clone(),
            line => format!("{}, line {line}", self.file),
        };
        let mut job = vec![self.tool.to_string()];
        job.extend(self.ranks.map(|ranks| count(ranks as usize, "rank")));
        job.extend(self.hosts.map(|hosts| count(hosts as usize, "host")));
        job.extend(self.model.clone());
        job.extend(self.nccl.as_ref().map(|nccl| format!("NCCL {nccl}")));
        page.field("job", job.join(", "));
        if let (Some(machine), Some(hosts), Some(planned_as), Some(profile)) = (
            &self.machine,
            self.planned_hosts,
            &self.planned_as,
            &self.profile,
        ) {
            let hosts = count(hosts as usize, "host");
            let version = head::version(planned_as);
            let constants = match NcclVersion::of_profile(profile) {
                Some(_) => String::new(),
                None => format!(", constants of {profile}"),
            };
            let words = format!("{machine} on {hosts}, NCCL {version}{constants}");
            page.field("plan", words);
        }
        if let Some(bound) = self.bound_gbps {
            let planned = self.planned_share;
            let planned = planned.map(|it| format!("; the plan reaches {:.0} %", 100.0 * it));
            let limit = self.limit.as_ref().map(|limit| format!(" ({limit})"));
            let words = format!(
                "{bound:.1} GB/s of bus bandwidth{}{}",
                limit.unwrap_or_default(),
                planned.unwrap_or_default()
            );
            page.field("bound", words);
        }
        for note in &self.notes {
            page.field("note", note);
        }
        self.oddities(&mut page);
        page
    }

    /// What is odd about the file.
    fn oddities(&self, page: &mut Page) {
        let unnamed = "the file does not name the program";
        if self.collective_guessed {
            page.field("note", format!("{unnamed}: guessed from the columns"))
                .hint("(--collective)");
        }
        if self.collective.is_none() && self.tool == Tool::Osu {
            page.field(
                "note",
                "the sizes are those of one rank, or of no collective: put the launcher's command \
                 (mpirun -np 16 ./osu_allgather) above the table",
            );
        } else if self.collective.is_none() {
            page.field("note", unnamed).hint("(--collective)");
        }
        if self.lacks_bus && self.ranks.is_none() && self.job.is_none() {
            page.field(
                "note",
                "the file has neither ranks nor bus bandwidths: those shown are message by time",
            );
        }
        if self.damaged_rows > 0 {
            let rows = count(self.damaged_rows as usize, "row");
            let note = format!(
                "{rows} cut by other output, with other columns than the header, whose bandwidth is not \
                 size by time, or whose bus bandwidth is not that of the collective: left out (line {})",
                self.first_damaged
            );
            page.field("note", note);
        }
    }

    fn sizes(&self, section: &mut Section) {
        let any = |has: fn(&ComparedRow) -> bool| self.rows.iter().any(has);
        let predicts = !self.expects() && any(|row| row.predicted_us.is_some());
        let chooses = any(|row| row.algorithm.is_some() || row.ran.is_some());
        let expects = self.expects();
        let mut headers = vec![">size", ">µs"];
        if predicts {
            headers.extend([">predicted", ">ratio"]);
        }
        headers.push(">bus GB/s");
        if expects {
            headers.extend([">expected", ">floor"]);
        }
        if self.bound_gbps.is_some() {
            headers.push(">of bound");
        }
        if chooses {
            headers.extend(["ran", "channels"]);
        }
        let mut table = Table::new(headers);
        let gbps = |it: Option<f64>| or_dash(it.map(|it| format!("{it:.1}")));
        for row in self.rows.iter().take(MOST_ROWS) {
            let mut cells = row![short(row.bytes), microseconds(row.measured_us)];
            if predicts {
                cells.push(or_dash(row.predicted_us.map(microseconds)));
                cells.push(or_dash(row.ratio.map(times)));
            }
            cells.push(format!("{:.2}", row.bus_gbps));
            if expects {
                let expected = match row.unknown {
                    Some(_) => "unknown".to_owned(),
                    None => gbps(row.expected_gbps),
                };
                cells.extend([expected, gbps(row.floor_gbps)]);
            }
            if self.bound_gbps.is_some() {
                cells.push(or_dash(row.bound_share.map(share)));
            }
            if chooses {
                let ran = row.ran.clone().or(row.choice().map(words));
                cells.extend([or_dash(ran), or_dash(row.channels)]);
            }
            table.row(cells);
        }
        section.table(table);
        if self.rows.len() > MOST_ROWS {
            let more = count(self.rows.len() - MOST_ROWS, "more size");
            section.faint(more).hint("(--json has them)");
        }
        let mut reasons: Vec<&str> = Vec::new();
        for why in self.rows.iter().filter_map(|row| row.unknown.as_deref()) {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        for why in reasons {
            section.item(format!("unknown: {why}"));
        }
        if any(|row| row.algorithm.is_some()) {
            let is_unsaid = |row: &ComparedRow| row.algorithm.is_some() && !row.is_logged;
            section.faint(match any(is_unsaid) {
                false => "ran: what NCCL logged",
                true => "ran: what NCCL takes by the plan, where the file does not say",
            });
        }
    }

    fn ladder(&self) -> Table {
        let mut table = Table::new(["ran", "sizes", "channels", ">median", ">worst", ">at"]);
        for step in &self.steps {
            let channels = step.channels.map(|(least, most)| match least == most {
                true => least.to_string(),
                false => format!("{least} to {most}"),
            });
            table.row(row![
                words((step.algorithm, step.protocol)),
                range(step.from_bytes, step.to_bytes),
                or_dash(channels),
                or_dash(step.ratio.map(times)),
                or_dash(step.worst_ratio.map(times)),
                short(step.worst_bytes),
            ]);
        }
        table
    }
}

impl Miss {
    fn section(&self, page: &mut Page) {
        if self.likely_causes.is_empty() {
            return;
        }
        let remark = format!(
            "of {:.1} GB/s at {}: what a healthy machine with the fault is expected to reach",
            self.bus_bandwidth_gbps,
            short(self.bytes)
        );
        let mut table = Table::new([">GB/s", "cause", "id", "where"]);
        for it in self.likely_causes.iter().take(SHOWN_CAUSES) {
            let at_most = if it.at_most { "≤ " } else { "" };
            let gbps = it.expected_gbps.map(|gbps| format!("{at_most}{gbps:.1}"));
            table.row(row![or_dash(gbps), it.title, it.cause, it.place]);
        }
        let section = page.section("Likely causes", remark).table(table);
        for it in self.likely_causes.iter().take(ADVISED) {
            section.item(format!("{}: {}", it.cause, it.advice));
        }
    }
}

/// A share in percent.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        10.0.. => format!("{percent:.0} %"),
        _ => format!("{percent:.1} %"),
    }
}

fn times(ratio: f64) -> String {
    format!("× {ratio:.2}")
}

fn errors(name: &str, summary: &Summary) -> Vec<String> {
    row![
        name,
        share(summary.median),
        share(summary.most),
        share(summary.worst),
        short(summary.worst_bytes),
    ]
}

impl NamedFit {
    fn section(&self, page: &mut Page) {
        let fit = &self.fit;
        let mut constants = Table::new(["constant", "", ">before", ">fitted", ">±"]);
        for it in &fit.constants {
            let value = number(it.value);
            constants.row(row![
                it.constant,
                it.constant.index.unwrap_or(""),
                number(it.before),
                match it.error {
                    Some(_) => value,
                    None => format!("≥ {value}"),
                },
                or_dash(it.error.map(share)),
            ]);
        }
        let mut wide = Table::new([
            "error of predicted times",
            ">median",
            ">9 of 10",
            ">worst",
            ">at",
        ]);
        wide.row(errors("before", &fit.before));
        wide.row(errors("fitted", &fit.after));
        if let Some(held) = &fit.held {
            let name = format!("at {} sizes, each held out once", held.sizes);
            wide.row(errors(&name, &held.errors));
        }
        let mut choices = Table::new(["choice", ">times", ">bias before", ">bias", ">median"]);
        for it in &fit.steps {
            choices.row(row![
                format!("{} {} {}", it.collective, it.algorithm, it.protocol),
                it.count,
                percent(it.bias_before),
                percent(it.bias),
                share(it.after.median),
            ]);
        }
        let times = count(fit.used, "measured time");
        let section = page.section("Fit", format!("of {times}; the profile is {}", self.file));
        section.table(constants).lines("\n");
        section.table(wide).lines("\n");
        section.table(choices);
        let remarks = fit.remarks();
        if !(remarks.is_empty() && fit.undetermined.is_empty()) {
            section.lines("\n");
        }
        for it in fit.undetermined.iter().take(SHOWN) {
            section.item(it.words());
        }
        let more = fit.undetermined.len().saturating_sub(SHOWN);
        if more > 0 {
            section
                .item(format!("{more} more constants keep their values"))
                .hint("(--json names them)");
        }
        for remark in remarks {
            section.item(remark);
        }
    }
}

impl Fit {
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.held.is_none() {
            remarks.push(
                "too few sizes to hold some out: the errors above are those of sizes that the fit has seen"
                    .to_owned(),
            );
        }
        if let Some(held) = &self.held
            && held.errors.median > 2.0 * self.after.median.max(0.01)
        {
            remarks.push(
                "sizes that the fit has not seen are predicted much worse: it has too many constants for these \
                 measurements"
                    .to_owned(),
            );
        }
        for it in self.steps.iter().filter(|it| it.after.median > 0.15) {
            remarks.push(format!(
                "{} {} {}: half of the errors are above {}: the model's form does not describe these times",
                it.collective,
                it.algorithm,
                it.protocol,
                share(it.after.median)
            ));
        }
        if self.unmodelled > 0 {
            let times = count(self.unmodelled, "time");
            remarks.push(format!("{times} left out: the plan does not have what ran"));
        }
        remarks
    }
}

impl UndeterminedConstant {
    fn words(&self) -> String {
        let name = &self.constant;
        match &self.like {
            Some(other) => {
                format!("{name} keeps its value: these times cannot tell it apart from {other}")
            }
            None => format!(
                "{name} keeps its value: these times would determine it only to {}",
                or_dash(self.relative_error.map(share))
            ),
        }
    }
}

/// A constant with four digits.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        1.0.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
