//! The planner: jobs, questions and answers as JSON ([`answers`]).

use std::borrow::Cow;
use std::path::PathBuf;

use answers::built_in;
use answers::file_question::FileQuestion;
use answers::question::Question;
use answers::report::{self, Answered};
use answers::request::{JobRequest, PlannedJob};
use answers::terminal::Look;
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

    /// The page of an answer, in lines of as many characters.
    fn text(&self, py: Python<'_>, question: &[u8], width: usize) -> PyResult<String> {
        let question: Question = parse(question)?;
        let text = py.detach(|| self.0.text(&question, plain(width)));
        text.map_err(PlanError::new_err)
    }

    /// Answers a question as JSON.
    fn ask(&self, py: Python<'_>, question: &[u8]) -> PyResult<String> {
        let question: Question = parse(question)?;
        let answer = py.detach(|| self.0.ask(&question));
        written(answer)
    }
}

/// An answer as JSON, with its page under the key `page`.
fn written(answer: Result<Answered, String>) -> PyResult<String> {
    let written = answer.and_then(Answered::with_page);
    written.map_err(PlanError::new_err)
}

/// A page without colors.
const fn plain(width: usize) -> Look {
    Look {
        width,
        color: false,
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
    written(answer)
}

/// The page of an answer about files, in lines of as many characters.
#[pyfunction]
pub fn text(py: Python<'_>, question: &[u8], width: usize) -> PyResult<String> {
    let question: FileQuestion = parse(question)?;
    let text = py.detach(|| question.text(plain(width)));
    text.map_err(PlanError::new_err)
}

/// The schema of all questions.
#[pyfunction]
pub const fn questions() -> &'static str {
    include_str!("../../../docs/schemas/questions.schema.json")
}

macro_rules! documents {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../docs/", $name, ".md")))),*]
    };
}

/// The documents for users.
const DOCUMENTS: &[(&str, &str)] = documents! {
    "acceptance" "bounds" "compare" "diagnose" "export" "gpu" "hosts" "nccl-check" "page" "planning"
    "probing" "programs" "pytorch" "running" "security" "settings" "simulation" "step"
    "topology-model" "tuning"
};

/// What to ask when.
const SKILL: (&str, &str) = ("skill", include_str!("../../../SKILL.md"));

/// The names of the documents.
#[pyfunction]
pub fn documents() -> Vec<&'static str> {
    let names = DOCUMENTS.iter().map(|(name, _)| *name);
    [SKILL.0].into_iter().chain(names).collect()
}

/// A document, as Markdown.
///
/// # Errors
/// `PlanError`: there is none of this name.
#[pyfunction]
pub fn document(name: &str) -> PyResult<&'static str> {
    let mut all = [SKILL].iter().chain(DOCUMENTS);
    let found = all.find(|(known, _)| *known == name);
    let none = || PlanError::new_err(format!("there is no document {name}"));
    found.map(|(_, text)| *text).ok_or_else(none)
}

/// The topology of a machine that is built in, as XML.
///
/// # Errors
/// `PlanError`: there is none.
#[pyfunction]
pub fn machine(name: &str) -> PyResult<&'static str> {
    let none = || PlanError::new_err(format!("there is no machine {name}"));
    built_in::find(name).map(|it| it.text).ok_or_else(none)
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
