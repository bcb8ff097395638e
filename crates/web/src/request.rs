//! The requests of the page.

use answers::question::Question;
use answers::request::{File, JobRequest};
use serde::Deserialize;

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// The machines that are built in, and the versions of NCCL.
    Machines,
    /// A question about a planned job.
    Ask {
        /// The job.
        job: JobRequest,
        /// The question.
        question: Question,
    },
    /// The differences between two jobs.
    Difference {
        /// A job.
        job: JobRequest,
        /// Another job.
        other: JobRequest,
    },
    /// The faults of a machine.
    Doctor {
        /// The machine, with the version and the variables that price findings.
        job: JobRequest,
    },
    /// Measurements beside the prediction.
    Results {
        /// The output of nccl-tests.
        file: File,
        /// The job that was measured; its hosts are those of the file, if it says them.
        job: JobRequest,
    },
    /// The content of NCCL's log.
    Log {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
}
