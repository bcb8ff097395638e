//! The requests of the page.

use answers::file_question::FileQuestion;
use answers::question::Question;
use answers::request::JobRequest;
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
        job: Box<JobRequest>,
        /// The question.
        question: Question,
    },
    /// A question about files.
    Files {
        /// The question.
        question: Box<FileQuestion>,
    },
}
