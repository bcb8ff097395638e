//! The table of a run. Its columns have their widths before anything is measured, so that each row
//! can be printed at once.

use std::mem;

use answers::names::algorithms;
use executor::Choice;
use pages::numbers::or_dash;
use pages::terminal::Look;
use program::Transfer;

use crate::figures::{algorithm, bus, gbps, micros};
use crate::{FigureTiming, Latency, RunReport, RunRow};

/// Spaces before a row.
const INDENT: usize = 2;

/// Spaces before the further lines of a row that is wider than the page.
const DEEPER: usize = 4;

/// Spaces between columns, and on a narrow page.
const GAPS: [usize; 2] = [2, 1];

/// The figures of a placement and their widths.
const FIGURES: [(&str, usize); 7] = [
    ("µs", 6),
    ("p50", 6),
    ("p99", 6),
    ("max", 6),
    ("algbw", 6),
    ("busbw", 6),
    ("wrong", 5),
];

/// Before the name of an algorithm between hosts.
const HIERARCHICAL: &str = "hierarchical ";

/// How rows are laid out.
#[derive(Debug)]
pub struct Table {
    lines: Lines,
    gap: usize,
    /// A row has both placements; otherwise each has a row of its own.
    beside: bool,
    look: Look,
}

/// The columns in each line of a row.
type Lines = Vec<Vec<Column>>;

#[derive(Debug, Clone)]
struct Column {
    name: &'static str,
    width: usize,
    /// Aligned to the right, as numbers are.
    right: bool,
}

/// How the placements of a size share the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// There is one.
    One,
    Beside,
    Below,
}

impl Table {
    /// The table of a run that begins.
    pub fn new(report: &RunReport, look: Look) -> Self {
        let form = match report.spec.in_place {
            true => Form::Beside,
            false => Form::One,
        };
        let whole = groups(report, form);
        let narrow = match form {
            Form::Beside if lines(&whole, GAPS[0], look.width).len() > 1 => {
                Some(groups(report, Form::Below))
            }
            _ => None,
        };
        let beside = form == Form::Beside && narrow.is_none();
        let groups = narrow.unwrap_or(whole);
        let [(wide, gap), (narrow, less)] = GAPS.map(|gap| (lines(&groups, gap, look.width), gap));
        let (lines, gap) = match narrow.len() < wide.len() {
            true => (narrow, less),
            false => (wide, gap),
        };
        Self {
            lines,
            gap,
            beside,
            look,
        }
    }

    /// Its header.
    pub fn header(&self) -> String {
        let names = self.lines.iter().flatten().map(|it| it.name.to_owned());
        let text = self.text(names.collect());
        let lines = text.lines().map(|line| self.look.faint(line) + "\n");
        lines.collect()
    }

    /// A row of the report: one line or several for each placement.
    pub fn row(&self, report: &RunReport, at: usize, row: &RunRow) -> String {
        let in_place = report.spec.in_place;
        let form = match (in_place, self.beside) {
            (false, _) => Form::One,
            (true, true) => Form::Beside,
            (true, false) => Form::Below,
        };
        let mut text = self.text(cells(report, at, row, form, false));
        if form == Form::Below {
            text.push_str(&self.text(cells(report, at, row, form, true)));
        }
        text
    }

    /// The lines of a row with these cells.
    fn text(&self, cells: Vec<String>) -> String {
        let mut cells = cells.into_iter();
        let mut text = String::new();
        for (at, columns) in self.lines.iter().enumerate() {
            let mut line = " ".repeat(if at == 0 { INDENT } else { DEEPER });
            for (column, cell) in columns.iter().zip(&mut cells) {
                let width = column.width;
                line.push_str(&match column.right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
                line.push_str(&" ".repeat(self.gap));
            }
            // A placement without the columns of the last line has one line less.
            if !line.trim().is_empty() {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text
    }
}

/// Puts groups of columns into lines of this width. A group stays together if a line holds it.
fn lines(groups: &[Vec<Column>], gap: usize, width: usize) -> Lines {
    let mut lines: Lines = Vec::new();
    let (mut line, mut end): (Vec<Column>, usize) = (Vec::new(), INDENT);
    for group in groups {
        let whole: usize = group.iter().map(|it| it.width + gap).sum();
        let mut begins = end + whole - gap > width;
        for column in group {
            if !line.is_empty() && (mem::take(&mut begins) || end + column.width > width) {
                lines.push(mem::take(&mut line));
                end = DEEPER;
            }
            end += column.width + gap;
            line.push(column.clone());
        }
    }
    lines.push(line);
    lines
}

/// The columns: what was measured, the figures of each placement, and what was expected.
fn groups(report: &RunReport, form: Form) -> Vec<Vec<Column>> {
    let spec = &report.spec;
    let number = |name, width| Column {
        name,
        width,
        right: true,
    };
    let word = |name: &'static str, longest: usize| Column {
        name,
        width: longest.max(name.len()),
        right: false,
    };
    // A message has at least one element of each rank.
    let element = u64::from(spec.element.bytes());
    let largest = spec.sizes.iter().copied().max().unwrap_or(0);
    let largest = largest.max(element * u64::from(spec.ranks));
    let digits = |number: u64| number.to_string().len();
    let blocks = spec.collective.blocks(spec.ranks);
    let mut what = vec![
        number("size", digits(largest).max(5)),
        number("count", digits(largest / element / blocks).max(5)),
    ];
    if spec.collective.has_root() {
        what.push(number("root", 4));
    }
    if form == Form::Below {
        what.push(word("place", 0));
    }
    let longest = match spec.algorithm {
        Some(algorithm) => algorithm.name().len(),
        None => algorithms(spec.collective)
            .map(|it| it.name().len())
            .max()
            .unwrap_or(0),
    };
    let hosts = spec.hosts > 1
        || report
            .launch
            .as_ref()
            .is_some_and(|it| it.reached.remote > 0);
    let longest = longest + if hosts { HIERARCHICAL.len() } else { 0 };
    what.extend([
        word("algorithm", longest),
        word("proto", 6),
        number("ch", 2),
    ]);
    let figures = FIGURES.map(|(name, width)| number(name, width));
    let mut in_place = figures.clone();
    in_place[0] = number("in place", 8);
    let mut expected = vec![number("pred.", 5)];
    if spec.compares {
        // With the protocol and the time.
        expected.extend([word("best", longest + 14), number("by", 5)]);
    }
    if let Some(planned) = &report.planned {
        let choices = planned.choices.iter().flatten();
        expected.push(word("plan", choices.map(String::len).max().unwrap_or(0)));
    }
    match form {
        Form::Beside => vec![what, figures.into(), in_place.into(), expected],
        _ => vec![what, figures.into(), expected],
    }
}

/// The cells of a row, as [`groups`] has columns; `in_place` is which placement a line has.
fn cells(report: &RunReport, at: usize, row: &RunRow, form: Form, in_place: bool) -> Vec<String> {
    let spec = &report.spec;
    let mut cells = vec![row.bytes.to_string(), row.count.to_string()];
    if spec.collective.has_root() {
        cells.push(spec.root.to_string());
    }
    if form == Form::Below {
        cells.push(if in_place { "in" } else { "out" }.to_owned());
    }
    let choice = match in_place {
        false => Some(row.choice),
        true => row.choice_in_place,
    };
    cells.extend(choice.map_or_else(|| ["–"; 3].map(str::to_owned), in_words));
    if !in_place {
        cells.extend(figures(report, row, Some(row.separate)));
    }
    if in_place || form == Form::Beside {
        cells.extend(figures(report, row, row.in_place));
    }
    // A line in place repeats neither.
    if in_place {
        return cells;
    }
    let time = row.predicted_us;
    cells.push(or_dash(time.map(|time| gbps(bus(report, row.bytes, time)))));
    if spec.compares {
        let best = row.best().map(|(choice, time_us, factor)| {
            let choice = in_words(choice)[..2].join(" ");
            [
                format!("{choice} {}", micros(time_us)),
                format!("{factor:.2}×"),
            ]
        });
        cells.extend(best.unwrap_or_else(|| [or_dash(None::<String>), or_dash(None::<String>)]));
    }
    if let Some(planned) = &report.planned {
        cells.push(or_dash(planned.choices.get(at).cloned().flatten()));
    }
    cells
}

/// Algorithm, protocol and channels.
pub(crate) fn in_words(choice: Choice) -> [String; 3] {
    let protocol = match choice.transfer {
        Transfer::Direct | Transfer::Staged => choice.transfer.to_string(),
        Transfer::Fifo | Transfer::Hierarchical => choice.protocol.name().to_owned(),
    };
    let name = match choice.transfer {
        Transfer::Hierarchical => format!("{HIERARCHICAL}{}", choice.schedule),
        _ => choice.schedule.name().to_owned(),
    };
    [name, protocol, choice.channels.to_string()]
}

fn figures(report: &RunReport, row: &RunRow, timing: Option<FigureTiming>) -> [String; 7] {
    let Some(timing) = timing else {
        return std::array::from_fn(|_| or_dash(None::<u64>));
    };
    let latency = |of: fn(&Latency) -> f64| {
        let time = timing.latency.as_ref().map(of);
        or_dash(time.map(micros))
    };
    [
        micros(timing.time_us),
        latency(|it| it.p50_us),
        latency(|it| it.p99_us),
        latency(|it| it.max_us),
        gbps(algorithm(row.bytes, timing.time_us)),
        gbps(bus(report, row.bytes, timing.time_us)),
        or_dash(timing.wrong),
    ]
}
