//! Everything that one file says of bandwidths between GPUs.

use std::sync::Arc;

use topology::Error;
use topology::error::{Place, Position};

pub use crate::bandwidth::MOST_GPUS;
use crate::bandwidth::{self, BandwidthReader, Bandwidths, File, MOST_BYTES};
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
        Ok(Self {
            name: name.to_owned(),
            matrices: bandwidth::of_file(&file),
            totals: cases
                .flat_map(totals::of_case)
                .take(totals::MOST_TOTALS)
                .collect(),
            latencies: None,
        })
    }

    fn of_text(name: &str, bytes: &[u8]) -> Self {
        let mut matrices = BandwidthReader::default();
        let mut totals = TotalReader::default();
        let mut page = PageReader::default();
        let mut latencies = LatencyReader::default();
        for (_, line) in text::lines(bytes) {
            let is_total = totals.line(&line);
            let is_latency = latencies.line(&line);
            if !matrices.line(&line) && !is_total && !is_latency {
                page.line(&line);
            }
        }
        let mut read = Self {
            name: name.to_owned(),
            matrices: matrices.found,
            totals: totals.found,
            latencies: latencies.found,
        };
        read.matrices.append(&mut page.matrices);
        read.totals.append(&mut page.totals);
        read
    }
}
