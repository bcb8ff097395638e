//! Bandwidths of several transfers at once, of which only the total is known: nvbandwidth's tests
//! between one GPU and all others.

use crate::bandwidth::{Case, Method, UnreadCell, columns, row, value, values};

/// Most totals that are kept of one input.
pub(crate) const MOST_TOTALS: usize = 4096;

/// Transfers that ran at once, with their total.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// What measured.
    pub method: Method,
    /// The transfers: from the GPU that holds the data to the one that gets it, as the program
    /// numbers them.
    pub transfers: Vec<(usize, usize)>,
    /// Bandwidth of all together, GB/s.
    pub gbps: f32,
}

/// What a title says of the row of totals below it.
#[derive(Debug, Clone)]
struct Title {
    method: Method,
    /// The GPU of a column sends to all others; otherwise all others send to it.
    sends: bool,
}

impl Title {
    /// nvbandwidth's title. Unlike those of matrices, its arrows show where the data goes.
    fn of(test: &str, title: &str) -> Option<Self> {
        let title = title.trim().to_ascii_lowercase();
        let between = title.strip_suffix("total bandwidth (gb/s)")?;
        let between = between.split_whitespace().collect::<Vec<_>>();
        let sends =
            match between[..] {
                [.., "gpu(column)", "->", "all", "gpus"]
                | [.., "all", "gpus", "<-", "gpu(column)"] => true,
                [.., "all", "gpus", "->", "gpu(column)"]
                | [.., "gpu(column)", "<-", "all", "gpus"] => false,
                _ => return None,
            };
        Some(Self {
            method: Method {
                program: "nvbandwidth",
                test: test.chars().take(80).collect(),
                by_peer_access: true,
            },
            sends,
        })
    }

    fn totals(&self, values: &[Option<f32>]) -> Vec<Total> {
        let gpus = values.len();
        let known = values.iter().enumerate();
        let known = known.filter_map(|(own, value)| Some((own, (*value)?)));
        let totals = known.map(|(own, gbps)| {
            let others = (0..gpus).filter(|other| *other != own);
            Total {
                method: self.method.clone(),
                transfers: match self.sends {
                    true => others.map(|other| (own, other)).collect(),
                    false => others.map(|other| (other, own)).collect(),
                },
                gbps,
            }
        });
        totals.filter(|total| !total.transfers.is_empty()).collect()
    }
}

/// The totals of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct TotalReader {
    pub(crate) found: Vec<Total>,
    test: String,
    title: Option<Title>,
    columns: usize,
    /// The first cell that cannot be read.
    pub(crate) unread: Option<UnreadCell>,
}

impl TotalReader {
    /// Whether a line, whose number counts from 1, belongs to a row of totals.
    pub(crate) fn line(&mut self, number: u32, line: &str) -> bool {
        if let Some(name) = line.strip_prefix("Running ") {
            let name = name.trim_end().trim_end_matches('.');
            self.test = name.chars().take(80).collect();
            return false;
        }
        if let Some(title) = Title::of(&self.test, line) {
            (self.title, self.columns) = (Some(title), 0);
            return true;
        }
        let Some(title) = &self.title else {
            return false;
        };
        if self.columns == 0 {
            self.columns = columns(line);
            if self.columns == 0 {
                self.title = None;
            }
            return self.columns > 0;
        }
        let found = row(line, 0, self.columns);
        let is_row = found.is_some();
        match found {
            Some(Ok(values)) => {
                let room = MOST_TOTALS.saturating_sub(self.found.len());
                self.found
                    .extend(title.totals(&values).into_iter().take(room));
            }
            Some(Err(cell)) => {
                self.unread
                    .get_or_insert(cell.of(number, &title.method.test));
            }
            None => {}
        }
        self.title = None;
        is_row
    }
}

/// The totals of a test in nvbandwidth's JSON, and the first cell that cannot be read.
pub(crate) fn of_case(case: &Case, unread: &mut Option<UnreadCell>) -> Vec<Total> {
    let Some(title) = Title::of(&case.name, &case.bandwidth_description) else {
        return Vec::new();
    };
    let row = case.bandwidth_matrix.last();
    let row = row.filter(|it| it.len() <= crate::bandwidth::MOST_GPUS);
    match row.map(|row| values(row, (0, 0), value)) {
        Some(Ok(values)) => title.totals(&values),
        Some(Err(cell)) => {
            unread.get_or_insert(cell.of(0, &case.name));
            Vec::new()
        }
        None => Vec::new(),
    }
}
