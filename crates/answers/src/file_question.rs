//! Questions about files, as JSON: those that need no plan, or two.

use std::sync::Arc;

use diagnose::{Floor, Pile, Predict, archive};
use records::nccl_log::Collector;
use records::results::inspector::Timed;
use serde::Deserialize;
use topology::differences::Inventory;

use crate::JsonSchema;
use crate::diagnose::Prices;
use crate::diff::diff;
use crate::doctor::{CheckedMachine, doctor};
use crate::gpus::Gpus;
use crate::job::Machine;
use crate::job_options::EditOptions;
use crate::log::{LogQuestion, LogReport, compare};
use crate::matrix::{MatrixReport, Wiring};
use crate::recognize::recognize;
use crate::report::Answered;
use crate::request::{Evidence, File, JobRequest, PlannedJob};
use crate::results::read::{no_measurement, read};
use crate::results::{Against, Notes, ReadTable, ResultsQuestion, results};
use crate::sizes::usual;
use crate::step::request::StepRequest;

/// A question about files.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileQuestion {
    /// What files are, and which question answers them.
    Recognize {
        /// The files.
        files: Vec<Evidence>,
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
        /// What `dcgmi diag` or `dcgmi health -c` printed on it.
        #[serde(default)]
        dcgm: Vec<Evidence>,
    },
    /// The connections of GPUs and NICs.
    Matrix {
        /// The machine.
        file: File,
    },
    /// Measurements beside the prediction.
    Results {
        /// The output of nccl-tests.
        file: File,
        /// The job that was measured; its hosts are those of the file, if it says them. None:
        /// nothing is predicted.
        #[serde(default)]
        job: Option<JobRequest>,
        /// Fit the cost model to the measurements.
        #[serde(default)]
        fit: bool,
    },
    /// The content of NCCL's log.
    Log {
        /// The log.
        file: File,
        /// Compare with the plan for this machine; GPUs, and settings that are not here, are the
        /// log's.
        #[serde(default)]
        job: Option<JobRequest>,
        /// Hosts of that job; none: as many as the log names.
        #[serde(default)]
        hosts: Option<u32>,
    },
    /// The reasons why a job hangs or fails.
    Diagnose {
        /// What is left of it.
        files: Vec<Evidence>,
        /// Its machine; none: the first one among the files.
        #[serde(default)]
        topology: Option<File>,
        /// Its hosts; none: those that the files name.
        #[serde(default)]
        hosts: Option<u32>,
        /// Also all events.
        #[serde(default)]
        events: bool,
    },
    /// The communication of a whole step.
    Step(StepRequest),
}

impl FileQuestion {
    /// Answers the question.
    ///
    /// # Errors
    /// A file cannot be read, or a job cannot be planned; a sentence.
    pub fn answer(&self) -> Result<Answered, String> {
        match self {
            Self::Recognize { files } => {
                let found = serde_json::to_string(&recognize(files)?);
                found.map(Answered::plain).map_err(|why| why.to_string())
            }
            Self::Difference { job, other } => {
                difference([job, other], [&job.plan()?, &other.plan()?])
            }
            Self::Doctor { job, dcgm } => machine(job, dcgm),
            Self::Matrix { file } => matrix(file),
            Self::Results { file, job, fit } => measured(file, job.as_ref(), *fit),
            Self::Log { file, job, hosts } => log(file, job.as_ref(), *hosts),
            Self::Diagnose {
                files,
                topology,
                hosts,
                events,
            } => why(files, topology.as_ref(), *hosts, *events),
            Self::Step(request) => Answered::of(&request.answer()?.answer),
        }
    }
}

/// The differences between two jobs that were planned.
///
/// # Errors
/// A file cannot be read, or the plans cannot be compared.
pub fn difference(requests: [&JobRequest; 2], jobs: [&PlannedJob; 2]) -> Result<Answered, String> {
    let names = jobs.map(|it| it.planned.name());
    let sides = [0, 1].map(|side| (names[side].as_str(), jobs[side].planned.plan()));
    let mut devices = Vec::new();
    // Edits are known anyway.
    if requests.iter().all(|it| it.edits == EditOptions::default()) {
        let [one, two] = requests.map(|it| it.file.machine().map(|it| it.document));
        devices = Inventory::of(&one?).differences(&Inventory::of(&two?));
    }
    let answer = diff(sides, devices, &usual()).map_err(|why| why.to_string())?;
    Answered::of(&answer)
}

/// Checks a topology file and plans it as the job's version does, without its faults.
fn machine(request: &JobRequest, dcgm: &[Evidence]) -> Result<Answered, String> {
    let machine = request.file.machine()?;
    let checked = CheckedMachine {
        file: request.file.name.clone(),
        findings: machine.findings(),
        content: Ok(Arc::new(machine.document)),
        is_probed: false,
        are_bridges_read: None,
    };
    let mut answer =
        doctor(&[checked], &request.variables.settings()).map_err(|why| why.to_string())?;
    for file in dcgm {
        answer.add_dcgm(&file.name, &file.bytes()?)?;
    }
    Answered::of(&answer)
}

fn matrix(file: &File) -> Result<Answered, String> {
    let wiring = Wiring::new(&file.machine()?.document);
    match wiring.devices.is_empty() {
        true => Err(format!(
            "{} has no GPU with a rank and no network port with a number: there is nothing to draw",
            file.name
        )),
        false => Answered::of(&MatrixReport::of(&wiring)),
    }
}

fn log(file: &File, job: Option<&JobRequest>, hosts: Option<u32>) -> Result<Answered, String> {
    let mut collector = Collector::default();
    let text = file.text.as_deref().unwrap_or_default();
    let read = collector.read(&file.name, text.as_bytes(), |_| {});
    read.map_err(|why| format!("{}: {why}", file.name))?;
    let log = collector.finish();
    let compared = job.map(|job| {
        let question = LogQuestion {
            job: job.spec()?.0,
            hosts,
            variables: job.variables.clone(),
        };
        compare(&log, question).map_err(|why| why.to_string())
    });
    Answered::of(&LogReport::of(log, compared.transpose()?))
}

/// Why a job hangs or fails. A file that cannot be read is among the inputs, with the reason.
fn why(
    files: &[Evidence],
    topology: Option<&File>,
    hosts: Option<u32>,
    events: bool,
) -> Result<Answered, String> {
    let mut pile = Pile::default();
    if events {
        pile.tell_events();
    }
    let mut left = archive::MOST_FILES;
    for file in files {
        let bytes = file.bytes()?;
        if let Err(why) = archive::file(&bytes, &file.name, &mut pile, &mut left) {
            pile.skip(&file.name, &why);
        }
    }
    let machine = match topology {
        Some(file) => Some((file.name.clone(), file.machine()?.document)),
        None => {
            let found = pile.machine().filter(|it| !it.is_rccl());
            found.map(|it| (it.file.to_string(), it.clone()))
        }
    };
    let prices = machine.map(|(name, document)| Prices::of(Machine::new(name, document), hosts));
    let predict: &dyn Predict = match &prices {
        Some(prices) => prices,
        None => &Floor,
    };
    Answered::of(&pile.finish(predict))
}

/// Measurements of nccl-tests, rccl-tests or `topo run`, beside the prediction for a job.
fn measured(file: &File, job: Option<&JobRequest>, fit: bool) -> Result<Answered, String> {
    let text = file.text.as_deref().unwrap_or_default();
    let mut timed = Timed::default();
    let mut read = read(&file.name, text, &mut timed).map_err(|why| why.to_string())?;
    read.tables.extend(ReadTable::of_job(timed));
    if read.tables.is_empty() {
        return Err(match read.unread.first() {
            Some(unread) => unread.clone(),
            None => no_measurement(&file.name),
        });
    }
    // Measurements are shown whatever the job is.
    let (question, why) = match job.map_or_else(|| Ok(ResultsQuestion::default()), against) {
        Ok(question) => {
            let fit = fit.then(|| PROFILE.to_owned());
            (ResultsQuestion { fit, ..question }, None)
        }
        Err(why) if fit => return Err(why),
        Err(why) => (ResultsQuestion::default(), Some(why)),
    };
    let mut results =
        results(read.tables, &question, &mut Notes::default()).map_err(|why| why.to_string())?;
    if let Some(why) = why {
        let tables = results.tables.iter_mut();
        tables.for_each(|it| it.notes.push(format!("not predicted: {why}")));
    }
    if let Some(first) = results.tables.first_mut() {
        first.notes.extend(read.unread);
    }
    Answered::of(&results)
}

/// The name of a fitted profile, whose text is in the answer.
const PROFILE: &str = "profile.toml";

fn against(job: &JobRequest) -> Result<ResultsQuestion, String> {
    let (spec, _) = job.spec()?;
    Ok(ResultsQuestion {
        gpus: Some(spec.gpus.clone()).filter(|it| *it != Gpus::All),
        against: Against::Machine(Box::new(spec)),
        variables: job.variables.clone(),
        tolerates: true,
        ..ResultsQuestion::default()
    })
}
