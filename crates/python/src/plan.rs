//! The planner: jobs, questions and answers as JSON ([`answers`]).

use std::borrow::Cow;
use std::path::PathBuf;

use answers::file_question::FileQuestion;
use answers::question::Question;
use answers::request::{JobRequest, PlannedJob};
use answers::{built_in, report};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

create_exception!(
    toporing,
    PlanError,
    PyValueError,
    "The topology cannot be read or planned, or something about the job is wrong. The text names \
     file and line."
);

/// Most bytes of a file.
const MOST_BYTES: u64 = 64 << 20;

/// How serde's errors about values of another type begin.
const WRONG_TYPE: &str = "invalid type: ";

/// A planned job.
#[pyclass(frozen)]
pub struct Planned(PlannedJob);

#[pymethods]
impl Planned {
    /// Plans a job.
    #[new]
    fn new(py: Python<'_>, job: &[u8]) -> PyResult<Self> {
        let job: JobRequest = parse(job)?;
        let planned = py.detach(|| job.plan());
        planned.map(Self).map_err(PlanError::new_err)
    }

    /// Answers a question as JSON.
    fn ask(&self, py: Python<'_>, question: &[u8]) -> PyResult<String> {
        let question: Question = parse(question)?;
        let answer = py.detach(|| self.0.ask(&question));
        answer.map(|it| it.json).map_err(PlanError::new_err)
    }
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> PyResult<T> {
    serde_json::from_slice(json).map_err(|why| {
        let text = why.to_string();
        match text.starts_with(WRONG_TYPE) {
            true => PyTypeError::new_err(text),
            false => PlanError::new_err(text),
        }
    })
}

/// Answers a question about files as JSON.
#[pyfunction]
pub fn ask(py: Python<'_>, question: &[u8]) -> PyResult<String> {
    let question: FileQuestion = parse(question)?;
    let answer = py.detach(|| question.answer());
    answer.map(|it| it.json).map_err(PlanError::new_err)
}

/// The machines that are built in, as JSON.
#[pyfunction]
pub fn machines() -> PyResult<String> {
    let machines = report::json(&built_in::MachinesReport::ALL);
    machines.map_err(|why| PlanError::new_err(why.to_string()))
}

/// The versions of NCCL that are known.
#[pyfunction]
pub fn versions() -> Vec<String> {
    let versions = planner::NcclVersion::ALL.iter();
    versions.map(ToString::to_string).collect()
}

/// Reads a topology file within limits.
///
/// # Errors
/// `OSError`: the file cannot be read.
#[pyfunction]
pub fn read(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let read = py.detach(|| files::read_text(&path, MOST_BYTES));
    read.map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
}

/// Reads a file of any kind within limits.
///
/// # Errors
/// `OSError`: the file cannot be read.
#[pyfunction]
pub fn read_bytes(py: Python<'_>, path: PathBuf) -> PyResult<Cow<'static, [u8]>> {
    let read = py.detach(|| files::read(&path, MOST_BYTES));
    read.map(Cow::Owned)
        .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
}
