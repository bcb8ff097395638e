//! Files of any known format.

use std::io::{BufRead, Read};

use crate::call::Workload;
use crate::error::WorkloadError;
use crate::{MAX_BYTES, chakra, kineto, list, megatron, read, simai};

/// Largest trace that is read, bytes.
const TRACE_BYTES: u64 = 8 << 30;

/// The files of a workload: one with calls, or a trace of each rank.
#[derive(Debug, Default)]
pub struct Files {
    names: Vec<String>,
    kineto: Vec<kineto::Trace>,
    chakra: Vec<chakra::Trace>,
    calls: Option<Workload>,
    tflops: Option<f64>,
}

/// Whether a file that begins like this is a workload of a known format.
pub fn is_one(first: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(first);
    chakra::is_binary(first)
        || chakra::is_one(&begin)
        || kineto::is_one(&begin)
        || list::json::is_one(&begin)
        || list::csv::is_one(&begin)
        || simai::is_one(&begin)
        || megatron::script::is_one(&begin)
}

/// The forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A list of calls, a workload of SimAI, or Megatron's arguments.
    Calls,
    /// A trace of PyTorch's profiler.
    Kineto,
    /// An execution trace as JSON.
    ChakraJson,
    /// An execution trace as protobuf.
    ChakraProtobuf,
}

impl Files {
    /// No files. `tflops` is what a GPU computes, TFLOP/s, where a file has a model and not the
    /// time of its computation.
    pub fn new(tflops: Option<f64>) -> Self {
        Self {
            tflops,
            ..Self::default()
        }
    }

    /// Reads one more. `ranks` is the number of ranks of the job where a file does not say it.
    ///
    /// # Errors
    /// It cannot be read, it is of no known format, it is a second file with calls, or a trace of
    /// another kind than those before.
    pub fn add(
        &mut self,
        name: &str,
        file: &mut impl BufRead,
        ranks: u32,
    ) -> Result<(), WorkloadError> {
        let form = Form::of(name, file)?;
        if self.calls.is_some() || (form == Form::Calls && !self.names.is_empty()) {
            let why =
                "one more file beside calls; expected one file with calls, or a trace of each rank";
            return Err(WorkloadError::new(name, 0, why));
        }
        let mut trace = file.take(TRACE_BYTES);
        match form {
            Form::Calls => {
                self.calls = Some(read(name, &text(name, &mut trace)?, ranks, self.tflops)?)
            }
            Form::Kineto => self.kineto.push(kineto::read(name, trace)?),
            Form::ChakraJson => self.chakra.push(chakra::read_json(name, trace)?),
            Form::ChakraProtobuf => self.chakra.push(chakra::read_protobuf(name, trace)?),
        }
        if !self.kineto.is_empty() && !self.chakra.is_empty() {
            let why = "execution traces and traces of PyTorch's profiler are given together; expected one kind";
            return Err(WorkloadError::new(name, 0, why));
        }
        self.names.push(name.to_owned());
        Ok(())
    }

    /// The workload of all files, of a job with so many ranks.
    ///
    /// # Errors
    /// The traces are not of one job.
    pub fn workload(self, ranks: u32) -> Result<Workload, WorkloadError> {
        match self.calls {
            Some(calls) => Ok(calls),
            None if self.chakra.is_empty() => kineto::workload(&self.kineto, &self.names),
            None => chakra::workload(&self.chakra, &self.names, ranks),
        }
    }
}

impl Form {
    /// The form of a file.
    fn of(name: &str, file: &mut impl BufRead) -> Result<Self, WorkloadError> {
        let first = file.fill_buf().map_err(|why| unreadable(name, &why))?;
        let first = &first[..first.len().min(4096)];
        if chakra::is_binary(first) {
            return Ok(Self::ChakraProtobuf);
        }
        let begin = String::from_utf8_lossy(first);
        Ok(match begin.trim_start().starts_with('{') {
            true if list::json::is_one(&begin) => Self::Calls,
            true if chakra::is_one(&begin) => Self::ChakraJson,
            true => Self::Kineto,
            false => Self::Calls,
        })
    }
}

fn text(name: &str, file: &mut impl Read) -> Result<String, WorkloadError> {
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
const EXPECTED: &str = "a list of calls, a workload of SimAI, or Megatron's arguments";

fn unreadable(name: &str, why: &std::io::Error) -> WorkloadError {
    WorkloadError::new(name, 0, format!("it cannot be read: {why}"))
}
