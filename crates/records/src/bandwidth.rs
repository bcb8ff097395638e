//! Bandwidths between GPUs as nvbandwidth (text and JSON) and p2pBandwidthLatencyTest measured
//! them.

use std::fmt;

use serde::Deserialize;

use crate::text::has;

/// Largest JSON of nvbandwidth that is read, bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// Most GPUs of a matrix, and most matrices that are kept of one input.
pub const MOST_GPUS: usize = 512;
pub(crate) const MOST_MATRICES: usize = 64;

/// Words of which every line that begins a matrix has one.
const TITLES: [&str; 2] = ["GPU(row)", "Bandwidth"];

/// What measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// The program: `nvbandwidth` or `p2pBandwidthLatencyTest`.
    pub program: &'static str,
    /// The test in the program's words, such as `device_to_device_memcpy_read_ce`.
    pub test: String,
    /// Whether the GPUs accessed each other's memory; if not, the data went through the host.
    pub by_peer_access: bool,
}

/// Which transfers ran at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// One transfer at a time.
    One,
    /// One in each direction; a value is the sum of both.
    Both,
    /// All pairs of the matrix in both directions; a value is that of one transfer among them.
    All,
}

/// A matrix of measured bandwidths, GPU × GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Bandwidths {
    /// What measured.
    pub method: Method,
    /// Which transfers ran at once.
    pub direction: Direction,
    /// GB/s from the GPU that holds the data (row) to the one that gets it (column), as the program
    /// numbers them. `None` where nothing was measured: a GPU and itself, GPUs without access. 0 is
    /// what was measured.
    pub values: Vec<Vec<Option<f32>>>,
}

impl Bandwidths {
    /// Pairs of different GPUs with their bandwidths, GB/s: from, to, value.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize, f32)> + '_ {
        self.values.iter().enumerate().flat_map(|(from, row)| {
            let known = row.iter().enumerate();
            known.filter_map(move |(to, value)| Some((from, to, (*value)?)))
        })
    }

    /// A matrix as it was printed; `None` if it is empty, or has no value of different GPUs.
    pub(crate) fn of(title: &Title, rows: Vec<Vec<Option<f32>>>) -> Option<Self> {
        let count = rows.len();
        let mut values = rows;
        let mut own = (0..count).map(|own| values[own].get(own).copied().flatten());
        // Older versions of nvbandwidth print 0.00 where nothing was measured, and so for each GPU
        // and itself.
        if own.all(|it| it == Some(0.0)) {
            let all = values.iter_mut().flatten();
            all.for_each(|it| *it = it.filter(|gbps| *gbps > 0.0));
        }
        if title.is_reversed {
            let printed = std::mem::take(&mut values);
            let printed = &printed;
            let column = |to: usize| {
                printed
                    .iter()
                    .map(move |row| row.get(to).copied().flatten())
            };
            values = (0..count).map(|to| column(to).collect()).collect();
        }
        for (own, row) in values.iter_mut().enumerate() {
            row.resize(count, None);
            row[own] = None;
        }
        let made = Self {
            method: title.method.clone(),
            direction: title.direction,
            values,
        };
        let has_values = made.pairs().next().is_some();
        has_values.then_some(made)
    }
}

/// What a title says of the matrix below it.
#[derive(Debug, Clone)]
pub(crate) struct Title {
    pub method: Method,
    pub direction: Direction,
    /// Data goes from the column to the row.
    pub is_reversed: bool,
}

impl Title {
    /// nvbandwidth's title below `Running TEST.`. Its arrows show who asks: `->` is a read, whose
    /// data goes to the row.
    fn of_nvbandwidth(test: &str, title: &str) -> Option<Self> {
        let is_matrix = title.contains("GPU(row)")
            && title.contains("GPU(column)")
            && title.contains("bandwidth (GB/s)");
        // Parts of a sum.
        let parts = ["Read1", "Read2", "Write1", "Write2"];
        if !is_matrix || parts.iter().any(|it| title.contains(it)) {
            return None;
        }
        let is_both = title.contains("<->");
        Some(Self {
            method: Method {
                program: "nvbandwidth",
                test: test.chars().take(80).collect(),
                by_peer_access: true,
            },
            direction: match is_both {
                true => Direction::Both,
                false => Direction::One,
            },
            is_reversed: !is_both && title.contains("->"),
        })
    }

    /// p2pBandwidthLatencyTest's title. It says `(P2P Writes)` or `(P2P Reads)`; older versions
    /// read.
    fn of_latency_test(title: &str) -> Option<Self> {
        let title = title.trim();
        let direction = match title.split(' ').next()? {
            "Unidirectional" => Direction::One,
            "Bidirectional" => Direction::Both,
            // No program's title: for those who measure all pairs at once.
            "Simultaneous" => Direction::All,
            _ => return None,
        };
        let is_matrix = title.contains("Bandwidth") && title.ends_with("Matrix (GB/s)");
        let by_peer_access = title.contains("P2P=Enabled");
        (is_matrix && title.len() < 100).then(|| Self {
            method: Method {
                program: "p2pBandwidthLatencyTest",
                test: title.trim_end_matches(" Matrix (GB/s)").to_owned(),
                by_peer_access,
            },
            direction,
            is_reversed: by_peer_access && !title.contains("Writes"),
        })
    }
}

/// The matrices of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct BandwidthReader {
    pub(crate) found: Vec<Bandwidths>,
    /// The last test that nvbandwidth began.
    test: String,
    title: Option<Title>,
    columns: usize,
    rows: Vec<Vec<Option<f32>>>,
    /// The first cell that cannot be read.
    pub(crate) unread: Option<UnreadCell>,
}

impl BandwidthReader {
    /// Whether a line, whose number counts from 1, belongs to a matrix.
    pub(crate) fn line(&mut self, number: u32, line: &str) -> bool {
        if let Some(name) = line.strip_prefix("Running ") {
            let name = name.trim_end().trim_end_matches('.');
            self.test = name.chars().take(80).collect();
            return false;
        }
        if TITLES.iter().any(|it| has(line, it)) {
            let title = Title::of_nvbandwidth(&self.test, line);
            self.title = title.or_else(|| Title::of_latency_test(line));
            (self.columns, self.rows) = (0, Vec::new());
            return self.title.is_some();
        }
        if self.title.is_none() || line.trim().is_empty() {
            return false;
        }
        if self.columns == 0 {
            self.columns = columns(line);
        } else if let Some(row) = row(line, self.rows.len(), self.columns) {
            let title = self.title.as_ref().map_or("", |it| &it.method.test);
            match row {
                Ok(row) => self.rows.push(row),
                Err(cell) => {
                    self.unread.get_or_insert(cell.of(number, title));
                    self.title = None;
                    return true;
                }
            }
            if self.rows.len() < self.columns {
                return true;
            }
            let title = self.title.take();
            let rows = std::mem::take(&mut self.rows);
            let made = title.and_then(|title| Bandwidths::of(&title, rows));
            if self.found.len() < MOST_MATRICES {
                self.found.extend(made);
            }
            return true;
        } else {
            self.columns = 0;
        }
        if self.columns == 0 {
            self.title = None;
        }
        self.columns > 0
    }
}

/// The number of columns that a header names `0 1 2 …`; 0 if the line is none.
pub(crate) fn columns(line: &str) -> usize {
    let cells = line.split_whitespace().filter(|it| *it != "D\\D");
    let mut count = 0;
    for (place, cell) in cells.enumerate() {
        if place >= MOST_GPUS || cell.parse() != Ok(place) {
            return 0;
        }
        count = place + 1;
    }
    count
}

/// A cell of a row that is neither a number nor what stands where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnreadCell {
    /// Its line, from 1; 0 in JSON.
    pub line: u32,
    /// The test, in the program's words.
    pub test: String,
    /// The GPU of its row.
    pub row: usize,
    /// The GPU of its column.
    pub column: usize,
    /// It, cut.
    pub text: String,
}

impl UnreadCell {
    pub(crate) fn new(row: usize, column: usize, text: &str) -> Self {
        Self {
            row,
            column,
            text: text.chars().take(40).collect(),
            ..Self::default()
        }
    }

    /// The cell of a test in a line.
    pub(crate) fn of(self, line: u32, test: &str) -> Self {
        Self {
            line,
            test: test.to_owned(),
            ..self
        }
    }
}

impl fmt::Display for UnreadCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.test.is_empty() {
            write!(f, "{}, ", self.test)?;
        }
        let Self {
            row, column, text, ..
        } = self;
        write!(f, "row GPU{row}, column GPU{column}: `{text}`")
    }
}

/// The values of a row.
pub(crate) type Row = Result<Vec<Option<f32>>, UnreadCell>;

/// The values of the row of a number; `None` if the line is another one.
pub(crate) fn row(line: &str, number: usize, columns: usize) -> Option<Row> {
    let mut words = line.split_whitespace();
    if words.next()?.parse() != Ok(number) {
        return None;
    }
    let cells: Vec<&str> = words.collect();
    (cells.len() == columns).then(|| values(&cells, (number, 0), value))
}

/// The values of cells. The first one is of these GPUs, by its row and column.
pub(crate) fn values<C: AsRef<str>>(
    cells: &[C],
    (row, first): (usize, usize),
    value: impl Fn(&str) -> Option<Option<f32>>,
) -> Row {
    let cells = cells.iter().map(|cell| cell.as_ref().trim());
    let values = cells
        .enumerate()
        .map(|(at, cell)| value(cell).ok_or_else(|| UnreadCell::new(row, first + at, cell)));
    values.collect()
}

/// A bandwidth, or what stands where there is none.
pub(crate) fn value(cell: &str) -> Option<Option<f32>> {
    if cell == "N/A" {
        return Some(None);
    }
    let value: f32 = cell.parse().ok()?;
    (0.0..1e6).contains(&value).then_some(Some(value))
}

/// nvbandwidth's JSON.
#[derive(Deserialize)]
pub(crate) struct File {
    pub nvbandwidth: Results,
}

#[derive(Deserialize)]
pub(crate) struct Results {
    #[serde(default)]
    pub testcases: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub name: String,
    #[serde(default)]
    pub bandwidth_description: String,
    #[serde(default)]
    pub bandwidth_matrix: Vec<Vec<String>>,
}

/// The matrices of `nvbandwidth -j`.
///
/// # Errors
/// Bytes that are no such JSON.
pub fn json(bytes: &[u8]) -> serde_json::Result<Vec<Bandwidths>> {
    Ok(of_file(&serde_json::from_slice(bytes)?, &mut None))
}

/// The matrices of a file, and the first cell that cannot be read.
pub(crate) fn of_file(file: &File, unread: &mut Option<UnreadCell>) -> Vec<Bandwidths> {
    let mut found = Vec::new();
    for case in file.nvbandwidth.testcases.iter().take(MOST_MATRICES) {
        let Some(title) = Title::of_nvbandwidth(&case.name, &case.bandwidth_description) else {
            continue;
        };
        // The sum is below its parts.
        let columns = case.bandwidth_matrix.first().map_or(0, Vec::len);
        let skipped = case.bandwidth_matrix.len().saturating_sub(columns);
        let rows = &case.bandwidth_matrix[skipped..];
        let fits = columns <= MOST_GPUS && rows.iter().all(|it| it.len() == columns);
        if rows.len() != columns || !fits {
            continue;
        }
        let rows = rows.iter().enumerate();
        let rows = rows.map(|(at, row)| values(row, (at, 0), value));
        match rows.collect::<Result<Vec<_>, UnreadCell>>() {
            Ok(rows) => found.extend(Bandwidths::of(&title, rows)),
            Err(cell) => {
                unread.get_or_insert(cell.of(0, &case.name));
            }
        }
    }
    found
}
