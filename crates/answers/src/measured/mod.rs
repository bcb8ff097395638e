//! The links of a machine as they were measured: bandwidths between GPUs become capacities of
//! links, with what cannot be told apart by name and what no capacity explains.
//!
//! In reading order: this file, [`observe`] (measurements as transfers over links), [`fit`]
//! (capacities of links), [`share`], [`steps`] (time of a step by latencies), [`price`] (NCCL's
//! decisions on these links), [`json`].

pub mod fit;
pub mod json;
pub mod observe;
pub mod price;
pub mod share;
pub mod steps;

use std::collections::BTreeMap;

use plan::{PlannedLink, PlannedLinks};
use planner::{Planned, View};
use records::Measurements;
use records::latency::Latencies;
use topology::{BusId, LinkId, LinkType, NodeId, NodeType, System};

use fit::{Capacity, Class, Fit};
pub use json::MeasuredLinksReport;
use observe::Observations;
pub use price::OnMeasured;
pub use steps::MeasuredStep;

/// The links of a machine, as measurements show them.
#[derive(Debug, Clone)]
pub struct MeasuredLinks {
    /// The file with the measurements.
    pub source: String,
    /// The links that transfers crossed, both directions together, in the machine's order.
    pub links: Vec<MeasuredLink>,
    /// Links that every transfer crosses together: names of the links of each group, and the
    /// capacity of the least, GB/s.
    pub in_series: Vec<(Vec<String>, f64)>,
    /// Links of which at least one limits some transfers, and which one cannot be told: names, and
    /// the least and the most of what they show, GB/s.
    pub joint: Vec<(Vec<String>, f64, f64)>,
    /// What the capacities say of each measurement.
    pub checks: Vec<Check>,
    /// Remarks: what of the file was not used.
    pub notes: Vec<String>,
    /// The time of a step over these links, if latencies were measured, once a job is priced.
    pub step: Option<MeasuredStep>,
    latencies: Option<Latencies>,
    bandwidths: BTreeMap<LinkId, f32>,
}

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredLink {
    /// Its ends.
    pub ends: [String; 2],
    /// Its type.
    pub kind: LinkType,
    /// From the first end to the second, and back.
    pub directions: [Option<MeasuredDirection>; 2],
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredDirection {
    /// What NCCL takes it for, GB/s.
    pub stated: f32,
    /// What measurements say.
    pub capacity: Capacity,
    /// The group of links in series, by its place in [`MeasuredLinks::in_series`].
    pub series: Option<u32>,
    /// The bandwidth that is used, GB/s: what was seen; for a link that never was the limit what
    /// NCCL takes it for, if that is more.
    pub used: f32,
}

/// What the capacities say of one matrix, or of the totals of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The test.
    pub test: String,
    /// Values.
    pub values: usize,
    /// Half of the values are within this share of what the capacities give.
    pub median: f64,
    /// The value that is farthest off: which, measured, and what the capacities give, GB/s.
    pub worst: (String, f64, f64),
    /// Whether capacities were fitted to it.
    pub fitted: bool,
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
                gpus: planner::explain::ranges(&gpus, ","),
            });
        }
        let fit = Fit::of(&observed.fitted);
        let mut own = Self {
            source: measurements.name.clone(),
            links: Vec::new(),
            in_series: Vec::new(),
            joint: Vec::new(),
            checks: observed.checks(&fit),
            notes: observed.notes.clone(),
            step: None,
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
        let links = self.links.iter().flat_map(|link| {
            let ends = [[0, 1], [1, 0]].into_iter().zip(&link.directions);
            ends.filter_map(|([from, to], direction)| {
                let found = (*direction)?;
                Some(PlannedLink {
                    from: link.ends[from].clone(),
                    to: link.ends[to].clone(),
                    kind: link.kind.name().to_owned(),
                    nccl_gbps: found.stated,
                    used_gbps: found.used,
                })
            })
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
            self.in_series.push((names, class.capacity.gbps()));
        }
        for set in &fit.joint {
            let mut classes = set.iter().map(|it| &fit.classes[*it as usize]);
            let shown = classes.clone().map(|class| class.capacity.gbps());
            let (least, most) = shown.fold((f64::MAX, 0.0), |(least, most): (f64, f64), it| {
                (least.min(it), most.max(it))
            });
            self.joint.push((names(&mut classes), least, most));
        }
        let mut rows: Vec<(NodeId, NodeId, MeasuredLink)> = Vec::new();
        for link in (0..system.link_count() as u32).map(LinkId) {
            let Some(class) = fit.class(link.0) else {
                continue;
            };
            let stated = system.link(link).bw;
            let seen = class.capacity.gbps() as f32;
            let used = match class.capacity {
                Capacity::AtLeast(_) => stated.max(seen),
                _ => seen,
            };
            self.bandwidths.insert(link, used);
            let found = Some(MeasuredDirection {
                stated,
                capacity: class.capacity,
                series: series.get(&link.0).copied(),
                used,
            });
            let ((from, to), kind) = (system.ends(link), system.link(link).kind);
            let back = rows.iter_mut().find(|row| {
                (row.0, row.1, row.2.kind) == (to, from, kind) && row.2.directions[1].is_none()
            });
            match back {
                Some((_, _, row)) => row.directions[1] = found,
                None => rows.push((
                    from,
                    to,
                    MeasuredLink {
                        ends: [0, 1].map(|at| end(system, link, at)),
                        kind,
                        directions: [found, None],
                    },
                )),
            }
        }
        self.links = rows.into_iter().map(|row| row.2).collect();
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
