//! What the page asks.

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
    /// What differs between two jobs.
    Difference {
        /// A job.
        job: JobRequest,
        /// Another job.
        other: JobRequest,
    },
    /// What is wrong with a machine.
    Doctor {
        /// The machine, with the version and the variables that price findings.
        job: JobRequest,
    },
    /// What was measured, beside what is predicted.
    Results {
        /// What nccl-tests printed.
        file: File,
        /// The job that was measured; its hosts are those of the file, if it says them.
        job: JobRequest,
    },
    /// What NCCL's log says.
    Log {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
}
