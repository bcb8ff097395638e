//! The job that NCCL is asked about: its hosts as NCCL gets them, and its plan.

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::{Result, bail};
use plan::RankOrder;
use planner::{EqualHosts, Job, RankPlacement, Settings};
use records::nccl_log::compare::Answer;
use topology::System;
use topology::join::Part;
use topology::xml::{Document, Element, NCCL_FILE_ELEMENTS, Tag};

use super::PlanOrWhyNot;
use crate::job::JobHost;
use crate::machine;
use crate::message::Network;

/// Most GPUs of a job that is asked about; its processes share this machine.
const MOST_RANKS: u64 = 512;

/// A job that NCCL is asked about.
pub(super) struct AskedJob {
    /// The job, with what NCCL would otherwise take from the processor it runs on.
    job: Job,
    /// Attributes of CPUs that files lack.
    pub(super) added: Vec<&'static str>,
    /// Ranks of the job.
    ranks: u32,
    network: Network,
}

impl AskedJob {
    /// # Errors
    /// It has too many GPUs, or a file describes several hosts.
    pub(super) fn new(job: &Job, network: Network) -> Result<Self> {
        let (mut hosts, mut added) = (Vec::new(), Vec::new());
        let mut ranks = 0;
        for equal in &job.hosts {
            let system = System::from_document(&equal.document)?;
            if system.hosts().len() > 1 {
                bail!(
                    "{} describes several hosts; expected the file of one, with --hosts and --nvlink-domain",
                    equal.document.file
                );
            }
            ranks += gpus(equal) as u64 * u64::from(equal.count);
            let (document, new) = machine::complete(&equal.document);
            added.extend(new);
            hosts.push(EqualHosts {
                document: Arc::new(document),
                ..equal.clone()
            });
        }
        if !(1..=MOST_RANKS).contains(&ranks) {
            bail!(
                "the job has {ranks} GPUs; expected 1 to {MOST_RANKS}, whose processes share this machine"
            );
        }
        if let (Network::Socket, [first, .., _]) = (network, hosts.as_slice()) {
            // NCCL says of the first host alone which interfaces it found.
            if machine::has_ports(&first.document) {
                bail!("--net socket: expected equal hosts, or files without network ports");
            }
        }
        added.dedup();
        let job = Job {
            hosts,
            nvlink_domain: job.nvlink_domain,
            ranks: job.ranks.clone(),
            physical_ports: network != Network::Merging,
            ..Job::of(Vec::new())
        };
        Ok(Self {
            job,
            added,
            ranks: ranks as u32,
            network,
        })
    }

    pub(super) fn name(&self) -> String {
        let mut names: Vec<&str> = self.job.hosts.iter().map(|it| it.name.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    pub(super) fn host_count(&self) -> u32 {
        self.job.host_count()
    }

    pub(super) fn nvlink_domain(&self) -> bool {
        self.job.nvlink_domain
    }

    /// The hosts in order.
    ///
    /// # Errors
    /// The order of ranks does not fit the job.
    pub(super) fn hosts(&self) -> Result<Vec<JobHost>> {
        let runs = self.job.hosts.iter();
        let runs: Vec<(u32, u32)> = runs.map(|it| (gpus(it) as u32, it.count)).collect();
        let slots = match &self.job.ranks {
            RankPlacement::HostByHost => (0..self.ranks).collect(),
            RankPlacement::RoundRobin => RankOrder::round_robin(&runs).slots(self.ranks)?,
            RankPlacement::Listed(order) => order.slots(self.ranks)?,
        };
        let mut rank_of = vec![0; slots.len()];
        for (rank, slot) in (0..).zip(slots) {
            rank_of[slot as usize] = rank;
        }
        let mut rest = rank_of.as_slice();
        let mut hosts = Vec::new();
        for equal in &self.job.hosts {
            let topology = topology::xml::write(&readable(&equal.document));
            for _ in 0..equal.count {
                let (own, others) = rest.split_at(gpus(equal));
                rest = others;
                hosts.push(JobHost {
                    topology: topology.clone(),
                    ranks: own.to_vec(),
                    variables: Vec::new(),
                });
            }
        }
        Ok(hosts)
    }

    /// Plans the job on the files, or on NCCL's dump where NCCL took its sockets although the file
    /// has ports. Returns why there is no plan, and whether it is on the dump.
    ///
    /// # Errors
    /// The dump is no topology, or the settings leave the job no port of the file.
    pub(super) fn plan(
        &self,
        answer: &Answer,
        settings: &Settings,
    ) -> Result<(PlanOrWhyNot, bool)> {
        let mut job = self.job.clone();
        let unused = self.network == Network::Socket;
        if let ([equal], Some(text)) = (&mut job.hosts[..], answer.topology.as_deref())
            && unused
            && machine::has_ports(&equal.document)
        {
            let dump = topology::xml::parse("NCCL's dump", text.as_bytes())?;
            // A dump of an NVLink domain holds all its hosts.
            if dump.recorded_hosts() > 1 {
                equal.count = 1;
            }
            equal.document = Arc::new(dump);
            job.as_is = true;
        }
        let planned = planner::plan(&job, settings);
        if let Err(error @ planner::Error::NoNics { .. }) = planned {
            bail!(error);
        }
        let planned = planned.map(|planned| (planned.plan().clone(), planned.logged_costs()));
        Ok((planned.map_err(|error| error.to_string()), job.as_is))
    }

    /// Whether a host of several GPUs has ports that NCCL merges.
    pub(super) fn leaves_to_chance(&self, settings: &Settings) -> bool {
        let sm_min = planner::sm_min(&self.job.hosts);
        let mut hosts = self.job.hosts.iter();
        hosts.any(|it| gpus(it) > 1 && merges(&it.document, settings, sm_min))
    }
}

/// The file as NCCL reads it: without what no rank uses, if it is too large with that.
fn readable(document: &Document) -> Cow<'_, Document> {
    if document.root.count() <= NCCL_FILE_ELEMENTS {
        return Cow::Borrowed(document);
    }
    let keeps = |element: &Element, _: &Element| match element.tag {
        Tag::Gpu => element.get("rank").is_some(),
        Tag::Net => element.get("dev").is_some(),
        _ => false,
    };
    let used = Part::trimmed(&document.root, &keeps).to_element();
    Cow::Owned(Document::from_root(&*document.file, used))
}

/// GPUs of one host, or their parts (MLOPart).
fn gpus(hosts: &EqualHosts) -> usize {
    topology::join::gpus_by_host(&hosts.document).iter().sum()
}

/// Whether NCCL merges ports of a machine.
fn merges(document: &Document, settings: &Settings, sm_min: i32) -> bool {
    let merged = topology::merge::merge(document, &settings.merge_options(document, sm_min));
    merged.is_ok_and(|merged| merged.is_some_and(|merged| !merged.devices.is_empty()))
}
