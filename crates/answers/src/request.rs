//! A job as JSON, as the page in the browser and Python send it.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use findings::complete::Assumptions;
use planner::{Job, NcclVersion, Planned, Settings};
use serde::Deserialize;
use topology::edit::Edit;

use crate::assume;
use crate::built_in;
use crate::gpus::Gpus;
use crate::job::{JobError, JobSpec, MOST_HOSTS, Machine};
use crate::order::Order;

/// A file that was dropped, or a machine that is built in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its text; `None`: the machine that is built in by this name.
    #[serde(default)]
    pub text: Option<String>,
}

/// A file of any kind.
#[derive(Debug, Clone, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The machine.
    pub file: File,
    /// Hosts like it.
    #[serde(default = "one")]
    pub hosts: u32,
    /// Other machines, one host each, after the hosts like `file`.
    #[serde(default)]
    pub others: Vec<File>,
    /// All hosts form one NVLink domain.
    #[serde(default)]
    pub nvlink_domain: bool,
    /// Device numbers of the GPUs of each host, in rank order; none: all.
    #[serde(default)]
    pub gpus: Vec<i64>,
    /// The version of NCCL; none: the newest.
    #[serde(default)]
    pub nccl: Option<String>,
    /// Variables of NCCL.
    #[serde(default)]
    pub set: Vec<(String, String)>,
    /// Devices and links that are taken away.
    #[serde(default)]
    pub without: Vec<String>,
    /// Links that are slower, as `LINK=SHARE`.
    #[serde(default)]
    pub degrade: Vec<String>,
    /// Which GPU each rank runs on.
    #[serde(default)]
    pub rank_order: RankOrder,
    /// The network reduces (SHARP), and its plug-in is there.
    #[serde(default)]
    pub collnet: bool,
    /// The files are planned as they are.
    #[serde(default)]
    pub as_is: bool,
    /// Which network ports NCCL merges into virtual devices.
    #[serde(default)]
    pub net_merge: NetMerge,
    /// What is assumed where a file has no GPUs and NICs: the name of a known machine.
    #[serde(default)]
    pub assume: Option<String>,
    /// GPUs where a file has none: `sm=90,nvswitch-links=18,gdr=1`.
    #[serde(default)]
    pub assume_gpu: Option<String>,
    /// NICs where a file has none: `speed=400000,gdr=1`, Mb/s.
    #[serde(default)]
    pub assume_nic: Option<String>,
    /// NVLinks where GPUs have none: `GPU0:GPU1=4`.
    #[serde(default)]
    pub assume_nvlinks: Vec<String>,
}

/// An order of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `host`, `round-robin` or a list of the GPU of each rank"
)]
pub enum RankOrder {
    /// One that has a name.
    Named(NamedOrder),
    /// The GPU of each rank: device numbers, which are counted on from host to host.
    Listed(Vec<u32>),
}

/// An order of ranks that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedOrder {
    /// Host after host.
    Host,
    /// One rank of each host in turn.
    RoundRobin,
}

impl Default for RankOrder {
    fn default() -> Self {
        Self::Named(NamedOrder::Host)
    }
}

/// Which network ports NCCL merges into virtual devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetMerge {
    /// The ports of one card.
    #[default]
    Ib,
    /// None.
    Off,
}

const fn one() -> u32 {
    1
}

/// A planned job, which answers questions.
#[derive(Debug)]
pub struct PlannedJob {
    /// The job.
    pub job: Job,
    /// The plan with its machines.
    pub planned: Planned,
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
            document, assumed, ..
        } = self.machine()?;
        notes.extend(document.warnings.iter().map(ToString::to_string));
        notes.extend(assumed);
        Ok(Machine {
            name: self.name.clone(),
            document: Arc::new(document),
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
            hosts: 1,
            others: Vec::new(),
            nvlink_domain: false,
            gpus: Vec::new(),
            nccl: None,
            set: Vec::new(),
            without: Vec::new(),
            degrade: Vec::new(),
            rank_order: RankOrder::default(),
            collnet: false,
            as_is: false,
            net_merge: NetMerge::Ib,
            assume: None,
            assume_gpu: None,
            assume_nic: None,
            assume_nvlinks: Vec::new(),
        }
    }

    /// Whether devices or links are taken away or slower.
    pub const fn is_edited(&self) -> bool {
        !(self.without.is_empty() && self.degrade.is_empty())
    }

    /// The version of NCCL, if one is named.
    ///
    /// # Errors
    /// It is not known.
    pub fn version(&self) -> Result<Option<NcclVersion>, String> {
        match self.nccl.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => match text.parse() {
                Ok(version) => Ok(Some(version)),
                Err(why) => Err(format!("NCCL {text}: {why}")),
            },
        }
    }

    /// NCCL's settings.
    ///
    /// # Errors
    /// The version is not known.
    pub fn settings(&self) -> Result<Settings, String> {
        let version = self.version()?.unwrap_or_default();
        let set = self.set.iter().cloned();
        Ok(Settings::with_variables(version, set))
    }

    /// The job, and what is odd about the file.
    ///
    /// # Errors
    /// The machine cannot be read, or an edit is none.
    pub fn spec(&self) -> Result<(JobSpec, Vec<String>), String> {
        let mut notes = Vec::new();
        let first = self.file.described(&mut notes)?;
        let mut spec = JobSpec {
            hosts: self.hosts,
            ..JobSpec::of(first)
        };
        if !self.others.is_empty() {
            let others = u32::try_from(self.others.len()).unwrap_or(u32::MAX);
            let all = self.hosts.saturating_add(others);
            let wrong = [self.hosts, all]
                .into_iter()
                .find(|it| !(1..=MOST_HOSTS).contains(it));
            if let Some(hosts) = wrong {
                return Err(JobError::Hosts(hosts).to_string());
            }
            spec.machines = vec![spec.machines[0].clone(); self.hosts as usize];
            for other in &self.others {
                spec.machines.push(other.described(&mut notes)?);
            }
            spec.hosts = 1;
        }
        let without = self.without.iter().map(|text| Edit::without(text));
        let degrade = self.degrade.iter().map(|text| Edit::degrade(text));
        let edits: Result<Vec<Edit>, _> = without.chain(degrade).collect();
        if !self.gpus.is_empty() {
            spec.gpus = Gpus::Listed(self.gpus.clone());
        }
        spec.edits = edits.map_err(|why| why.to_string())?;
        spec.nvlink_domain = self.nvlink_domain;
        spec.order = match &self.rank_order {
            RankOrder::Named(NamedOrder::Host) => Order::HostByHost,
            RankOrder::Named(NamedOrder::RoundRobin) => Order::RoundRobin,
            RankOrder::Listed(gpus) => Order::Listed(gpus.clone()),
        };
        spec.collnet = self.collnet;
        spec.as_is = self.as_is;
        spec.physical_ports = self.net_merge == NetMerge::Off;
        spec.assume = self.assumptions()?;
        Ok((spec, notes))
    }

    fn assumptions(&self) -> Result<Assumptions, String> {
        let links = self.assume_nvlinks.iter().map(|text| assume::link(text));
        Ok(assume::joined(
            self.assume.as_deref().map(assume::preset).transpose()?,
            self.assume_gpu.as_deref().map(assume::gpu).transpose()?,
            self.assume_nic.as_deref().map(assume::nic).transpose()?,
            &links.collect::<Result<Vec<_>, _>>()?,
        ))
    }

    /// Plans the job.
    ///
    /// # Errors
    /// The machine cannot be read or planned, or something about the job is wrong.
    pub fn plan(&self) -> Result<PlannedJob, String> {
        let settings = self.settings()?;
        let (spec, mut notes) = self.spec()?;
        let made = spec.job().map_err(|why| why.to_string())?;
        notes.extend(made.notes.iter().map(ToString::to_string));
        let planned = planner::plan(&made.job, &settings).map_err(|why| why.to_string())?;
        notes.extend(planned.notes.iter().map(ToString::to_string));
        Ok(PlannedJob {
            job: made.job,
            planned,
            notes,
        })
    }
}
