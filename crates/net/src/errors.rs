//! Errors of the bootstrap and of the system, as errors of a communicator.

use std::io;

use bootstrap::socket::service;
use executor::{Error, Failure};

/// The error of a rank whose bootstrap failed.
pub(crate) fn of_service(rank: u32, error: service::Error) -> Error {
    match error {
        service::Error::Failed(failure) => Error::Aborted {
            rank,
            failure: of_job(failure),
        },
        other => Error::Bootstrap {
            rank,
            why: other.to_string(),
        },
    }
}

/// The error of a rank for which the system has no socket, descriptor or thread.
pub(crate) fn of_system(rank: u32, error: &io::Error) -> Error {
    Error::Bootstrap {
        rank,
        why: error.to_string(),
    }
}

/// A failure of the job.
pub(crate) fn of_job(failure: bootstrap::Failure) -> Failure {
    Failure {
        rank: failure.rank,
        what: failure.what,
    }
}
