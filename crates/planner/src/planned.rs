//! Planning a job, from its topology files to the plan.

use std::sync::Arc;

use plan::{CostTable, Digest, Fingerprint, NcclVersion, Plan, Producer, RequestSummary, Setting};

use program::Protocol;

use crate::artifact;
use crate::cluster::{ClusterPlan, MachinePlan};
use crate::connect::JobPlan;
use crate::cost::{self, CostProfile};
use crate::error::Error;
use crate::explain;
use crate::host_plan::HostPlan;
use crate::job::{EqualHosts, Job};
use crate::note::Note;
use crate::prepare;
use crate::settings::Settings;

/// A job and everything that was decided for it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What the machines decided, and how they are joined.
    pub job: JobPlan,
    /// What collectives cost.
    pub costs: CostTable,
    /// What is odd about the job or a graph file, though NCCL accepts it.
    pub notes: Vec<Note>,
    /// NCCL's settings.
    pub settings: Arc<Settings>,
    hosts: Vec<EqualHosts>,
    collnet: bool,
}

/// Plans a job as NCCL would with these settings.
///
/// # Errors
/// NCCL refuses the job too, or a topology file describes no machine.
pub fn plan(job: &Job, settings: &Settings) -> Result<Planned, Error> {
    let settings = Arc::new(settings.clone());
    let mut notes = Vec::new();
    let hosts = prepare::hosts(job, &settings, &mut notes)?;
    let mut cluster = ClusterPlan::new(job, &hosts, &settings)?;
    let nodes = cluster.machines.iter_mut().flat_map(|it| &mut it.nodes);
    let warnings = nodes.flat_map(|node| node.warnings.drain(..));
    notes.extend(warnings.map(Note::GraphFile));
    let joined = JobPlan::new(cluster, &settings)?;
    let built_in;
    let profile = match &job.profile {
        Some(profile) => profile,
        None => {
            built_in = CostProfile::of(settings.rules.version());
            &built_in
        }
    };
    notes.extend(joined.notes());
    Ok(Planned {
        costs: cost::table(
            &joined.cost_inputs(),
            &settings.tuning,
            profile,
            settings.rules,
        )?,
        job: joined,
        notes,
        settings,
        hosts: hosts.into_owned(),
        collnet: job.collnet,
    })
}

impl Planned {
    /// The plan as a document that outlives the process.
    pub fn plan(&self) -> Plan {
        let producer = Producer {
            name: "topo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut plan = Plan::new(producer, self.profile(), self.fingerprint(), self.request());
        plan.settings = self.deciding();
        artifact::fill(&mut plan, &self.job, self.costs.clone());
        plan
    }

    /// Tells what was decided for each distinct machine, how each search went, and what is odd
    /// about the job.
    pub fn explain(&self) -> String {
        let layout = self.job.layout();
        let mut text = format!(
            "{}, {}, {} for collectives\n",
            explain::count(layout.hosts() as usize, "host"),
            explain::count(layout.ranks() as usize, "rank"),
            explain::count(self.job.common().channels.count() as usize, "channel"),
        );
        for machine in self.machines() {
            text.push_str(&format!("\n{}: {}\n", machine.name, machine.summary));
            machine
                .nodes
                .iter()
                .for_each(|node| explain::tell(node, &mut text));
        }
        for note in &self.notes {
            text.push_str(&format!("\nnote: {note}\n"));
        }
        text
    }

    /// The graphs of the first rank, as NCCL's graph file.
    ///
    /// # Errors
    /// NCCL's file has no word for a type of path that a graph uses.
    pub fn graph_file(&self) -> Result<String, plan::Error> {
        self.plan().graph_file()
    }

    /// The distinct machines, in order of first appearance.
    pub fn machines(&self) -> &[MachinePlan] {
        &self.job.hosts.machines
    }

    /// What the first node of a machine decided.
    ///
    /// # Panics
    /// There is no such machine.
    pub fn node(&self, machine: usize) -> &HostPlan {
        &self.machines()[machine].nodes[0]
    }

    /// The names of the machines, each once.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for machine in self.machines() {
            if !names.contains(&machine.name.as_str()) {
                names.push(&machine.name);
            }
        }
        names.join("+")
    }

    /// The version of NCCL whose decisions these are.
    pub fn version(&self) -> NcclVersion {
        self.settings.rules.version()
    }

    fn profile(&self) -> &'static str {
        self.version().profile()
    }

    /// What was asked for.
    pub fn request(&self) -> RequestSummary {
        RequestSummary {
            hosts: self.job.layout().hosts(),
            nvlink_domain: self.machines().iter().any(MachinePlan::is_domain),
            collnet: self.collnet,
        }
    }

    /// The settings that can change a decision.
    pub fn deciding(&self) -> Vec<Setting> {
        self.settings
            .deciding()
            .map(|(name, value)| Setting {
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect()
    }

    /// The costs as NCCL logs them: from 2.31 on before it leaves out what settings exclude, and
    /// LL128 where that is unsafe (source: the logs of the binaries).
    pub fn logged_costs(&self) -> CostTable {
        let rules = self.settings.rules;
        let mut tuning = self.settings.tuning.clone();
        if rules.version() >= NcclVersion::V2_31 {
            tuning.algorithms = None;
            tuning.protocols = Some(Protocol::ALL.map(Protocol::name).join(","));
        }
        let profile = CostProfile::of(rules.version());
        let logged = cost::table(&self.job.cost_inputs(), &tuning, &profile, rules);
        // Settings that NCCL refuses make no plan.
        logged.unwrap_or_else(|_| self.costs.clone())
    }

    /// The digest of everything that the plan was made from.
    fn fingerprint(&self) -> Digest {
        let mut fingerprint = Fingerprint::new(self.profile());
        for hosts in &self.hosts {
            let canonical = topology::xml::write(&hosts.document);
            fingerprint = fingerprint.topology(canonical.as_bytes(), hosts.count);
        }
        let graphs = self.settings.graphs.as_ref();
        let graphs = graphs.map(|graphs| format!("{graphs:?}"));
        let fingerprint = fingerprint
            .settings(&self.deciding())
            .request(&self.request())
            .part("graph-file", graphs.unwrap_or_default().as_bytes());
        match &self.job.hosts.order {
            Some(order) => fingerprint.part("rank-order", format!("{order:?}").as_bytes()),
            None => fingerprint,
        }
        .finish()
    }
}
