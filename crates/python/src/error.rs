//! Errors of communicators as exceptions.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};
use toporing::communicator::{Code, Fault};

create_exception!(
    toporing,
    CommError,
    PyRuntimeError,
    "A communicator failed, or it cannot be used here."
);
create_exception!(
    toporing,
    CommTimeoutError,
    CommError,
    "A rank waited too long for another one. The communicator cannot be used any more."
);

/// The exception for an error: `ValueError` for wrong arguments, after which the communicator
/// stays usable.
pub fn exception(fault: Fault) -> PyErr {
    match fault.code {
        Code::Invalid => PyValueError::new_err(fault.text),
        Code::Timeout => CommTimeoutError::new_err(fault.text),
        _ => CommError::new_err(fault.text),
    }
}
