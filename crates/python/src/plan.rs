//! The planner: requests and answers as JSON, as the page in the browser has them.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Most bytes of a topology file.
const MOST_BYTES: u64 = 64 << 20;

/// Answers a request of the crate `web`.
#[pyfunction]
pub fn answer(py: Python<'_>, request: &[u8]) -> String {
    py.detach(|| web::answer(request))
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
