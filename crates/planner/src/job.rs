//! The job to plan: its hosts and how they are joined.

use std::fmt;
use std::sync::Arc;

use plan::RankOrder;
use topology::edit::{Edit, EditError};
use topology::xml::Document;

use crate::cost::CostProfile;
use crate::error::Error;
use plan::ranges;

/// Hosts in a row that have the same topology.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualHosts {
    /// The machine's name, for pages and plans.
    pub name: String,
    /// The topology of one host, or of one NVLink domain of several.
    pub document: Arc<Document>,
    /// How the document was changed, for the machine's summary.
    pub edits: Vec<HostEdit>,
    /// Number of hosts (or domains).
    pub count: u32,
}

/// A change to a host's topology.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEdit {
    /// Ranks run on these GPUs only, in this order.
    Gpus(Vec<i32>),
    /// A failure.
    Failure(Edit),
}

impl fmt::Display for HostEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpus(devices) => write!(f, "GPUs {}", ranges(devices, ",")),
            Self::Failure(edit) if edit.removes() => write!(f, "without {edit}"),
            Self::Failure(edit) => write!(f, "with {edit}"),
        }
    }
}

/// Which rank runs on which GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RankPlacement {
    /// Host after host, by device number.
    #[default]
    HostByHost,
    /// The first GPU of each host, then the second of each, and so on.
    RoundRobin,
    /// As listed.
    Listed(RankOrder),
}

/// A job to plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The hosts in order.
    pub hosts: Vec<EqualHosts>,
    /// All hosts form one NVLink domain (MNNVL), if the settings allow it.
    pub nvlink_domain: bool,
    /// The network reduces (SHARP) and its plug-in is there.
    pub collnet: bool,
    /// Which rank runs on which GPU.
    pub ranks: RankPlacement,
    /// Plan the topologies as they are. Otherwise each rank keeps its GPU and the ports, and the
    /// ranks of a host join their parts, as a job of NCCL does.
    pub as_is: bool,
    /// Every port is a device of its own. Otherwise NCCL's InfiniBand transport merges ports.
    pub physical_ports: bool,
    /// The constants of the cost model; `None` for those of the version of NCCL that plans.
    pub profile: Option<CostProfile>,
}

impl Job {
    /// A job of `count` hosts that all have this topology, named by its file.
    pub fn hosts(document: impl Into<Arc<Document>>, count: u32) -> Self {
        let document = document.into();
        Self::of(vec![EqualHosts {
            name: document.file.to_string(),
            document,
            edits: Vec::new(),
            count,
        }])
    }

    /// A job of these hosts, joined by the network.
    pub fn of(hosts: Vec<EqualHosts>) -> Self {
        Self {
            hosts,
            nvlink_domain: false,
            collnet: false,
            ranks: RankPlacement::default(),
            as_is: false,
            physical_ports: false,
            profile: None,
        }
    }

    /// Number of hosts, where each topology file describes one.
    pub fn host_count(&self) -> u32 {
        let counts = self.hosts.iter().map(|hosts| hosts.count);
        counts.fold(0, u32::saturating_add)
    }

    /// Applies an edit to the host that it names, or else to every host that has the device. The
    /// hosts of a file that describes an NVLink domain are edited as one.
    ///
    /// # Errors
    /// There is no such host or device, or a file cannot express the edit.
    pub fn edit(&mut self, edit: &Edit) -> Result<(), Error> {
        match edit.host() {
            Some(host) if !self.is_recorded_domain() => self.edit_host(host, edit),
            _ => self.edit_all(edit),
        }
    }

    /// Whether the job is one file that describes several hosts.
    fn is_recorded_domain(&self) -> bool {
        matches!(&self.hosts[..], [hosts] if hosts.count == 1 && hosts.document.recorded_hosts() > 1)
    }

    fn edit_host(&mut self, host: u32, edit: &Edit) -> Result<(), Error> {
        let last = self.host_count().saturating_sub(1);
        let at = self.split_off(host).ok_or_else(|| Error::NoSuchHost {
            edit: edit.to_string(),
            host,
            last,
        })?;
        let alone = edit.clone().on_host(None);
        Ok(self.hosts[at].edit(&alone, edit)?)
    }

    fn edit_all(&mut self, edit: &Edit) -> Result<(), Error> {
        let (mut done, mut refusal) = (false, None);
        for hosts in &mut self.hosts {
            match hosts.edit(edit, edit) {
                Ok(()) => done = true,
                // Other hosts may have it.
                Err(error @ EditError::UnknownDevice { .. }) => refusal = refusal.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        match refusal {
            Some(error) if !done => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Makes one host an entry of its own and returns its index; `None` if there is no such host.
    fn split_off(&mut self, wanted: u32) -> Option<usize> {
        let mut before = wanted;
        let at = self.hosts.iter().position(|hosts| {
            let inside = before < hosts.count;
            if !inside {
                before -= hosts.count;
            }
            inside
        })?;
        let whole = self.hosts.remove(at);
        let parts = [before, 1, whole.count - before - 1];
        let parts = parts.into_iter().filter(|count| *count > 0);
        let parts: Vec<_> = parts.map(|count| whole.with_count(count)).collect();
        self.hosts.splice(at..at, parts);
        Some(at + usize::from(before > 0))
    }
}

impl EqualHosts {
    pub(crate) fn with_count(&self, count: u32) -> Self {
        Self {
            count,
            ..self.clone()
        }
    }

    /// Applies an edit; `given` is what was asked for, with its host.
    fn edit(&mut self, edit: &Edit, given: &Edit) -> Result<(), EditError> {
        self.document = Arc::new(edit.apply(&self.document)?);
        self.edits.push(HostEdit::Failure(given.clone()));
        Ok(())
    }
}
