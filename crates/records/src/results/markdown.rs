//! Tables of Markdown pages, such as `| size | time (us) | busbw (GB/s) |`, and the headings that
//! say what they measure.

use program::Collective;

use crate::results::named::NamedColumns;
use crate::results::program_name;
use crate::results::values::{Damage, Row, Table};
use program::size;

/// Most ranks that a heading may name.
const MOST_RANKS: u32 = 1 << 20;

/// The deepest level of headings.
const MOST_LEVEL: usize = 6;

/// What a line of a Markdown page is.
#[derive(Debug)]
pub(crate) enum Line {
    /// The names of columns.
    Header(NamedColumns),
    /// The line of dashes below them, or a row of other columns.
    Other,
    /// A row of the columns above it.
    Row(Result<Row, Damage>),
}

/// Reads a line; `None` if it is no row of a Markdown table. `columns` are those above it.
pub(crate) fn line(line: &str, columns: Option<&NamedColumns>) -> Option<Line> {
    let cells = cells(line)?;
    if let Some(header) = NamedColumns::of_names(&cells) {
        return Some(Line::Header(header));
    }
    let columns = columns?;
    // Sizes are written as people read them, and large numbers with commas.
    let plain: Vec<String> = cells.iter().map(|it| number(it)).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    Some(columns.row_of(&plain).map_or(Line::Other, Line::Row))
}

/// The cells of `| one | two |` without emphasis.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells = inside.split('|');
    let cells: Vec<&str> = cells
        .map(|it| it.trim().trim_matches(['*', '`', '_']).trim())
        .collect();
    (cells.len() >= 2).then_some(cells)
}

/// A cell as a number without units: `1 GiB` as bytes, `473.2 GB/s` as 473.2.
fn number(cell: &str) -> String {
    let digits = cell.replace(',', "");
    let compact: String = digits.split_whitespace().collect();
    if let Ok(bytes) = size::parse(&compact) {
        return bytes.to_string();
    }
    let first = digits.split_whitespace().next().unwrap_or_default();
    first.to_owned()
}

/// A heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heading {
    level: usize,
    collective: Option<Collective>,
    ranks: Option<u32>,
}

impl Heading {
    /// Reads a heading of the second level or deeper, such as `## all_reduce, 16 GPUs`. Logs have
    /// lines that begin with one `#`.
    fn of(line: &str) -> Option<Self> {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if !(2..=MOST_LEVEL).contains(&level) || text.trim().is_empty() {
            return None;
        }
        let is_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        let words: Vec<&str> = text
            .split(|it: char| !is_word(it))
            .filter(|it| !it.is_empty())
            .collect();
        let collective = words.iter().enumerate().find_map(|(place, it)| {
            let collective = program_name::of_word(it)?;
            // Elsewhere in a sentence, a single word such as "reduce" need not be the collective.
            let is_compound = collective.command_name().contains('-');
            (is_compound || place == 0 || it.ends_with("_perf")).then_some(collective)
        });
        let ranks = words.windows(2).find_map(|pair| {
            let is_unit = ["gpus", "ranks", "gpu"]
                .iter()
                .any(|it| pair[1].eq_ignore_ascii_case(it));
            let ranks = pair[0].parse::<u32>().ok().filter(|_| is_unit)?;
            (1..=MOST_RANKS).contains(&ranks).then_some(ranks)
        });
        Some(Self {
            level,
            collective,
            ranks,
        })
    }
}

/// The headings above a place of a page, each deeper than the one before it.
#[derive(Debug, Default)]
pub(crate) struct Headings(Vec<Heading>);

impl Headings {
    /// Takes a line. Returns `false` if it is no heading, or says nothing about tables.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        let Some(heading) = Heading::of(line) else {
            return false;
        };
        let is_silent = heading.collective.is_none() && heading.ranks.is_none();
        if is_silent && self.0.is_empty() {
            return false;
        }
        self.0.retain(|it| it.level < heading.level);
        self.0.push(heading);
        true
    }

    /// The collective and the number of ranks that they name; `None` if no heading of the page has
    /// named any.
    pub(crate) fn subject(&self) -> Option<(Option<Collective>, Option<u32>)> {
        let deepest = || self.0.iter().rev();
        let collective = deepest().find_map(|it| it.collective);
        let ranks = deepest().find_map(|it| it.ranks);
        (!self.0.is_empty()).then_some((collective, ranks))
    }
}

/// Fills in the times of rows that have a bus bandwidth alone. Returns `false` if the collective or
/// the number of ranks is not known.
pub(crate) fn times_of_bandwidths(table: &mut Table) -> bool {
    let factor = match (table.collective, table.rank_count()) {
        (Some(collective), Some(ranks)) => Some(collective.bus_factor(ranks)),
        _ => None,
    };
    let factor = factor.filter(|it| *it > 0.0);
    for row in &mut table.rows {
        for figures in row.out_of_place.iter_mut().chain(&mut row.in_place) {
            if figures.time_us > 0.0 {
                continue;
            }
            let Some(factor) = factor else {
                return false;
            };
            figures.algorithm_gbps = figures.bus_gbps / factor;
            figures.time_us = row.bytes as f64 / figures.algorithm_gbps / 1e3;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        let mut columns: Option<NamedColumns> = None;
        let mut rows = Vec::new();
        for it in text.lines() {
            match line(it, columns.as_ref()) {
                Some(Line::Header(header)) => columns = Some(header),
                Some(Line::Row(row)) => rows.push(row.unwrap()),
                Some(Line::Other) | None => {}
            }
        }
        rows
    }

    #[test]
    fn cells_are_read_with_units_and_emphasis() {
        let read = rows(
            "| **Message size** | time (ms) | algbw (GB/s) | busbw (GB/s) | note |\n\
             |---:|---|:-:|---|---|\n\
             | 1 GiB | 4.06 | 264.5 | **495.9** | warm |\n\
             | 1,048,576 | 0.0524 | 20.01 | 37.52 | |\n",
        );
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].bytes, read[1].bytes), (1 << 30, 1 << 20));
        let figures = read[0].out_of_place.unwrap();
        assert!((figures.time_us - 4060.0).abs() < 0.1, "{figures:?}");
        assert_eq!(figures.bus_gbps, 495.9);
    }

    #[test]
    fn a_bandwidth_tells_the_time() {
        let read = rows("| size (MB) | algbw |\n|--|--|\n| 1024 | 100 |\n");
        let figures = read[0].out_of_place.unwrap();
        assert!((figures.time_us - 10737.4).abs() < 0.1, "{figures:?}");
        let read = rows("| size | busbw |\n|--|--|\n| 1G | 473.2 |\n| all | good |\n");
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].out_of_place.unwrap().time_us, 0.0);
    }

    #[test]
    fn headings_say_what_is_measured() {
        let mut headings = Headings::default();
        let mut after = |line: &str| {
            headings.take(line);
            headings.subject()
        };
        let all_reduce = Some(Collective::AllReduce);
        assert_eq!(after("# all_reduce"), None);
        assert_eq!(after("## How to reduce latency"), None);
        assert_eq!(after("########"), None);
        let both = Some((all_reduce, Some(16)));
        assert_eq!(after("## all_reduce, 16 GPUs"), both);
        assert_eq!(after("### Results"), both);
        assert_eq!(after("### 32 ranks"), Some((all_reduce, Some(32))));
        assert_eq!(after("### Again"), both);
        assert_eq!(after("## AllReduce"), Some((all_reduce, None)));
        let all_to_all = Some((Some(Collective::AllToAll), None));
        assert_eq!(after("## The all-to-all"), all_to_all);
        let broadcast = Some((Some(Collective::Broadcast), None));
        assert_eq!(after("## Broadcast"), broadcast);
        assert_eq!(after("## Notes"), Some((None, None)));
    }
}
