//! The pricing of a step. Ranks may be placed anew: each kind of communicator is planned once.

use std::collections::HashMap;

use plan::Algorithm;
use planner::{Job, Planned, Settings};
use program::Collective;
use workload::Call;

use super::calibration::Calibration;
use super::clock::Timeline;
use super::memory::{self, GroupMemory};
use super::places::{Place, Places};
use super::price::{CallKind, Price, Pricer};
use super::shapes::{self, Planner};
use super::sharing::Sharing;
use super::{StepCall, StepError, StepGroup, StepQuestion, StepReport, measured};
use crate::{head, names};

/// Prices a step on a job whose ranks are placed here or there.
pub(super) struct Pricing<'a> {
    pub(super) job: &'a Job,
    pub(super) settings: &'a Settings,
    pub(super) question: &'a StepQuestion<'a>,
    pub(super) planner: Planner<'a>,
    pub(super) pricer: Pricer,
}

/// A priced step.
pub(super) struct Priced {
    pub(super) groups: Vec<StepGroup>,
    /// By group the plan of each shape.
    plans: Vec<Vec<usize>>,
    calls: Vec<StepCall>,
    /// The kind of each call.
    of_call: Vec<usize>,
    timeline: Timeline,
    bubble_us: f64,
}

impl Priced {
    /// The step with the bubble of the pipeline, µs.
    pub(super) fn step_us(&self) -> f64 {
        self.timeline.end_us + self.bubble_us
    }

    /// The time of each kind of call, µs.
    pub(super) fn times(&self) -> Vec<f64> {
        self.calls.iter().map(|it| it.price.time_us).collect()
    }

    /// Takes other times for the kinds of a group's calls.
    pub(super) fn set_times(&self, group: usize, its: &[f64], times: &mut [f64]) {
        let kinds = self.calls.iter().zip(times);
        let kinds = kinds.filter(|(call, _)| call.kind.group == group);
        for ((_, time), other) in kinds.zip(its) {
            *time = *other;
        }
    }

    /// The time of a call of each entry of the workload, by those of the kinds, µs.
    pub(super) fn of_entries(&self, times: &[f64]) -> Vec<f64> {
        self.of_call.iter().map(|at| times[*at]).collect()
    }
}

impl<'a> Pricing<'a> {
    pub(super) fn new(
        job: &'a Job,
        settings: &'a Settings,
        question: &'a StepQuestion<'a>,
    ) -> Self {
        let profile = question.measurements.and_then(|it| it.profile.clone());
        Self {
            job,
            settings,
            question,
            planner: Planner::new(job, settings, profile.clone()),
            pricer: Pricer::of(profile),
        }
    }

    /// Checks that the workload has the ranks of the job, and reads the measurements.
    pub(super) fn begin(&mut self, places: &Places) -> Result<(), StepError> {
        if let Some(workload) = self.question.workload.ranks
            && workload != places.ranks()
        {
            return Err(StepError::OtherRanks {
                workload,
                cluster: places.ranks(),
                hosts: places.hosts(),
            });
        }
        if let Some(measurements) = self.question.measurements {
            let samples = self.samples(measurements, places)?;
            self.pricer.calibration = Calibration::of(&samples);
        }
        Ok(())
    }

    /// Hosts that form an NVLink domain.
    pub(super) fn domain_hosts(&self) -> u32 {
        match self.job.nvlink_domain {
            true => self.question.domain_hosts.max(1),
            false => 1,
        }
    }

    /// Prices the step with ranks at these places.
    pub(super) fn price(&mut self, places: &Places) -> Result<Priced, StepError> {
        let workload = self.question.workload;
        let mut groups = Vec::new();
        let mut plans: Vec<Vec<usize>> = Vec::new();
        for group in &workload.groups {
            let members = &group.members;
            let (leaf, domain) = (self.question.leaf, self.domain_hosts());
            let alike = shapes::shapes(&group.name, members, places, domain, leaf)?;
            let its = alike
                .iter()
                .map(|it| self.planner.plan(&group.name, &it.shape));
            let its: Vec<usize> = its.collect::<Result<_, _>>()?;
            let planned: Vec<&Planned> = its.iter().map(|at| &self.planner.planned[*at]).collect();
            let sharing = Sharing::of(&alike, &planned, leaf.map(|it| (it, places.hosts())));
            plans.push(its);
            groups.push(StepGroup {
                name: group.name.clone(),
                members: members.to_string(),
                sharing,
                alike,
                calls: 0,
                bytes: 0,
                time_us: 0.0,
                bound_us: 0.0,
                bounded_us: 0.0,
                exposed_us: 0.0,
                memory: GroupMemory::default(),
            });
        }
        let (mut calls, of_call) = self.calls(&groups, &plans)?;
        let times: Vec<f64> = of_call.iter().map(|at| calls[*at].price.time_us).collect();
        let timeline = Timeline::of(workload, &times);
        for (span, at) in timeline.spans.iter().zip(&of_call) {
            calls[*at].exposed_us += span.exposed_us;
        }
        add_up(&mut groups, &calls);
        let bubble = workload.pipeline.map_or(0.0, |it| it.bubble());
        Ok(Priced {
            groups,
            plans,
            calls,
            of_call,
            bubble_us: bubble * timeline.micro_batch_us,
            timeline,
        })
    }

    /// The answer with ranks at these places.
    pub(super) fn answer(&mut self, places: &Places) -> Result<StepReport, StepError> {
        let Priced {
            mut groups,
            plans,
            mut calls,
            of_call,
            timeline,
            bubble_us,
        } = self.price(places)?;
        let calls_of_entries: Vec<Price> = of_call.iter().map(|at| calls[*at].price).collect();
        let planned = &self.planner.planned;
        for (at, group) in groups.iter_mut().enumerate() {
            group.memory = memory_of(at, group, &calls, &plans[at], planned)?;
        }
        measured::add(&mut calls, self.question.workload, &of_call);
        calls.sort_by(|a, b| b.all_us.total_cmp(&a.all_us));
        let hosts = self.job.hosts.iter();
        let range = [0, 1].map(|end| {
            let times = calls_of_entries.iter().map(|price| match price.range_us {
                Some(range) => range[end],
                None => price.time_us,
            });
            Timeline::of(self.question.workload, &times.collect::<Vec<_>>()).end_us + bubble_us
        });
        let calibration = self.pricer.calibration.corrections.clone();
        let measurements = self.question.measurements;
        Ok(StepReport {
            range_us: (!calibration.is_empty()).then_some(range),
            calibration,
            settings: head::settings(self.settings),
            is_measured: measurements.is_some_and(|it| !it.is_empty()),
            notes: self.question.workload.notes.clone(),
            placement: None,
            step_us: timeline.end_us + bubble_us,
            compute_us: timeline.compute_us,
            communication_us: groups.iter().map(|group| group.time_us).sum(),
            exposed_us: timeline.exposed_us,
            name: names::few(hosts.map(|it| it.name.as_str()), "+"),
            hosts: places.hosts(),
            ranks: places.ranks(),
            profile: match planned.first() {
                Some(planned) => planned.plan().profile.clone(),
                None => self.settings.rules.version().profile().to_owned(),
            },
            limits: memory::limits(groups.iter().map(|it| it.memory), self.question.room),
            groups,
            calls,
            bubble_us,
            timeline,
        })
    }

    /// The least time of each kind of a group's calls, µs: its communicator lies in the best of
    /// some forms, alone. `priced` has the kinds.
    pub(super) fn least_times(
        &mut self,
        group: usize,
        forms: &[Vec<Place>],
        priced: &Priced,
    ) -> Result<Vec<f64>, StepError> {
        let name = self.question.workload.groups[group].name.as_str();
        let mut least = Vec::new();
        for call in priced.calls.iter().filter(|it| it.kind.group == group) {
            let mut time = f64::INFINITY;
            for places in forms {
                let shape = shapes::shape(places, 1);
                // NCCL may refuse to lie so.
                let Ok(at) = self.planner.plan(name, &shape) else {
                    continue;
                };
                let plans = self.planner.get(at);
                let price = self.pricer.price(plans, at, &call.kind, (name, 1.0))?;
                time = time.min(price.time_us);
            }
            least.push(time);
        }
        Ok(least)
    }

    /// The kinds of calls with their prices, and the kind of each call.
    fn calls(
        &mut self,
        groups: &[StepGroup],
        plans: &[Vec<usize>],
    ) -> Result<(Vec<StepCall>, Vec<usize>), StepError> {
        let (mut found, mut of_call): (Vec<StepCall>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut known: HashMap<CallKind, usize> = HashMap::new();
        for call in &self.question.workload.calls {
            let kind = kind(call);
            let at = match known.get(&kind) {
                Some(at) => *at,
                None => {
                    let group = &groups[call.group];
                    let sharing = group.sharing.times(call.collective);
                    let mut worst: Option<(usize, Price)> = None;
                    for (shape, at) in plans[call.group].iter().enumerate() {
                        let of = (group.name.as_str(), sharing);
                        let plans = self.planner.get(*at);
                        let price = self.pricer.price(plans, *at, &kind, of)?;
                        if worst.is_none_or(|(_, worst)| price.time_us > worst.time_us) {
                            worst = Some((shape, price));
                        }
                    }
                    let (slowest, mut price) = worst.ok_or_else(|| StepError::NoPrice {
                        group: group.name.clone(),
                        operation: call.operation(),
                        why: "the group has no communicator; expected at least one".to_owned(),
                    })?;
                    price.slowest = slowest;
                    known.insert(kind, found.len());
                    found.push(StepCall {
                        group: group.name.clone(),
                        name: call.name.clone(),
                        kind,
                        count: 0,
                        price,
                        all_us: 0.0,
                        exposed_us: 0.0,
                        measured: None,
                    });
                    found.len() - 1
                }
            };
            let entry = &mut found[at];
            entry.count = entry.count.saturating_add(call.count);
            entry.all_us = entry.count as f64 * entry.price.time_us;
            if entry.name != call.name {
                entry.name.clear();
            }
            of_call.push(at);
        }
        Ok((found, of_call))
    }
}

/// Adds the calls of each group up.
fn add_up(groups: &mut [StepGroup], calls: &[StepCall]) {
    for call in calls {
        let group = &mut groups[call.kind.group];
        let count = call.count as f64;
        group.calls = group.calls.saturating_add(call.count);
        let bytes = call.count.saturating_mul(call.kind.bytes);
        group.bytes = group.bytes.saturating_add(bytes);
        group.time_us += call.all_us;
        group.exposed_us += call.exposed_us;
        if let Some(bound) = call.price.bound_us {
            group.bound_us += count * bound;
            group.bounded_us += call.all_us;
        }
    }
}

const fn kind(call: &Call) -> CallKind {
    CallKind {
        group: call.group,
        collective: call.collective,
        tokens: call.tokens,
        bytes: call.bytes,
        data_type: call.data_type,
        reduction: call.reduction,
    }
}

/// What the communicators of a group allocate for its calls.
fn memory_of(
    at: usize,
    group: &StepGroup,
    calls: &[StepCall],
    plans: &[usize],
    planned: &[Planned],
) -> Result<GroupMemory, plan::Error> {
    let its = || calls.iter().filter(|call| call.kind.group == at);
    let mut algorithms: Vec<Algorithm> = its().filter_map(|it| it.price.algorithm).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let is_transfer = |call: &StepCall| {
        !Collective::TUNED.contains(&call.kind.collective) && call.kind.tokens.is_none()
    };
    let peers = its().any(is_transfer);
    let plans: Vec<&Planned> = plans.iter().map(|at| &planned[*at]).collect();
    memory::of_group(&group.alike, &plans, &algorithms, peers)
}
