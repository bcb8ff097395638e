//! Latencies between GPUs as p2pBandwidthLatencyTest measured them: how long small writes to a
//! peer's memory take.

use crate::bandwidth::{UnreadCell, columns, row};

/// Latencies between GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    /// The test in the program's words.
    pub test: String,
    /// µs from the GPU that writes (row) to the one that is written to (column), as the program
    /// numbers them. `None` for a GPU and itself.
    pub values: Vec<Vec<Option<f32>>>,
}

impl Latencies {
    /// The latency from one GPU to another, µs.
    pub fn between(&self, from: usize, to: usize) -> Option<f32> {
        self.values.get(from)?.get(to).copied().flatten()
    }
}

/// The last whole matrix with peer access of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct LatencyReader {
    pub(crate) found: Option<Latencies>,
    /// The title, once it was read.
    title: Option<String>,
    columns: usize,
    rows: Vec<Vec<Option<f32>>>,
    /// The first cell that cannot be read.
    pub(crate) unread: Option<UnreadCell>,
}

impl LatencyReader {
    /// Whether a line, whose number counts from 1, belongs to a matrix.
    pub(crate) fn line(&mut self, number: u32, line: &str) -> bool {
        let trimmed = line.trim().trim_start_matches(['#', '*']).trim();
        if trimmed.contains("Latency") {
            let is_time = ["(us)", "(µs)"].iter().any(|it| trimmed.contains(it));
            // Without peer access the data goes through the host's memory.
            let is_wanted = is_time && trimmed.contains("P2P=Enabled") && trimmed.len() < 100;
            self.title = is_wanted.then(|| trimmed.to_owned());
            (self.columns, self.rows) = (0, Vec::new());
            return self.title.is_some();
        }
        let (Some(title), false) = (&self.title, trimmed.is_empty() || trimmed == "```") else {
            return false;
        };
        if self.columns == 0 {
            self.columns = trimmed.strip_prefix("GPU").map_or(0, columns);
        } else if let Some(row) = row(trimmed, self.rows.len(), self.columns) {
            match row {
                Ok(row) => self.rows.push(row),
                Err(cell) => {
                    self.unread.get_or_insert(cell.of(number, title));
                    self.title = None;
                    return true;
                }
            }
        } else {
            self.columns = 0;
        }
        if self.columns == 0 {
            self.title = None;
            return false;
        }
        if self.rows.len() == self.columns {
            let mut values = std::mem::take(&mut self.rows);
            for (own, row) in values.iter_mut().enumerate() {
                row[own] = None;
                // No write takes no time.
                row.iter_mut()
                    .for_each(|it| *it = it.filter(|us| *us > 0.0));
            }
            self.found = Some(Latencies {
                test: title.clone(),
                values,
            });
            self.title = None;
        }
        true
    }
}
