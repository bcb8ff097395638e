//! The results of `topo gpu-test`: as data, and as a page in Markdown.

use std::fmt::Write as _;

use crate::figures::{gbps, micros};
use crate::gpu_test::JsonSchema;
use answers::report::Report;
use program::Collective;
use program::size::short;
use serde::{Deserialize, Serialize};

/// From here on a table shows bandwidth instead of time, bytes.
const BANDWIDTH_FROM: u64 = 1 << 20;

/// From here on a message's bound is that of memory, not that of a launch, bytes.
const LONG: u64 = 64 << 20;

/// The results of all parts so far.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuTestReport {
    /// Version of topo.
    pub topo: &'static str,
    /// The machine.
    pub machine: MachineFacts,
    /// Time of all parts, s.
    pub seconds: f64,
    /// Checks that failed.
    pub failed: usize,
    /// Checks by tools that reported what may be a false alarm.
    pub noted: usize,
    /// Checks that were not run.
    pub not_run: usize,
    /// The tests, in order.
    pub sections: Vec<Section>,
}

impl Report for GpuTestReport {
    const FORMAT: &'static str = "topo-gpu-test";
    const VERSION: u32 = 1;
}

/// Facts about the machine.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MachineFacts {
    /// A line for each GPU.
    pub gpus: Vec<String>,
    /// Memory of the GPU that has least, bytes.
    pub memory_bytes: u64,
    /// GPUs that can be members of one multicast; null if `multicast_problem` says why none.
    pub multicast_gpus: Option<u32>,
    /// Why no GPU can be a member of a multicast.
    pub multicast_problem: Option<String>,
    /// Whether MPS shares the GPUs between processes, which otherwise take turns; null if the
    /// driver does not say.
    pub mps: Option<bool>,
}

/// Checks and measurements on one subject.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Section {
    /// The subject.
    pub title: String,
    /// How the figures are to be read.
    pub note: String,
    /// Parts and how they ended.
    pub checks: Vec<Check>,
    /// Times.
    pub figures: Vec<Figure>,
    /// Answers about the GPU and its driver.
    pub facts: Vec<Fact>,
}

/// An answer about the GPU, its memory or its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// The subject.
    pub what: String,
    /// The answer; null if a call did not return.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: String,
    /// Whether collectives can rely on it.
    pub verdict: Verdict,
    /// The answer that collectives need; null if they rely on none.
    pub needed: Option<String>,
}

/// Whether an answer is as collectives need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Collectives do not rely on it.
    Noted,
    /// It is as needed.
    Right,
    /// It is not.
    Wrong,
}

impl Fact {
    /// An answer on which collectives do not rely.
    pub(crate) fn noted(what: String, value: f64, unit: &str) -> Self {
        Self {
            what,
            value: Some(value),
            unit: unit.to_owned(),
            verdict: Verdict::Noted,
            needed: None,
        }
    }

    /// The same, and collectives need this.
    pub(crate) fn needs(self, needed: &str, is_so: bool) -> Self {
        Self {
            verdict: if is_so {
                Verdict::Right
            } else {
                Verdict::Wrong
            },
            needed: Some(needed.to_owned()),
            ..self
        }
    }

    /// A number of which collectives need at least so many.
    pub(crate) fn at_least(what: String, count: u32, unit: &str, least: u32) -> Self {
        Self::noted(what, f64::from(count), unit).needs(&format!("≥ {least}"), count >= least)
    }

    /// The value with its unit.
    fn value_in_words(&self) -> String {
        let Some(value) = self.value else {
            return "blocks".to_owned();
        };
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", self.unit)
    }

    /// How a part with these facts came out.
    pub(crate) fn outcome(facts: &[Self]) -> Outcome {
        let wrong = facts.iter().filter(|fact| fact.verdict == Verdict::Wrong);
        let wrong: Vec<String> = wrong
            .map(|fact| {
                let needed = fact.needed.as_deref().unwrap_or_default();
                format!("{}: {}, needed: {needed}", fact.what, fact.value_in_words())
            })
            .collect();
        match wrong.is_empty() {
            true => Outcome::Right(format!("{} facts", facts.len())),
            false => Outcome::Failed(wrong.join("; ")),
        }
    }
}

/// A part of the test, in a process of its own.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Check {
    /// The program or collective that was run.
    pub what: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Time, s.
    pub seconds: f64,
}

/// How a part ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "outcome", content = "detail", rename_all = "snake_case")]
pub enum Outcome {
    /// Each element was right; what was run.
    Right(String),
    /// An element was wrong, a figure is missing, or the part did not end well.
    Failed(String),
    /// A tool reported what may be a false alarm.
    Noted(String),
    /// It was not run; why.
    NotRun(String),
}

/// Time of a launch.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Number of GPUs in use.
    pub gpus: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// The kind of ranks: `threads` or `processes`.
    pub ranks_are: String,
    /// The collective.
    pub collective: String,
    /// The algorithm, transfer or protocol, or another library.
    pub variant: String,
    /// Size of the message as nccl-tests counts it, bytes.
    pub bytes: u64,
    /// Time of a launch on the slowest rank, µs.
    pub time_us: f64,
    /// Load of the busiest link as nccl-tests computes it, GB/s; null if all ranks share a GPU.
    pub bus_bandwidth_gbps: Option<f64>,
    /// The least time with all ranks on one GPU by its copy bandwidth, µs; null with several GPUs.
    pub bound_us: Option<f64>,
}

impl Figure {
    /// The bus bandwidth of a collective, GB/s.
    pub(crate) fn bus_bandwidth(
        collective: Collective,
        ranks: u32,
        bytes: u64,
        time_us: f64,
    ) -> f64 {
        bytes as f64 / (time_us * 1e3) * collective.bus_factor(ranks)
    }

    fn same_table(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.gpus, it.ranks, it.collective.clone());
        key(self) == key(other)
    }

    fn column(&self) -> String {
        match self.gpus {
            1 => self.variant.clone(),
            _ => format!("{}, {}", self.variant, self.ranks_are),
        }
    }

    fn cell(&self) -> String {
        match (self.bound_us, self.bus_bandwidth_gbps) {
            (Some(bound), _) if self.bytes >= LONG => {
                format!(
                    "{} µs ({:.0} %)",
                    micros(self.time_us),
                    100.0 * bound / self.time_us
                )
            }
            (None, Some(bus)) if self.bytes >= BANDWIDTH_FROM => format!("{} GB/s", gbps(bus)),
            _ => format!("{} µs", micros(self.time_us)),
        }
    }
}

impl Check {
    pub(crate) fn in_markdown(&self) -> String {
        let (word, detail) = match &self.outcome {
            Outcome::Right(detail) => ("right", detail),
            Outcome::Failed(detail) => ("**FAILED**", detail),
            Outcome::Noted(detail) => ("noted", detail),
            Outcome::NotRun(detail) => ("not run", detail),
        };
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        format!(
            "| {} | {word} | {} | {:.1} |\n",
            cell(&self.what),
            cell(detail),
            self.seconds
        )
    }
}

impl GpuTestReport {
    /// A report without sections.
    pub(crate) const fn new(machine: MachineFacts) -> Self {
        Self {
            topo: env!("CARGO_PKG_VERSION"),
            machine,
            seconds: 0.0,
            failed: 0,
            noted: 0,
            not_run: 0,
            sections: Vec::new(),
        }
    }

    pub(crate) fn count(&mut self) {
        (self.failed, self.noted, self.not_run) = (0, 0, 0);
        for check in self.sections.iter().flat_map(|section| &section.checks) {
            match check.outcome {
                Outcome::Right(_) => {}
                Outcome::Failed(_) => self.failed += 1,
                Outcome::Noted(_) => self.noted += 1,
                Outcome::NotRun(_) => self.not_run += 1,
            }
        }
    }

    /// The whole page.
    pub(crate) fn page(&self) -> String {
        let sections: String = self.sections.iter().map(Section::in_markdown).collect();
        format!("{}{sections}{}", self.head(), self.foot())
    }

    /// The beginning of the page.
    pub(crate) fn head(&self) -> String {
        let mut text = format!("# topo gpu-test, topo {}\n\n", self.topo);
        for gpu in &self.machine.gpus {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {gpu}");
        }
        text.push_str(match self.machine.mps {
            Some(true) => "- processes that share a GPU run side by side: MPS runs\n",
            Some(false) => {
                "- processes that share a GPU take turns in time slices: no MPS runs; times of such ranks are those of the slices\n"
            }
            None => "- the driver does not say whether MPS runs; without it, processes that share a GPU take turns\n",
        });
        text
    }

    /// The end of the page.
    pub(crate) fn foot(&self) -> String {
        let checks: usize = self.sections.iter().map(|it| it.checks.len()).sum();
        format!(
            "\n{checks} checks: {} right, {} failed, {} noted, {} not run; {:.1} minutes\n",
            checks - self.failed - self.noted - self.not_run,
            self.failed,
            self.noted,
            self.not_run,
            self.seconds / 60.0
        )
    }
}

impl Section {
    fn in_markdown(&self) -> String {
        let rows: String = self.checks.iter().map(Check::in_markdown).collect();
        format!("{}{rows}{}", self.head(), self.tables())
    }

    /// The title, and the head of the table of parts.
    pub(crate) fn head(&self) -> String {
        let (title, note) = (&self.title, &self.note);
        format!("\n## {title}\n\n{note}\n\n| what | outcome | | s |\n|---|---|---|---|\n")
    }

    /// The tables of figures and facts.
    pub(crate) fn tables(&self) -> String {
        let mut text = facts_in_markdown(&self.facts);
        let mut rest: Vec<&Figure> = self.figures.iter().collect();
        while let Some(first) = rest.first().copied() {
            let (table, others): (Vec<&Figure>, Vec<&Figure>) =
                rest.into_iter().partition(|it| it.same_table(first));
            text.push_str(&table_in_markdown(&table));
            rest = others;
        }
        text
    }
}

fn facts_in_markdown(facts: &[Fact]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut text = "\n| fact | value | needed | |\n|---|---|---|---|\n".to_owned();
    for fact in facts {
        let needed = fact.needed.as_deref().unwrap_or("-");
        let verdict = match fact.verdict {
            Verdict::Noted => "noted",
            Verdict::Right => "as needed",
            Verdict::Wrong => "**NOT AS NEEDED**",
        };
        let (what, value) = (&fact.what, fact.value_in_words());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} | {value} | {needed} | {verdict} |");
    }
    text
}

/// A row for each size, a column for each variant.
fn table_in_markdown(figures: &[&Figure]) -> String {
    let Some(first) = figures.first() else {
        return String::new();
    };
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<u64> = Vec::new();
    for figure in figures {
        let column = figure.column();
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !rows.contains(&figure.bytes) {
            rows.push(figure.bytes);
        }
    }
    rows.sort_unstable();
    let place = match first.gpus {
        1 => format!("{} ranks of one GPU", first.ranks),
        gpus => format!("{gpus} GPUs"),
    };
    let mut text = format!("\n### {}, {place}\n\n| size |", first.collective);
    let bounds = first.bound_us.is_some();
    if bounds {
        text.push_str(" bound |");
    }
    for column in &columns {
        let _ = write!(text, " {column} |");
    }
    let rules = "---|".repeat(columns.len() + 1 + usize::from(bounds));
    let _ = writeln!(text, "\n|{rules}");
    for bytes in rows {
        let of_row = || figures.iter().filter(|it| it.bytes == bytes);
        let _ = write!(text, "| {} |", short(bytes));
        if let Some(bound) = of_row().find_map(|it| it.bound_us) {
            let _ = write!(text, " {} µs |", micros(bound));
        }
        for column in &columns {
            let figure = of_row().find(|it| it.column() == *column);
            let cell = figure.map_or_else(|| "-".to_owned(), |it| it.cell());
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_fact_fails_its_part() {
        let right = Fact::at_least("launches".to_owned(), 1024, "launches", 64);
        let time = Fact::noted("a round".to_owned(), 1.25, "µs");
        let facts = [right.clone(), time.clone()];
        assert_eq!(Fact::outcome(&facts), Outcome::Right("2 facts".to_owned()));
        let blocks = Fact {
            value: None,
            ..time.clone()
        };
        let blocks = blocks.needs("returns", false);
        let outcome = Fact::outcome(&[right, blocks, time]);
        let words = "a round: blocks, needed: returns".to_owned();
        assert_eq!(outcome, Outcome::Failed(words));
    }

    #[test]
    fn facts_are_a_table() {
        let few = Fact::at_least("launches".to_owned(), 16, "launches", 64);
        let text = facts_in_markdown(&[few]);
        let row = "| launches | 16 launches | ≥ 64 | **NOT AS NEEDED** |\n";
        assert!(text.ends_with(row), "{text}");
    }
}
