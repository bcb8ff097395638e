//! The rest of a job after each single failure of its first host.
//!
//! In reading order: this file, `page`.

mod page;

use bounds::optimum;
use plan::PlanDifference;
use plan::certificate::Operation;
use planner::what_if::{EqualFailures, FailureOutcome, JobFigures, WhatIf};
use planner::{Job, Planned, Settings};
use program::named;
use serde::{Deserialize, Serialize};
use topology::edit::{Edit, Failure, FailureKind, failures};

use crate::report::Report;
use crate::sizes::{Sizes, expand};
use crate::values;
use crate::{Args, JsonSchema};

/// Sizes of all-reduces if none are named.
const SIZES: [Sizes; 2] = [
    Sizes::range(64 << 10, 64 << 10),
    Sizes::range(1 << 30, 1 << 30),
];

/// Which failures of a job to plan.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct WhatIfQuestion {
    /// Only these failures: of gpu, nic, switch (each PCI switch, and the NVSwitches together),
    /// nvlink (one of every pair that has some, and all of each GPU)
    #[serde(default, deserialize_with = "values::list_by_name")]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    #[schemars(with = "Vec<String>")]
    pub only: Vec<FailingDevice>,
    /// All-reduce sizes whose loss is predicted; the last one decides the order
    #[serde(default)]
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "64K,1G"
    )]
    pub sizes: Vec<Sizes>,
    /// Also show the most that any schedule reaches after each failure (topo bound)
    #[serde(default)]
    #[arg(long)]
    pub bound: bool,
}

/// Devices that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailingDevice {
    /// Each GPU.
    Gpu,
    /// Each network port.
    Nic,
    /// Each PCI switch, and the NVSwitches together.
    Switch,
    /// One NVLink of every pair that has some, and all NVLinks of each GPU.
    Nvlink,
}

named!(FailingDevice, "kind of device", |known, text| known.name().eq_ignore_ascii_case(text), {
    Gpu = "gpu",
    Nic = "nic",
    Switch = "switch",
    Nvlink = "nvlink",
});

impl FailingDevice {
    /// The failures of this class.
    const fn kinds(&self) -> &'static [FailureKind] {
        match self {
            Self::Gpu => &[FailureKind::Gpu],
            Self::Nic => &[FailureKind::Nic],
            Self::Switch => &[FailureKind::Switch, FailureKind::NvSwitch],
            Self::Nvlink => &[FailureKind::NvLink, FailureKind::GpuNvLinks],
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// The job cannot be planned.
    #[error(transparent)]
    Plan(#[from] planner::Error),
    /// There are too many sizes.
    #[error("{0}")]
    Sizes(String),
}

/// A job, and what is left of it after the failures that were planned until now.
#[derive(Debug)]
pub struct PlannedFailures {
    /// The job without any failure.
    pub job: Planned,
    /// Sizes of all-reduces, bytes.
    sizes: Vec<u64>,
    /// The job, if bounds are wanted.
    bounded: Option<Job>,
    /// The failures, in the order in which they were planned.
    rows: Vec<EqualFailures>,
    /// Failures that were not planned.
    pub left_out: Vec<Failure>,
}

/// The JSON of `topo diff --each-failure`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhatIfReport {
    /// The job.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// The job without any failure.
    pub whole: JobLeft,
    /// The failures, worst first; those after which the same is left are one.
    pub failures: Vec<FailureRow>,
    /// Failures that were not tried within the time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Vec<String>>,
    /// How many of them there are of each kind.
    #[serde(skip)]
    kinds_left_out: Vec<(FailureKind, usize)>,
    /// The profile of the plans; absent if a binary has judged its version.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    profile: Option<String>,
}

/// Failures of one kind after which the same is left.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailureRow {
    /// The kind: GPU, NIC, PCI switch, NVSwitch, NVLink, all NVLinks of a GPU.
    pub kind: &'static str,
    /// The failures, one at a time.
    pub names: Vec<String>,
    /// How each is taken out of the job.
    pub edits: Vec<MachineEdit>,
    /// For one NVLink of a pair, the number of links between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<i32>,
    /// The rest of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<JobLeft>,
    /// How the plan differs from that of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<Vec<PlanDifference>>,
    /// Why NCCL cannot start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_be_planned: Option<String>,
}

/// A change of a machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MachineEdit {
    /// `without`: a device or link is gone; `degrade`: a link is slower.
    pub kind: &'static str,
    /// The device or link, for `degrade` with what is left of it.
    pub of: String,
}

/// A job in figures.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobLeft {
    /// Ranks of the job.
    pub ranks: u32,
    /// Channels of collectives.
    pub channels: u32,
    /// Ring channels that were searched.
    pub ring_channels: u32,
    /// Bandwidth of each of them, GB/s.
    pub ring_channel_gbps: f32,
    /// Predicted all-reduces.
    pub all_reduce: Vec<PredictedTime>,
    /// If asked for: the most that any schedule reaches, of several failures the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Vec<LeastBound>>,
}

/// The most that any schedule of an operation reaches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeastBound {
    /// The operation.
    pub operation: Operation,
    /// Bus bandwidth, GB/s.
    pub bound_gbps: f64,
}

/// A predicted all-reduce.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PredictedTime {
    /// Size of the message, bytes.
    pub bytes: u64,
    /// Predicted time, µs; null if no algorithm is left.
    pub time_us: Option<f32>,
    /// The share of its speed that is lost; negative: faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Report for WhatIfReport {
    const FORMAT: &'static str = "topo-what-if";
    const VERSION: u32 = 2;
}

impl WhatIfQuestion {
    /// The failures of a job's first host.
    pub fn failures(&self, job: &Job) -> Vec<Failure> {
        let first = job.hosts.first();
        let mut all = first.map_or_else(Vec::new, |first| failures(&first.document));
        let wanted = |failure: &Failure| {
            let mut kinds = self.only.iter().flat_map(FailingDevice::kinds);
            kinds.any(|it| *it == failure.kind)
        };
        all.retain(|failure| self.only.is_empty() || wanted(failure));
        all
    }

    /// The job before any failure is planned, and its plans after each, one per step of the
    /// iterator, so that the caller decides how long that may take. `differences`: also every
    /// difference of the plans.
    ///
    /// # Errors
    /// The job cannot be planned, or there are too many sizes.
    pub fn begin(
        &self,
        job: Job,
        settings: &Settings,
        differences: bool,
    ) -> Result<(PlannedFailures, WhatIf), WhatIfError> {
        let sizes = match &self.sizes[..] {
            [] => &SIZES,
            sizes => sizes,
        };
        let sizes = expand(sizes, 2, SIZES[0]).map_err(WhatIfError::Sizes)?;
        let planned = planner::plan(&job, settings)?;
        let failures = self.failures(&job);
        let bounded = self.bound.then(|| job.clone());
        let (left_out, given) = (failures.clone(), sizes.clone());
        let outcomes = WhatIf::new(job, &planned, failures, given, differences);
        let begun = PlannedFailures {
            job: planned,
            sizes,
            bounded,
            rows: Vec::new(),
            left_out,
        };
        Ok((begun, outcomes))
    }
}

impl PlannedFailures {
    /// Takes the outcome of the first failure that was left out.
    pub fn add(&mut self, outcome: FailureOutcome) {
        if self.left_out.is_empty() {
            return;
        }
        self.left_out.remove(0);
        match outcome {
            FailureOutcome::New(row) => self.rows.push(*row),
            FailureOutcome::Known(row, failure) => self.rows[row].failures.push(failure),
        }
    }

    /// The answer.
    pub fn finish(mut self) -> WhatIfReport {
        self.rows.sort_by(EqualFailures::worst_first);
        let (planned, job) = (&self.job, self.bounded.as_ref());
        let left = |figures: &JobFigures, losses: &[Option<f64>], bounds| {
            let times = self.sizes.iter().zip(&figures.times);
            let times = times.enumerate().map(|(at, (bytes, time))| PredictedTime {
                bytes: *bytes,
                time_us: *time,
                loss: losses.get(at).copied().flatten(),
            });
            JobLeft {
                ranks: figures.ranks,
                channels: figures.channels,
                ring_channels: figures.rings.0,
                ring_channel_gbps: figures.rings.1,
                all_reduce: times.collect(),
                bounds,
            }
        };
        let whole = JobFigures::of(planned, &self.sizes);
        let whole = left(&whole, &[], job.map(|_| bounds_of(planned)));
        let failures = self.rows.into_iter().map(|row| {
            let bounds = job.map(|job| bounds_after(&row, job, &planned.settings));
            let of = row.failures.iter();
            let (first, figures) = (&row.failures[0], row.left.as_ref());
            FailureRow {
                kind: first.kind.name(),
                names: of.clone().map(|it| it.name.clone()).collect(),
                edits: of.map(|it| MachineEdit::of(&it.edit)).collect(),
                links: first.of,
                left: figures.ok().map(|it| left(it, &row.losses, bounds)),
                cannot_be_planned: figures.err().map(ToString::to_string),
                differences: row.differences,
            }
        });
        let kinds = pages::numbers::group(self.left_out.iter().map(|it| (it.kind, ())));
        let kinds = kinds.into_iter().map(|(kind, all)| (kind, all.len()));
        let left_out = self.left_out.iter().map(|it| it.name.clone());
        WhatIfReport {
            name: planned.name(),
            hosts: planned.plan().request.hosts,
            whole,
            failures: failures.collect(),
            left_out: (!self.left_out.is_empty()).then(|| left_out.collect()),
            kinds_left_out: kinds.collect(),
            profile: Some(planned.version().profile().to_owned()),
        }
    }
}

impl MachineEdit {
    fn of(edit: &Edit) -> Self {
        Self {
            kind: match edit.removes() {
                true => "without",
                false => "degrade",
            },
            of: edit.to_string(),
        }
    }
}

/// The most that any schedule reaches after failures after which NCCL's plan is the same: for each
/// operation the least.
fn bounds_after(row: &EqualFailures, job: &Job, settings: &Settings) -> Vec<LeastBound> {
    let mut least = Vec::<LeastBound>::new();
    for failure in &row.failures {
        let mut job = job.clone();
        let planned = job
            .edit(&failure.edit)
            .and_then(|()| planner::plan(&job, settings));
        let Ok(planned) = planned else {
            return Vec::new();
        };
        for found in bounds_of(&planned) {
            let known = |it: &&mut LeastBound| it.operation == found.operation;
            match least.iter_mut().find(known) {
                Some(known) => known.bound_gbps = known.bound_gbps.min(found.bound_gbps),
                None => least.push(found),
            }
        }
    }
    least
}

fn bounds_of(planned: &Planned) -> Vec<LeastBound> {
    let all = optimum::of(planned).into_iter().map(|it| LeastBound {
        operation: it.operation,
        bound_gbps: it.bound,
    });
    all.collect()
}
