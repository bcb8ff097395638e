//! A job with all rules of input: hosts, GPUs, rank order, failures, assumptions.

use std::fmt;
use std::sync::Arc;

use findings::complete::Assumptions;
use planner::{EqualHosts, HostEdit, Job, gpu_devices, with_gpus};
use records::{Alternative, Said};
use topology::edit::{Edit, EditError};
use topology::xml::{Document, Element, Tag};

use crate::assume::{self, AssumeError, Incomplete};
use crate::gpus::{Gpus, GpusError};
use crate::order::{Order, OrderError, UsedGpus};
use crate::suggest;

/// Most hosts of a job.
pub const MOST_HOSTS: u32 = 1 << 20;

/// Most names that are offered for an unknown one.
const OFFERED: usize = 3;

/// A machine of a job.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name on pages and in plans.
    pub name: String,
    /// Its topology.
    pub document: Arc<Document>,
    /// NCCL's version and variables of the text that describes it: what is said elsewhere outranks
    /// them.
    pub said: Said,
    /// Itself with other values than those that are assumed of it.
    pub alternatives: Arc<[Alternative]>,
}

impl Machine {
    /// A machine of which nothing else is said.
    pub fn new(name: impl Into<String>, document: impl Into<Arc<Document>>) -> Self {
        Self {
            name: name.into(),
            document: document.into(),
            said: Said::default(),
            alternatives: Arc::default(),
        }
    }
}

/// A job as it is asked for. [`JobSpec::job`] checks it.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The machines, in host order.
    pub machines: Vec<Machine>,
    /// Hosts like the machine; 1 if there are several machines.
    pub hosts: u32,
    /// The GPUs of each host that have a rank.
    pub gpus: Gpus,
    /// Which rank runs on which GPU.
    pub order: Order,
    /// The devices that a file leaves to NCCL.
    pub assume: Assumptions,
    /// Failures: devices and links that are gone or slower.
    pub edits: Vec<Edit>,
    /// All hosts form one NVLink domain (MNNVL).
    pub nvlink_domain: bool,
    /// The network reduces (SHARP) and its plug-in is there.
    pub collnet: bool,
    /// Plan the topologies as they are: see [`Job::as_is`].
    pub as_is: bool,
    /// Every port is a device of its own: see [`Job::physical_ports`].
    pub physical_ports: bool,
}

/// A job that can be planned, and what is odd about it.
#[derive(Debug, Clone)]
pub struct MachineJob {
    /// The job.
    pub job: Job,
    /// Oddities that do not prevent a plan.
    pub notes: Vec<JobNote>,
}

/// Something odd about a job that can be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobNote {
    /// A file lacks devices.
    Incomplete(Incomplete),
    /// A file records the hosts of an NVLink domain.
    RecordedDomain {
        /// The file.
        file: String,
        /// Its hosts.
        hosts: usize,
    },
}

impl fmt::Display for JobNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete(incomplete) => incomplete.fmt(f),
            Self::RecordedDomain { file, hosts } => write!(
                f,
                "{file}: {hosts} different host_hash values: planned as the NVLink domain that they record; NCCL itself \
                 would take all of it for the local host"
            ),
        }
    }
}

/// Why a job cannot be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JobError {
    /// There is no machine.
    #[error("the job has no machine; expected at least one")]
    NoMachine,
    /// The number of hosts.
    #[error("{0} hosts; expected 1 to {MOST_HOSTS}")]
    Hosts(u32),
    /// Copies of several machines.
    #[error(
        "{hosts} hosts of several machines; a number of hosts counts copies of one machine: name each machine as often as \
         it occurs"
    )]
    CopiesOfSeveral {
        /// The number.
        hosts: u32,
    },
    /// A recorded NVLink domain beside other hosts.
    #[error(
        "{file} already holds an NVLink domain of {hosts} hosts (host_hash values); plan it alone"
    )]
    DomainBesideOthers {
        /// The file.
        file: String,
        /// Its hosts.
        hosts: usize,
    },
    /// A file has no GPU for a rank.
    #[error("{file} has no GPU to plan for")]
    NoGpu {
        /// The file.
        file: String,
    },
    /// A file leaves all GPUs to NCCL.
    #[error("{0}")]
    Incomplete(Incomplete),
    /// An assumption does not fit the file.
    #[error(transparent)]
    Assume(#[from] AssumeError),
    /// The list of GPUs.
    #[error(transparent)]
    Gpus(#[from] GpusError),
    /// The order of ranks.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// A failure does not fit the job. `near` are names that may have been meant.
    #[error("{error}{}", suggest::question(.near))]
    Edit {
        /// Why.
        error: EditError,
        /// Names like the unknown one, best first.
        near: Vec<String>,
    },
    /// The planner refuses it.
    #[error(transparent)]
    Planner(planner::Error),
}

impl JobSpec {
    /// A job of one host with all of its GPUs.
    pub fn of(machine: Machine) -> Self {
        Self {
            machines: vec![machine],
            hosts: 1,
            gpus: Gpus::All,
            order: Order::HostByHost,
            assume: Assumptions::default(),
            edits: Vec::new(),
            nvlink_domain: false,
            collnet: false,
            as_is: false,
            physical_ports: false,
        }
    }

    /// Checks the job.
    ///
    /// # Errors
    /// A part of it does not fit the machines.
    pub fn job(self) -> Result<MachineJob, JobError> {
        if self.machines.is_empty() {
            return Err(JobError::NoMachine);
        }
        if !(1..=MOST_HOSTS).contains(&self.hosts) {
            return Err(JobError::Hosts(self.hosts));
        }
        if self.machines.len() > 1 && self.hosts > 1 {
            return Err(JobError::CopiesOfSeveral { hosts: self.hosts });
        }
        let alone = self.machines.len() == 1 && self.hosts == 1;
        let mut notes = Vec::new();
        let (mut hosts, mut used) = (Vec::new(), Vec::new());
        for machine in self.machines {
            let machine = completed(machine, &self.assume, &mut notes)?;
            let mut equal = EqualHosts {
                name: machine.name,
                document: machine.document,
                edits: Vec::new(),
                count: self.hosts,
            };
            let recorded = equal.document.recorded_hosts();
            let mut gpus = UsedGpus::all(&equal, recorded);
            gpus.order = self.gpus.devices(&equal.document)?;
            use_gpus(&mut equal, &gpus.order);
            if recorded > 1 {
                let file = equal.document.file.to_string();
                let hosts = recorded;
                match alone {
                    true => notes.push(JobNote::RecordedDomain { file, hosts }),
                    false => return Err(JobError::DomainBesideOthers { file, hosts }),
                }
            }
            hosts.push(equal);
            used.push(gpus);
        }
        let mut job = Job {
            nvlink_domain: self.nvlink_domain,
            collnet: self.collnet,
            as_is: self.as_is,
            physical_ports: self.physical_ports,
            ..Job::of(hosts)
        };
        self.edits
            .iter()
            .try_for_each(|edit| job.edit(edit).map_err(with_near_names))?;
        if let Some(rccl) = job.hosts.iter().find(|it| it.document.is_rccl()) {
            let file = rccl.document.file.to_string();
            return Err(JobError::Planner(planner::Error::Rccl { file }));
        }
        job.ranks = self.order.placement(&used)?;
        Ok(MachineJob { job, notes })
    }
}

/// A machine with what is assumed of it.
fn completed(
    mut machine: Machine,
    assume: &Assumptions,
    notes: &mut Vec<JobNote>,
) -> Result<Machine, JobError> {
    if machine.document.is_rccl() {
        return Ok(machine);
    }
    let (document, incomplete) = assume::completed(&machine.document, assume)?;
    machine.document = document;
    let has_gpu = has_rank(&machine.document.root);
    match incomplete {
        Some(incomplete) if !has_gpu && !incomplete.missing.gpus.is_empty() => {
            Err(JobError::Incomplete(incomplete))
        }
        Some(incomplete) => {
            notes.push(JobNote::Incomplete(incomplete));
            Ok(machine)
        }
        None if !has_gpu => Err(JobError::NoGpu {
            file: machine.document.file.to_string(),
        }),
        None => Ok(machine),
    }
}

/// Whether a file has a GPU that a rank uses.
fn has_rank(element: &Element) -> bool {
    match element.tag {
        Tag::Gpu => element.get("rank").is_some(),
        _ => element.children.iter().any(has_rank),
    }
}

/// Leaves only these GPUs.
fn use_gpus(hosts: &mut EqualHosts, devices: &[i32]) {
    let there = gpu_devices(&hosts.document);
    if devices.len() < there.len() {
        hosts.document = Arc::new(with_gpus(&hosts.document, devices));
    }
    if devices != there {
        hosts.edits.push(HostEdit::Gpus(devices.to_vec()));
    }
}

fn with_near_names(error: planner::Error) -> JobError {
    let planner::Error::Edit(error) = error else {
        return JobError::Planner(error);
    };
    let near = match &error {
        EditError::UnknownDevice { name, known, .. } => {
            let near = suggest::nearest(name, known.iter().map(String::as_str), OFFERED);
            near.into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    JobError::Edit { error, near }
}
