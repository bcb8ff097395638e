//! Everything that one file says of bandwidths between GPUs.

use std::sync::Arc;

use topology::Error;
use topology::error::{Place, Position};

pub use crate::bandwidth::MOST_GPUS;
use crate::bandwidth::{self, BandwidthReader, Bandwidths, File, MOST_BYTES, UnreadCell};
use crate::latency::{Latencies, LatencyReader};
use crate::page::PageReader;
use crate::totals::{self, Total, TotalReader};
use crate::{error, text};

/// Bandwidths between GPUs that were measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurements {
    /// The file.
    pub name: String,
    /// Matrices, in the order of the file.
    pub matrices: Vec<Bandwidths>,
    /// Transfers at once with their total, in the order of the file.
    pub totals: Vec<Total>,
    /// Latencies of writes, if the file has them.
    pub latencies: Option<Latencies>,
    /// The first cell of each kind that cannot be read: what it belongs to is left out.
    pub unread: Vec<UnreadCell>,
}

impl Measurements {
    /// Reads the output of nvbandwidth (text or JSON) or of p2pBandwidthLatencyTest, or a page with
    /// such tables. `name` is the file's name in messages.
    ///
    /// # Errors
    /// There is no bandwidth between GPUs in it, or JSON that is not nvbandwidth's.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        let read = match first {
            Some(b'{') => Self::of_json(name, bytes)?,
            _ => Self::of_text(name, bytes),
        };
        if read.matrices.is_empty() && read.totals.is_empty() {
            if let Some(cell) = read.unread.first() {
                return Err(unreadable(name, cell));
            }
            return Err(error(
                name,
                1,
                "no bandwidths between GPUs",
                "no matrix and no transfers with their total",
                "the output of nvbandwidth (text or -j) or of p2pBandwidthLatencyTest, or a page with \
                 such tables below a heading that names a bandwidth",
            ));
        }
        Ok(read)
    }

    fn of_json(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let file: Result<File, _> = match bytes.len() > MOST_BYTES {
            true => Err("the file is too large".to_owned()),
            false => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        };
        let file = file.map_err(|problem| {
            let place = Place {
                file: Arc::from(name),
                position: Position { line: 0, column: 0 },
                element: None,
                attribute: None,
            };
            Error::new(
                place,
                "no results of nvbandwidth",
                problem,
                "what `nvbandwidth -j` prints",
            )
        })?;
        let cases = file.nvbandwidth.testcases.iter();
        let [mut of_matrix, mut of_total] = [None, None];
        Ok(Self {
            name: name.to_owned(),
            matrices: bandwidth::of_file(&file, &mut of_matrix),
            totals: cases
                .flat_map(|it| totals::of_case(it, &mut of_total))
                .take(totals::MOST_TOTALS)
                .collect(),
            latencies: None,
            unread: [of_matrix, of_total].into_iter().flatten().collect(),
        })
    }

    fn of_text(name: &str, bytes: &[u8]) -> Self {
        let mut matrices = BandwidthReader::default();
        let mut totals = TotalReader::default();
        let mut page = PageReader::default();
        let mut latencies = LatencyReader::default();
        for (number, line) in text::lines(bytes) {
            let is_total = totals.line(number, &line);
            let is_latency = latencies.line(number, &line);
            if !matrices.line(number, &line) && !is_total && !is_latency {
                page.line(number, &line);
            }
        }
        let unread = [
            matrices.unread,
            totals.unread,
            page.unread,
            latencies.unread,
        ];
        let mut read = Self {
            name: name.to_owned(),
            matrices: matrices.found,
            totals: totals.found,
            latencies: latencies.found,
            unread: unread.into_iter().flatten().collect(),
        };
        read.matrices.append(&mut page.matrices);
        read.totals.append(&mut page.totals);
        read
    }
}

/// The error about a file of which no matrix is left.
pub(crate) fn unreadable(name: &str, cell: &UnreadCell) -> Error {
    error(
        name,
        cell.line,
        "a bandwidth that cannot be read",
        cell.to_string(),
        "a number of GB/s from 0, or N/A where nothing was measured",
    )
}
