//! Files of any known format.

use std::io::{BufRead, Read};

use crate::call::Workload;
use crate::error::WorkloadError;
use crate::{MAX_BYTES, kineto, list, read};

/// Largest trace that is read, bytes.
const TRACE_BYTES: u64 = 8 << 30;

/// The files of a workload: one with calls, or a trace of each rank.
#[derive(Debug, Default)]
pub struct Files {
    names: Vec<String>,
    traces: Vec<kineto::Trace>,
    calls: Option<Workload>,
}

impl Files {
    /// Reads one more. `ranks` is the number of ranks of the job where a file does not say it.
    ///
    /// # Errors
    /// It cannot be read, it is of no known format, or it is a second file with calls.
    pub fn add(
        &mut self,
        name: &str,
        file: &mut impl BufRead,
        ranks: u32,
    ) -> Result<(), WorkloadError> {
        let is_trace = is_trace(name, file)?;
        if self.calls.is_some() || (!is_trace && !self.names.is_empty()) {
            let why =
                "one more file beside calls; expected one file with calls, or a trace of each rank";
            return Err(WorkloadError::new(name, 0, why));
        }
        match is_trace {
            true => self
                .traces
                .push(kineto::read(name, file.take(TRACE_BYTES))?),
            false => self.calls = Some(read(name, &text(name, file)?, ranks)?),
        }
        self.names.push(name.to_owned());
        Ok(())
    }

    /// The workload of all files.
    ///
    /// # Errors
    /// The traces are not of one job.
    pub fn workload(self) -> Result<Workload, WorkloadError> {
        match self.calls {
            Some(calls) => Ok(calls),
            None => kineto::workload(&self.traces, &self.names),
        }
    }
}

/// Whether a file is a trace: JSON that is no list of calls.
fn is_trace(name: &str, file: &mut impl BufRead) -> Result<bool, WorkloadError> {
    let first = file.fill_buf().map_err(|why| unreadable(name, &why))?;
    let begin = String::from_utf8_lossy(&first[..first.len().min(4096)]);
    Ok(begin.trim_start().starts_with('{') && !list::json::is_one(&begin))
}

fn text(name: &str, file: &mut impl BufRead) -> Result<String, WorkloadError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|why| unreadable(name, &why))?;
    if bytes.len() as u64 > MAX_BYTES {
        let why = format!("larger than {} MiB; expected {EXPECTED}", MAX_BYTES >> 20);
        return Err(WorkloadError::new(name, 0, why));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() as u64 + 1;
        let why = format!("a byte that is no text (UTF-8); expected {EXPECTED}");
        WorkloadError::new(name, line, why)
    })
}

/// What a file with calls is.
const EXPECTED: &str = "a list of calls or a workload of SimAI";

fn unreadable(name: &str, why: &std::io::Error) -> WorkloadError {
    WorkloadError::new(name, 0, format!("it cannot be read: {why}"))
}
