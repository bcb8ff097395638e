//! Measurements beside the prediction and the bound.

mod checks;
mod compare;
pub mod fit;
mod fitting;
mod jobs;
pub mod likely;
mod page;
pub mod read;
mod timing;

use findings::Check;
use fit::{Fit, FitError};
use pages::{Block, Page};
use plan::Plan;
use planner::cost::{CostProfile, RestrictError};
use program::Collective;
use serde::Serialize;

use crate::JsonSchema;
use crate::assume::AssumeError;
use crate::gpus::Gpus;
use crate::job::{JobError, JobNote, JobSpec};
use crate::job_options::Variables;
use crate::report::Report;
pub use compare::ComparedTable;
use jobs::Jobs;
pub use read::ReadTable;

/// The job with which tables are compared.
#[derive(Debug, Clone, Default)]
pub struct ResultsQuestion {
    /// The machine or plan.
    pub against: Against,
    /// Hosts of the job; none: as many as a table names, or those of the machine's job.
    pub hosts: Option<u32>,
    /// The GPUs of each host; none: those that a table names, or the first ones.
    pub gpus: Option<Gpus>,
    /// The version as which to plan (none: the file's, or the nearest that is known), and variables
    /// of NCCL besides those of the file.
    pub variables: Variables,
    /// The collective of tables whose program the file does not name.
    pub collective: Option<Collective>,
    /// The constants that predict; none: those of NCCL's version.
    pub profile: Option<CostProfile>,
    /// Fit the constants, for a profile of this name.
    pub fit: Option<String>,
    /// Judge tables by what healthy machines reach, instead of by predicted times.
    pub accepts: bool,
    /// A table whose job cannot be planned gets a note, and nothing is predicted for it.
    pub tolerates: bool,
}

/// A machine or a plan.
#[derive(Debug, Clone, Default)]
pub enum Against {
    /// Neither: only what the files say.
    #[default]
    Nothing,
    /// A plan with its name.
    Plan(String, Plan),
    /// A job of a machine. Its GPUs are not used.
    Machine(Box<JobSpec>),
}

/// Measurements beside the prediction and the bound.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultsReport {
    /// The tables.
    pub tables: Vec<ComparedTable>,
    /// What was checked, and what came of it.
    pub checks: Vec<Check>,
    /// The fit, where one was asked for.
    pub fit: Option<NamedFit>,
}

/// Constants fitted to the measurements.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedFit {
    /// The name of the cost profile.
    pub file: String,
    /// The fit.
    #[serde(flatten)]
    pub fit: Fit,
}

impl Report for ResultsReport {
    const FORMAT: &'static str = "topo-results";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        let mut all = Page::default();
        for page in self.pages() {
            let head = all.section(&page.title, &page.remark);
            head.blocks.push(Block::Fields(page.fields));
            all.sections.extend(page.sections);
        }
        Some(all)
    }
}

/// Why tables cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A table is of another job.
    #[error(
        "{file}: line {line}: the table is of {measured} ranks, and the job of {machine} has {ranks}; expected the job \
         that was measured"
    )]
    OtherRanks {
        /// The file.
        file: String,
        /// The line of the table.
        line: u64,
        /// Ranks of the table.
        measured: u32,
        /// The machine or plan.
        machine: String,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A plan has no costs.
    #[error("{0} is a plan without a cost table; expected a whole plan")]
    NoCosts(String),
    /// An assumption does not fit the machine.
    #[error(transparent)]
    Assume(#[from] AssumeError),
    /// The job is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The job cannot be planned.
    #[error(transparent)]
    Planner(#[from] planner::Error),
    /// A setting of the job is wrong.
    #[error(transparent)]
    Restrict(#[from] RestrictError),
    /// Nothing can be fitted.
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// Oddities of the machine and the jobs, also of those that fail.
#[derive(Debug, Default)]
pub struct Notes {
    /// Notes of the rules of input.
    pub of_jobs: Vec<JobNote>,
    /// Notes of the planner.
    pub of_plans: Vec<String>,
}

/// Compares tables. `notes` are set also if that fails.
///
/// # Errors
/// A table does not fit its job, the job cannot be planned, or nothing can be fitted.
pub fn results(
    read: Vec<ReadTable>,
    question: &ResultsQuestion,
    notes: &mut Notes,
) -> Result<ResultsReport, ResultsError> {
    let mut jobs = Jobs::default();
    let compared = compare_all(read, question, &mut jobs);
    *notes = std::mem::take(&mut jobs.notes);
    compared
}

fn compare_all(
    read: Vec<ReadTable>,
    question: &ResultsQuestion,
    jobs: &mut Jobs,
) -> Result<ResultsReport, ResultsError> {
    let mut tables = Vec::with_capacity(read.len());
    for mut read in read {
        let is_unsure = read.table.collective.is_none() || read.table.is_guessed;
        if let (Some(collective), true) = (question.collective, is_unsure) {
            read.table.collective = Some(collective);
            read.table.is_guessed = false;
            read.table.leave_out_contradictions();
        }
        let mut notes = Vec::new();
        let at = match jobs.of(&read, question, &mut notes) {
            // A job has communicators of parts of it.
            Err(why) if question.tolerates || read.table.timing.is_some() => {
                notes.push(format!("not predicted: {why}"));
                None
            }
            found => found?,
        };
        let job = at.map(|at| (at, &jobs.all[at]));
        let mut table = compare::compare(
            read.table,
            &read.logged.choices,
            job,
            question.accepts,
            notes,
        );
        // What slows a job may be the job.
        if question.accepts && table.timing.is_none() {
            table.misses = jobs.misses(&table);
        }
        tables.push(table);
    }
    let fit = match &question.fit {
        Some(file) => Some(NamedFit {
            fit: fitting::fit(&tables, jobs, question.profile.as_ref())?,
            file: file.clone(),
        }),
        None => None,
    };
    Ok(ResultsReport {
        checks: checks::checks(&tables, question.accepts),
        tables,
        fit,
    })
}
