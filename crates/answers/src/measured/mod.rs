//! The links of a machine as they were measured: bandwidths between GPUs become capacities of
//! links, with what cannot be told apart by name and what no capacity explains.
//!
//! In reading order: this file, [`observe`] (measurements as transfers over links), [`fit`]
//! (capacities of links), [`share`], [`steps`] (time of a step by latencies), [`price`] (NCCL's
//! decisions on these links), `checks`, [`page`].

mod checks;
pub mod fit;
pub mod observe;
pub mod page;
pub mod price;
pub mod share;
pub mod steps;

use std::collections::BTreeMap;

use plan::{PlannedLink, PlannedLinks};
use planner::{Planned, View};
use records::Measurements;
use records::latency::Latencies;
use serde::Serialize;
use topology::{BusId, LinkId, LinkType, NodeId, NodeType, System};

use crate::JsonSchema;
use fit::{Capacity, Class, Fit};
use observe::Observations;
pub use price::OnMeasured;
pub use steps::MeasuredStep;

/// The links of the machine, as measurements show them.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MeasuredLinks {
    /// The file with the measurements.
    pub source: String,
    /// The links that measured transfers crossed, each direction behind the other, in the machine's
    /// order.
    pub links: Vec<MeasuredLink>,
    /// Links that every transfer crosses together: only the least of their capacities is known.
    pub in_series: Vec<LinksInSeries>,
    /// Links of which at least one limits some transfers, and which one cannot be told.
    pub not_separable: Vec<JointLinks>,
    /// What the capacities say of each measurement.
    pub checks: Vec<FitQuality>,
    /// What of the file was not used, and what no capacity of a link explains.
    pub notes: Vec<String>,
    /// The time of a step with Simple, if latencies were measured, once a job is priced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simple_step: Option<MeasuredStep>,
    #[serde(skip)]
    latencies: Option<Latencies>,
    #[serde(skip)]
    bandwidths: BTreeMap<LinkId, f32>,
}

/// A link in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredLink {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Its type.
    pub kind: &'static str,
    /// What NCCL takes it for, GB/s.
    pub nccl_gbps: f32,
    /// What was seen, GB/s.
    pub measured_gbps: f64,
    /// What the seen bandwidth is.
    pub certainty: CapacityKind,
    /// Its place in `not_separable`; null if it can be told apart.
    pub not_separable: Option<u32>,
    /// Its place in `in_series`; null if some transfer crosses it alone.
    pub in_series: Option<u32>,
    /// The bandwidth that is used, GB/s: what was seen; for a link that never was the limit what
    /// NCCL takes it for, if that is more.
    pub used_gbps: f32,
}

/// What a seen bandwidth is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityKind {
    /// The link limits transfers, and nothing else can.
    Known,
    /// The link or another of `not_separable` is the limit.
    OneOf,
    /// The link never limits a transfer.
    AtLeast,
}

/// Links in series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LinksInSeries {
    /// The links.
    pub links: Vec<String>,
    /// The capacity of the least of them, GB/s.
    pub gbps: f64,
}

/// Links that cannot be told apart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JointLinks {
    /// The links.
    pub links: Vec<String>,
    /// The least that one of them shows, GB/s.
    pub least_gbps: f64,
    /// The most that one of them shows, GB/s.
    pub most_gbps: f64,
}

/// What the capacities say of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FitQuality {
    /// The test.
    pub test: String,
    /// Values.
    pub values: usize,
    /// Whether capacities were fitted to it.
    pub fitted: bool,
    /// Half of the values are within this share of what the capacities give.
    pub median_error: f64,
    /// The value that is farthest off.
    pub worst: String,
    /// What was measured there, GB/s.
    pub worst_measured_gbps: f64,
    /// What the capacities give there, GB/s.
    pub worst_expected_gbps: f64,
}

/// Why measurements cannot be used for a job.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The job has several kinds of machines.
    #[error(
        "{0} machines of different kinds; expected one machine, or equal ones, that were measured"
    )]
    DifferentMachines(usize),
    /// NCCL uses the network inside the machine.
    #[error(
        "{0}: NCCL uses the network between GPUs of this machine; expected one whose GPUs reach each \
         other without it"
    )]
    SeveralNodes(String),
    /// Several hosts as one machine.
    #[error("{0} is an NVLink domain of several hosts; expected a host that was measured alone")]
    SeveralHosts(String),
    /// Nothing fits.
    #[error(
        "{file} has no bandwidth between two GPUs of {machine} that access each other's memory{why}; \
         expected the GPUs' numbers to be those of the topology file ({gpus})"
    )]
    NothingFits {
        /// The file.
        file: String,
        /// The machine.
        machine: String,
        /// More about it.
        why: String,
        /// The numbers of the GPUs.
        gpus: String,
    },
}

impl MeasuredLinks {
    /// Infers the links of a job's machine. Matrices number GPUs as the topology file does.
    ///
    /// # Errors
    /// The job is not of one kind of machine, or no measurement is of two of its GPUs.
    pub fn of(planned: &Planned, measurements: &Measurements) -> Result<Self, MeasuredError> {
        let [machine] = planned.machines() else {
            return Err(MeasuredError::DifferentMachines(planned.machines().len()));
        };
        let [node] = &machine.nodes[..] else {
            return Err(MeasuredError::SeveralNodes(machine.name.clone()));
        };
        if machine.is_domain() {
            return Err(MeasuredError::SeveralHosts(machine.name.clone()));
        }
        Self::of_view(&node.view, &machine.name, measurements)
    }

    /// Infers the links of one machine.
    ///
    /// # Errors
    /// No measurement is of two of its GPUs.
    pub fn of_view(
        view: &View,
        name: &str,
        measurements: &Measurements,
    ) -> Result<Self, MeasuredError> {
        let system = view.system();
        let observed = Observations::of(view, measurements);
        if observed.fitted.is_empty() {
            let gpus: Vec<i32> = system.devs().map(|(_, dev)| dev.dev).collect();
            let why = observed.notes.first().map(|it| format!(" ({it})"));
            return Err(MeasuredError::NothingFits {
                file: measurements.name.clone(),
                machine: name.to_owned(),
                why: why.unwrap_or_default(),
                gpus: plan::ranges(&gpus, ","),
            });
        }
        let fit = Fit::of(&observed.fitted);
        let mut own = Self {
            source: measurements.name.clone(),
            links: Vec::new(),
            in_series: Vec::new(),
            not_separable: Vec::new(),
            checks: observed.checks(&fit),
            notes: observed.notes.clone(),
            simple_step: None,
            latencies: measurements.latencies.clone(),
            bandwidths: BTreeMap::new(),
        };
        own.add_links(system, &fit);
        own.notes.extend(observed.unexplained(&fit));
        Ok(own)
    }

    /// The bandwidth of a link, GB/s: as measured, or as NCCL has it where nothing was measured.
    pub fn bandwidth(&self, system: &System, link: LinkId) -> f32 {
        let known = self.bandwidths.get(&link).copied();
        known.unwrap_or_else(|| system.link(link).bw)
    }

    /// The links as a plan keeps them.
    pub fn in_plan(&self) -> PlannedLinks {
        let links = self.links.iter().map(|link| PlannedLink {
            from: link.from.clone(),
            to: link.to.clone(),
            kind: link.kind.to_owned(),
            nccl_gbps: link.nccl_gbps,
            used_gbps: link.used_gbps,
        });
        PlannedLinks {
            source: self.source.clone(),
            links: links.collect(),
        }
    }

    fn add_links(&mut self, system: &System, fit: &Fit) {
        let direction = |link: LinkId| format!("{}→{}", end(system, link, 0), end(system, link, 1));
        let names = |classes: &mut dyn Iterator<Item = &Class>| -> Vec<String> {
            let links = classes.flat_map(|class| &class.links);
            links.map(|link| direction(LinkId(*link))).collect()
        };
        let mut series: BTreeMap<u32, u32> = BTreeMap::new();
        for class in fit.classes.iter().filter(|class| class.links.len() > 1) {
            let number = self.in_series.len() as u32;
            series.extend(class.links.iter().map(|link| (*link, number)));
            let names = names(&mut [class].into_iter());
            self.in_series.push(LinksInSeries {
                links: names,
                gbps: class.capacity.gbps(),
            });
        }
        for set in &fit.joint {
            let mut classes = set.iter().map(|it| &fit.classes[*it as usize]);
            let shown = classes.clone().map(|class| class.capacity.gbps());
            let (least, most) = shown.fold((f64::MAX, 0.0), |(least, most): (f64, f64), it| {
                (least.min(it), most.max(it))
            });
            self.not_separable.push(JointLinks {
                links: names(&mut classes),
                least_gbps: least,
                most_gbps: most,
            });
        }
        // The ends and the type of a link, and what is known of its directions.
        type Row = ((NodeId, NodeId), LinkType, Vec<MeasuredLink>);
        let mut rows: Vec<Row> = Vec::new();
        for link in (0..system.link_count() as u32).map(LinkId) {
            let Some(class) = fit.class(link.0) else {
                continue;
            };
            let stated = system.link(link).bw;
            let seen = class.capacity.gbps() as f32;
            let (certainty, not_separable, used) = match class.capacity {
                Capacity::Known(_) => (CapacityKind::Known, None, seen),
                Capacity::OneOf { set, .. } => (CapacityKind::OneOf, Some(set), seen),
                Capacity::AtLeast(_) => (CapacityKind::AtLeast, None, stated.max(seen)),
            };
            self.bandwidths.insert(link, used);
            let ((from, to), kind) = (system.ends(link), system.link(link).kind);
            let found = MeasuredLink {
                from: end(system, link, 0),
                to: end(system, link, 1),
                kind: kind.name(),
                nccl_gbps: stated,
                measured_gbps: class.capacity.gbps(),
                certainty,
                not_separable,
                in_series: series.get(&link.0).copied(),
                used_gbps: used,
            };
            let back = |row: &&mut Row| row.0 == (to, from) && row.1 == kind && row.2.len() == 1;
            match rows.iter_mut().find(back) {
                Some(row) => row.2.push(found),
                None => rows.push(((from, to), kind, vec![found])),
            }
        }
        self.links = rows.into_iter().flat_map(|row| row.2).collect();
    }
}

/// The name of an end of a link.
fn end(system: &System, link: LinkId, at: usize) -> String {
    let (from, to) = system.ends(link);
    let node = [from, to][at.min(1)];
    match system.kind(node) {
        NodeType::Gpu => format!("GPU{}", system.gpu(node).map_or(-1, |gpu| gpu.dev)),
        NodeType::Dev => format!("GPU{}", system.dev(node).map_or(-1, |dev| dev.dev)),
        NodeType::Cpu => format!("CPU{}", system.cpu(node).map_or(-1, |cpu| cpu.numa)),
        NodeType::Nvs => "NVSwitch".to_owned(),
        NodeType::Pci => format!("switch {}", BusId(system.node(node).id.local())),
        kind => format!("{kind} {:#x}", system.node(node).id.local()),
    }
}
