//! Planning a job, from its topology files to the plan.

use std::sync::Arc;

use plan::{CostTable, NcclVersion, Plan};
use program::Protocol;
use topology::{LinkId, System};

use crate::artifact;
use crate::cluster::{ClusterPlan, MachinePlan};
use crate::connect::JobPlan;
use crate::cost::{self, CostProfile};
use crate::error::Error;
use crate::explain;
use crate::host_plan::HostPlan;
use crate::job::Job;
use crate::note::Note;
use crate::prepare;
use crate::settings::Settings;

/// A job and everything that was decided for it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The decisions of the machines, and how they are joined.
    pub job: JobPlan,
    /// The costs of collectives.
    pub costs: CostTable,
    /// Oddities of the job or a graph file that NCCL accepts.
    pub notes: Vec<Note>,
    /// NCCL's settings.
    pub settings: Arc<Settings>,
    plan: Plan,
}

/// Plans a job as NCCL would with these settings.
///
/// # Errors
/// NCCL refuses the job too, a topology file describes no machine, or no plan can hold the job.
pub fn plan(job: &Job, settings: &Settings) -> Result<Planned, Error> {
    let settings = Arc::new(settings.clone());
    let mut notes = Vec::new();
    let hosts = prepare::hosts(job, &settings, &mut notes)?;
    let mut cluster = ClusterPlan::new(job, &hosts, &settings)?;
    let nodes = cluster.machines.iter_mut().flat_map(|it| &mut it.nodes);
    let warnings = nodes.flat_map(|node| node.warnings.drain(..));
    notes.extend(warnings.map(Note::GraphFile));
    let joined = JobPlan::new(cluster, &settings)?;
    if joined.layout().nodes() == 1 {
        notes.retain(|note| !matches!(note, Note::Sockets { .. }));
    }
    let built_in;
    let profile = match &job.profile {
        Some(profile) => profile,
        None => {
            built_in = CostProfile::of(settings.rules.version());
            &built_in
        }
    };
    notes.extend(joined.notes());
    let costs = cost::table(
        &joined.cost_inputs(),
        &settings.tuning,
        profile,
        settings.rules,
    )?;
    if settings.rules.version() == NcclVersion::V2_32_6 {
        notes.push(Note::FromSource);
    }
    let (tuning, rules) = (&settings.tuning, settings.rules);
    if cost::assumes_driver(&costs, &joined.cost_inputs(), tuning, rules) {
        notes.push(Note::Driver);
    }
    let mut nodes = joined.hosts.machines.iter().flat_map(|it| &it.nodes);
    if settings.assumes_partition_driver()
        && nodes.any(|node| {
            node.view
                .system()
                .gpus()
                .any(|(_, gpu)| gpu.mlopart.is_some())
        })
    {
        notes.push(Note::PartitionDriver);
    }
    Ok(Planned {
        plan: artifact::plan(&hosts, &joined, &settings, job.collnet, &costs)?,
        job: joined,
        costs,
        notes,
        settings,
    })
}

impl Planned {
    /// The same decisions over links of measured bandwidths, GB/s, for those who judge them: the
    /// plan, its graphs and costs stay as NCCL made them, with NCCL's bandwidths.
    #[must_use]
    pub fn on_measured(&self, bandwidth: impl Fn(&System, LinkId) -> f32) -> Self {
        let mut measured = self.clone();
        let machines = measured.job.hosts.machines.iter_mut();
        for node in machines.flat_map(|machine| &mut machine.nodes) {
            let system = node.view.system().clone();
            node.view.on_measured(|link| bandwidth(&system, link));
        }
        measured
    }

    /// The plan as a document that outlives the process.
    pub const fn plan(&self) -> &Plan {
        &self.plan
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

    /// The graphs of the first rank's node, as a file for `NCCL_GRAPH_FILE`.
    ///
    /// # Errors
    /// NCCL's file has no word for a type of path that a graph uses.
    pub fn graph_file(&self) -> Result<String, plan::Error> {
        self.plan().graph_file()
    }

    /// The graphs of the first rank's node, as that rank of NCCL dumps them.
    ///
    /// # Errors
    /// NCCL's file has no word for a type of path that a graph uses.
    pub fn graph_dump(&self) -> Result<String, plan::Error> {
        self.plan().graph_dump()
    }

    /// The distinct machines, in order of first appearance.
    pub fn machines(&self) -> &[MachinePlan] {
        &self.job.hosts.machines
    }

    /// The decisions of a machine's first node.
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

    /// The costs as NCCL logs them: from 2.31 on before it leaves out what settings exclude, and
    /// LL128 where that is unsafe (source: the logs of the binaries).
    pub fn logged_costs(&self) -> CostTable {
        let rules = self.settings.rules;
        let mut tuning = self.settings.tuning.clone();
        if rules.version() >= NcclVersion::V2_31 {
            tuning.algorithms = None;
            tuning.windows.kernels = None;
            tuning.protocols = Some(Protocol::ALL.map(Protocol::name).join(","));
        }
        let profile = CostProfile::of(rules.version());
        let logged = cost::table(&self.job.cost_inputs(), &tuning, &profile, rules);
        // Settings that NCCL refuses make no plan.
        logged.unwrap_or_else(|_| self.costs.clone())
    }
}
