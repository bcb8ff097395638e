//! A job as JSON, as the page in the browser and Python send it.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plan::DecidingAssumption;
use planner::{Job, Planned};
use serde::Deserialize;

use crate::JsonSchema;
use crate::assumptions;
use crate::built_in;
use crate::engines::Engine;
use crate::job::{JobError, JobSpec, MOST_HOSTS, Machine};
use crate::job_options::{
    AssumeOptions, EditOptions, HostOptions, PreparationOptions, RankOptions, Variables,
};

/// A file that was dropped, or a machine that is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its text; `None`: the machine that is built in by this name.
    #[serde(default)]
    pub text: Option<String>,
}

/// A file of any kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Its name.
    pub name: String,
    /// Its text.
    #[serde(default)]
    pub text: Option<String>,
    /// Its bytes in base64, if it is no text.
    #[serde(default)]
    pub base64: Option<String>,
}

impl Evidence {
    /// Its bytes.
    ///
    /// # Errors
    /// It has neither text nor bytes, or both, or its bytes are no base64; a sentence.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, String> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(Cow::Borrowed(text.as_bytes())),
            (None, Some(packed)) => match STANDARD.decode(packed) {
                Ok(bytes) => Ok(Cow::Owned(bytes)),
                Err(why) => Err(format!("{}: no base64: {why}", self.name)),
            },
            _ => Err(format!("{}: expected either `text` or `base64`", self.name)),
        }
    }
}

/// A job.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The machine.
    pub file: File,
    /// Other machines, one host each, after the hosts like `file`.
    #[serde(default)]
    pub others: Vec<File>,
    /// Its hosts.
    #[serde(flatten)]
    pub hosts: HostOptions,
    /// The network reduces (SHARP), and its plug-in is there.
    #[serde(default)]
    pub collnet: bool,
    /// What the files lack.
    #[serde(flatten)]
    pub assume: AssumeOptions,
    /// Its ranks.
    #[serde(flatten)]
    pub ranks: RankOptions,
    /// What changes before planning.
    #[serde(flatten)]
    pub preparation: PreparationOptions,
    /// What is taken away or slower.
    #[serde(flatten)]
    pub edits: EditOptions,
    /// NCCL's version and variables.
    #[serde(flatten)]
    pub variables: Variables,
}

/// A planned job, which answers questions.
#[derive(Debug)]
pub struct PlannedJob {
    /// The job.
    pub job: Job,
    /// The plan with its machines.
    pub planned: Planned,
    /// The inference engine that runs it.
    pub engine: Option<Engine>,
    /// The text of a machine says which peer access the driver grants.
    pub told: bool,
    /// The assumptions that decide.
    pub assumptions: Vec<DecidingAssumption>,
    /// Oddities of the file and the job.
    pub notes: Vec<String>,
}

impl File {
    /// Reads the machine: a topology file, or what nvidia-smi and lspci printed.
    ///
    /// # Errors
    /// There is no such machine, or the file describes none.
    pub fn machine(&self) -> Result<records::Machine, String> {
        let text = match &self.text {
            Some(text) => text.as_str(),
            None => {
                let none = || format!("there is no machine {}", self.name);
                built_in::find(&self.name).ok_or_else(none)?.text
            }
        };
        records::machine(&self.name, text.as_bytes()).map_err(|why| why.to_string())
    }

    /// The machine by its name; `notes` get what is odd about the file.
    fn described(&self, notes: &mut Vec<String>) -> Result<Machine, String> {
        let records::Machine {
            document,
            assumed,
            alternatives,
            said,
            ..
        } = self.machine()?;
        notes.extend(document.warnings.iter().map(ToString::to_string));
        notes.extend(assumed);
        Ok(Machine {
            name: self.name.clone(),
            document: Arc::new(document),
            said,
            alternatives: alternatives.into(),
        })
    }
}

impl JobRequest {
    /// A host that is built in, by its name, with all of its GPUs.
    pub fn of(machine: &str) -> Self {
        Self {
            file: File {
                name: machine.to_owned(),
                text: None,
            },
            ..Self::default()
        }
    }

    /// The job, and what is odd about the file.
    ///
    /// # Errors
    /// The machine cannot be read, or a list of GPUs or ranks is none.
    pub fn spec(&self) -> Result<(JobSpec, Vec<String>), String> {
        let mut notes = Vec::new();
        let mut machines = vec![self.file.described(&mut notes)?];
        let mut hosts = self.hosts.clone();
        if !self.others.is_empty() {
            let others = u32::try_from(self.others.len()).unwrap_or(u32::MAX);
            let all = hosts.hosts.saturating_add(others);
            let wrong = [hosts.hosts, all]
                .into_iter()
                .find(|it| !(1..=MOST_HOSTS).contains(it));
            if let Some(hosts) = wrong {
                return Err(JobError::Hosts(hosts).to_string());
            }
            machines = vec![machines[0].clone(); hosts.hosts as usize];
            for other in &self.others {
                machines.push(other.described(&mut notes)?);
            }
            hosts.hosts = 1;
        }
        let spec = JobSpec {
            assume: self.assume.all(),
            edits: self.edits.all(),
            collnet: self.collnet,
            as_is: self.preparation.as_is,
            physical_ports: self.preparation.physical_ports(),
            ..self.ranks.spec(&hosts, machines, None)?
        };
        Ok((spec, notes))
    }

    /// Plans the job.
    ///
    /// # Errors
    /// The machine cannot be read or planned, or something about the job is wrong.
    pub fn plan(&self) -> Result<PlannedJob, String> {
        let (spec, mut notes) = self.spec()?;
        let told = spec.machines.iter().any(|it| it.said.peers);
        let layers = self.variables.over(&spec.machines);
        let asked = spec.clone();
        let made = spec.job().map_err(|why| why.to_string())?;
        notes.extend(layers.notes.iter().cloned());
        notes.extend(made.notes.iter().map(ToString::to_string));
        let settings = layers.settings([]);
        let planned = planner::plan(&made.job, &settings).map_err(|why| why.to_string())?;
        let assumptions = assumptions::deciding(&asked, &settings, &planned);
        notes.extend(planned.notes.iter().map(ToString::to_string));
        Ok(PlannedJob {
            job: made.job,
            planned,
            engine: self.variables.engine.clone(),
            told,
            assumptions,
            notes,
        })
    }
}
