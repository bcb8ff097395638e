//! Bandwidths on pages of the web (Markdown), as people paste or write them: matrices below a
//! heading that names a bandwidth, and rows of tables that name transfers, such as
//! `GPU0→GPU4 + GPU1→GPU5`, with their total.

use crate::bandwidth::{
    Bandwidths, Direction, MOST_GPUS, MOST_MATRICES, Method, Row, Title, UnreadCell,
    value as bandwidth, values as read_cells,
};
use crate::totals::{MOST_TOTALS, Total};

/// What measured, where the page does not say it in a form that is read.
const PROGRAM: &str = "a page";

/// Most cells of all matrices. A matrix of the last GPUs has cells of all before them.
const MOST_CELLS: usize = 1 << 22;

/// Most transfers of a row.
const MOST_TRANSFERS: usize = 4096;

/// The measurements of a page, line by line.
#[derive(Debug, Default)]
pub(crate) struct PageReader {
    pub(crate) matrices: Vec<Bandwidths>,
    pub(crate) totals: Vec<Total>,
    heading: String,
    matrix: Option<Matrix>,
    /// Cells of all matrices.
    cells: usize,
    /// The cells of the first row of the table that is read.
    columns: Option<Vec<String>>,
    /// The first cell that cannot be read.
    pub(crate) unread: Option<UnreadCell>,
}

/// A matrix that is read.
#[derive(Debug)]
struct Matrix {
    title: Title,
    first: usize,
    columns: usize,
    rows: Vec<Vec<Option<f32>>>,
}

impl PageReader {
    /// Reads a line, whose number counts from 1.
    pub(crate) fn line(&mut self, number: u32, line: &str) {
        let line = line.trim();
        if line.starts_with('|') {
            self.matrix = None;
            return self.table(line);
        }
        self.columns = None;
        if line.starts_with('#') || line.starts_with("**") {
            let heading = line.trim_start_matches('#').trim();
            // A line in bold print below a heading says more about it.
            match line.starts_with('#') {
                true => self.heading = heading.chars().take(200).collect(),
                false if self.heading.len() < 400 => {
                    self.heading.push_str(" · ");
                    self.heading
                        .extend(heading.trim_matches('*').chars().take(100));
                }
                false => {}
            }
            self.matrix = None;
            return;
        }
        if let Some((first, columns)) = header(line) {
            let title = title(&self.heading, line);
            self.matrix = title.map(|title| Matrix {
                title,
                first,
                columns,
                rows: Vec::new(),
            });
            return;
        }
        self.row(number, line);
    }

    fn row(&mut self, number: u32, line: &str) {
        let Some(matrix) = &mut self.matrix else {
            return;
        };
        let label = matrix.first + matrix.rows.len();
        let values = match values(line, (label, matrix.first), matrix.columns) {
            Some(Ok(values)) => values,
            found => {
                if let Some(Err(cell)) = found {
                    let test = &matrix.title.method.test;
                    self.unread.get_or_insert(cell.of(number, test));
                }
                self.matrix = None;
                return;
            }
        };
        matrix.rows.push(values);
        if matrix.rows.len() < matrix.columns {
            return;
        }
        let cells = self.cells + (matrix.first + matrix.columns).pow(2);
        let has_room = cells <= MOST_CELLS && self.matrices.len() < MOST_MATRICES;
        if let Some(matrix) = self.matrix.take().filter(|_| has_room) {
            self.cells = cells;
            self.matrices.extend(matrix.finish());
        }
    }

    /// A row of a table.
    fn table(&mut self, line: &str) {
        let cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('*').trim().to_owned())
            .collect();
        let Some(columns) = &self.columns else {
            self.columns = Some(cells);
            return;
        };
        let Some((at, transfers)) = cells
            .iter()
            .enumerate()
            .find_map(|(at, cell)| Some((at, transfers(cell)?)))
        else {
            return;
        };
        let heading = |at: usize| columns.get(at).map_or("", String::as_str);
        // Where writes and reads have columns of their own, writes come first.
        let values = cells.iter().enumerate().skip(at + 1);
        let value = values
            .filter(|(at, cell)| cell.contains("GB/s") || heading(*at).contains("GB/s"))
            .find_map(|(_, cell)| gbps(cell));
        if let Some(gbps) = value.filter(|_| self.totals.len() < MOST_TOTALS) {
            self.totals.push(Total {
                method: method(cells.get(at).map_or("", String::as_str)),
                transfers,
                gbps,
            });
        }
    }
}

impl Matrix {
    /// The matrix among GPUs from 0 on.
    fn finish(self) -> Option<Bandwidths> {
        let all = self.first + self.columns;
        let mut rows = vec![vec![None; all]; self.first];
        rows.extend(self.rows.into_iter().map(|row| {
            let mut whole = vec![None; self.first];
            whole.extend(row);
            whole
        }));
        Bandwidths::of(&self.title, rows)
    }
}

fn method(test: &str) -> Method {
    Method {
        program: PROGRAM,
        test: test.chars().take(80).collect(),
        by_peer_access: true,
    }
}

/// What the heading says of the matrix whose header this is; `None` if it is no bandwidth.
fn title(heading: &str, header: &str) -> Option<Title> {
    let lower = heading.to_lowercase();
    let is_time = ["latency", "µs", "(us)", "microseconds"];
    if !(lower.contains("bandwidth") || lower.contains("gb/s"))
        || is_time.iter().any(|it| lower.contains(it))
        || lower.contains("p2p=disabled")
    {
        return None;
    }
    let at_once = ["all-to-all", "at once", "simultaneous", "under load"];
    let direction = match () {
        () if at_once.iter().any(|it| lower.contains(it)) => Direction::All,
        () if lower.contains("bidirectional") => Direction::Both,
        () => Direction::One,
    };
    // p2pBandwidthLatencyTest reads, unless it says that it writes.
    let is_reversed = header.trim_start().starts_with("D\\D") && !lower.contains("write");
    Some(Title {
        method: method(heading),
        direction,
        is_reversed: is_reversed && direction == Direction::One,
    })
}

/// The number of a GPU: `3`, `GPU3`, `GPU3:`.
fn number(word: &str) -> Option<usize> {
    let word = word.trim_end_matches(':');
    let digits = word.strip_prefix("GPU").unwrap_or(word);
    let all_digits = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    all_digits.then(|| digits.parse().ok()).flatten()
}

/// The words of a line, with `GPU 3` as one.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace().take(2 * MOST_GPUS) {
        let is_digit = word.starts_with(|it: char| it.is_ascii_digit());
        match words.last_mut().filter(|last| *last == "GPU" && is_digit) {
            Some(last) => last.push_str(word),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// The first GPU of a header and how many it names; `None` if the line is none.
fn header(line: &str) -> Option<(usize, usize)> {
    let words = match line.trim_start().strip_prefix("GPU ") {
        // A corner that says `GPU`, before numbers.
        Some(rest) if rest.split_whitespace().count() > 1 && !rest.contains("GPU") => words(rest),
        _ => words(line),
    };
    let corner = words.first().filter(|word| number(word).is_none());
    let names = &words[usize::from(corner.is_some())..];
    let numbers: Option<Vec<usize>> = names.iter().map(|word| number(word)).collect();
    let numbers = numbers.filter(|it| it.len() > 1)?;
    let first = *numbers.first()?;
    let in_order = numbers.iter().enumerate();
    let is_header = in_order
        .clone()
        .all(|(at, number)| *number == first.saturating_add(at));
    (is_header && first.saturating_add(numbers.len()) <= MOST_GPUS)
        .then_some((first, numbers.len()))
}

/// The values of the row of a GPU, from that to the first GPU; `None` if the line is another one.
fn values(line: &str, (label, first): (usize, usize), columns: usize) -> Option<Row> {
    let words = words(line);
    let (own, cells) = words.split_first()?;
    if number(own)? != label || cells.len() != columns {
        return None;
    }
    let value = |cell: &str| match cell {
        "-" | "–" | "—" | "X" => Some(None),
        cell => bandwidth(cell),
    };
    Some(read_cells(cells, (label, first), value))
}

/// All transfers that a cell names as `GPU0→GPU4` or `GPU0→4`; `None` if it names none, or some in
/// a form that is not read.
fn transfers(cell: &str) -> Option<Vec<(usize, usize)>> {
    let cell = cell.replace("->", "→");
    let mut found = Vec::new();
    let mut rest = cell.as_str();
    while let Some((before, after)) = rest.split_once('→') {
        let from = before
            .rsplit(|it: char| !(it.is_ascii_alphanumeric()))
            .next()?;
        let digits = after.trim_start().strip_prefix("GPU").unwrap_or(after);
        let end = digits.find(|it: char| !it.is_ascii_digit());
        let (to, then) = digits.split_at(end.unwrap_or(digits.len()));
        rest = then;
        let from = from.strip_prefix("GPU").and_then(number);
        let (from, to) = match (from, number(to)) {
            (Some(from), Some(to)) => (from, to),
            // An arrow between other words.
            (None, None) => continue,
            _ => return None,
        };
        if then.starts_with(',') || from == to || from.max(to) >= MOST_GPUS {
            return None;
        }
        found.push((from, to));
        if found.len() > MOST_TRANSFERS {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// A bandwidth in a cell, with or without its unit.
fn gbps(cell: &str) -> Option<f32> {
    let number = cell.trim_matches('*').trim_end_matches("GB/s");
    bandwidth(number.trim().trim_matches('*')).flatten()
}
