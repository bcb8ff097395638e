//! Faults of machines, and their costs.

use std::sync::Arc;

use crate::JsonSchema;
use bounds::optimum::{self, Optimum};
use findings::Finding;
use plan::certificate::Operation;
use planner::rings::{self, Cost};
use planner::{Job, Settings};
use serde::Serialize;
use topology::xml::Document;

use crate::groups::json::GroupRow;
use crate::groups::{self, Content, Groups, GroupsError, PlanOrReason};
use crate::report::Report;

/// Findings with what they cost.
#[derive(Debug, Default)]
pub struct FindingReport {
    /// The findings.
    pub findings: Vec<PricedFinding>,
}

/// A finding with what it costs.
#[derive(Debug)]
pub struct PricedFinding {
    /// The finding.
    pub finding: Finding,
    /// On the first of the files.
    pub cost: Option<Cost>,
    /// The files with this finding, where several were checked.
    pub files: Vec<String>,
}

/// A finding.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FindingRow {
    /// The id of its rule, such as `T001`; ids never change.
    id: String,
    /// The problem, in a few words.
    title: &'static str,
    /// The affected devices in short: the first, and the number of others.
    device: String,
    /// All affected devices.
    devices: Vec<String>,
    /// The value found.
    seen: String,
    /// The expected value.
    expected: String,
    /// Advice.
    advice: String,
    /// Bandwidth lost by it; null if the planner cannot tell.
    cost: Option<Cost>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<String>,
    /// The files with this finding, where several were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
}

/// Faults of machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    findings: Vec<FindingRow>,
    /// The files in groups of equal machines, where several were checked; the first group is the
    /// reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupRow>>,
    /// Collectives of which NCCL's plan for the machine reaches less than 70 % of what its links
    /// allow, where one machine was checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitRow>,
}

/// A limit of a collective far below that of the machine's links.
#[derive(Debug, Serialize, JsonSchema)]
struct LimitRow {
    /// The operation.
    operation: Operation,
    /// No schedule has more bus bandwidth, GB/s.
    bound_gbps: f64,
    /// Bandwidth of NCCL's plan, GB/s.
    nccl_gbps: f64,
    /// The border that data must cross.
    border: String,
}

/// Below this share of the bound a plan is reported.
const LOW_SHARE: f64 = 0.7;

/// The operations of which NCCL's plan for a machine reaches little.
fn limits(document: &Arc<Document>, settings: &Settings) -> Vec<Optimum> {
    let job = Job::hosts(Arc::clone(document), 1);
    let Ok(planned) = planner::plan(&job, settings) else {
        return Vec::new();
    };
    let mut all = optimum::of(&planned);
    // What switches that reduce reach is a matter of their efficiency, not of the machine.
    all.retain(|it| it.share() < LOW_SHARE && it.operation != Operation::AllReduceInNetwork);
    all
}

impl Report for DoctorReport {
    const FORMAT: &'static str = "topo-doctor";
    const VERSION: u32 = 1;
}

impl FindingReport {
    /// The findings for JSON.
    pub fn rows(&self) -> Vec<FindingRow> {
        let row = |priced: &PricedFinding| {
            let finding = &priced.finding;
            FindingRow {
                id: finding.rule.id(),
                title: finding.rule.title(),
                device: finding.device(),
                devices: finding.devices.clone(),
                seen: finding.seen.clone(),
                expected: finding.expected.clone(),
                advice: finding.advice.clone(),
                cost: priced.cost,
                costs: priced.cost.as_ref().map(ToString::to_string),
                files: Some(priced.files.clone()).filter(|files| !files.is_empty()),
            }
        };
        self.findings.iter().map(row).collect()
    }
}

/// The cost of a finding, if the planner can tell.
fn cost(finding: &Finding, document: &Arc<Document>, settings: &Settings) -> Option<Cost> {
    let (now, mended) = finding.effect.states(document)?;
    rings::cost(&now, &mended, settings)
}

/// Findings with their costs.
pub fn priced(
    findings: &[Finding],
    document: &Arc<Document>,
    settings: &Settings,
) -> FindingReport {
    let priced = findings.iter().map(|finding| PricedFinding {
        cost: cost(finding, document, settings),
        finding: finding.clone(),
        files: Vec::new(),
    });
    FindingReport {
        findings: priced.collect(),
    }
}

/// A checked machine.
#[derive(Debug)]
pub struct CheckedMachine {
    /// The name of its file.
    pub file: String,
    /// The machine, or why its file cannot be read.
    pub content: Result<Arc<Document>, String>,
    /// Its faults.
    pub findings: Vec<Finding>,
}

impl CheckedMachine {
    /// The machine with its findings, if it could be read.
    fn machine(&self) -> Option<(&[Finding], &Arc<Document>)> {
        let document = self.content.as_ref().ok()?;
        Some((&self.findings, document))
    }
}

/// Faults of machines.
#[derive(Debug)]
pub struct DoctorAnswer {
    /// The findings.
    pub report: FindingReport,
    /// The machines in groups of equal ones, if there are several.
    pub groups: Option<Groups>,
    /// The operations of which NCCL's plan reaches little, if there is one machine.
    pub limits: Vec<Optimum>,
}

/// Prices what is wrong with machines, and groups them.
///
/// # Errors
/// There are several machines, and none can be read.
pub fn doctor(
    checked: &[CheckedMachine],
    settings: &Settings,
) -> Result<DoctorAnswer, GroupsError> {
    let [only] = checked else {
        return Ok(DoctorAnswer {
            report: findings_of(checked, settings),
            groups: Some(groups_of(checked, settings)?),
            limits: Vec::new(),
        });
    };
    let machine = only.machine();
    let report = machine.map(|(findings, document)| priced(findings, document, settings));
    Ok(DoctorAnswer {
        report: report.unwrap_or_default(),
        groups: None,
        limits: machine.map_or_else(Vec::new, |(_, document)| limits(document, settings)),
    })
}

impl DoctorAnswer {
    /// Whether something is wrong, or machines differ.
    pub fn differs(&self) -> bool {
        let differ = self.groups.as_ref().is_some_and(Groups::differ);
        !self.report.findings.is_empty() || differ
    }
}

impl DoctorReport {
    /// The answer.
    pub fn of(answer: &DoctorAnswer) -> Self {
        let limit = |it: &Optimum| LimitRow {
            operation: it.operation,
            bound_gbps: it.bound,
            nccl_gbps: it.nccl,
            border: it.limit.border.clone(),
        };
        Self {
            findings: answer.report.rows(),
            groups: answer.groups.as_ref().map(Groups::rows),
            limits: answer.limits.iter().map(limit).collect(),
        }
    }
}

/// The findings of several machines; equal ones are one finding with its files.
fn findings_of(all: &[CheckedMachine], settings: &Settings) -> FindingReport {
    let mut found: Vec<PricedFinding> = Vec::new();
    for machine in all {
        let Some((findings, document)) = machine.machine() else {
            continue;
        };
        for finding in findings {
            let same = |known: &&mut PricedFinding| {
                let other = &known.finding;
                (other.rule, &other.devices, &other.seen, &other.expected)
                    == (
                        finding.rule,
                        &finding.devices,
                        &finding.seen,
                        &finding.expected,
                    )
            };
            match found.iter_mut().find(same) {
                Some(known) => known.files.push(machine.file.clone()),
                None => found.push(PricedFinding {
                    cost: cost(finding, document, settings),
                    finding: finding.clone(),
                    files: vec![machine.file.clone()],
                }),
            }
        }
    }
    found.sort_by_key(|priced| priced.finding.rule);
    FindingReport { findings: found }
}

/// The machines in groups of equal ones, each planned as a job of one host.
fn groups_of(all: &[CheckedMachine], settings: &Settings) -> Result<Groups, GroupsError> {
    let members = all.iter().map(|machine| {
        let content = match &machine.content {
            Ok(document) => Content::Machine(Arc::clone(document)),
            Err(why) => Content::Unreadable(why.clone()),
        };
        (machine.file.clone(), content)
    });
    let members: Vec<(String, Content)> = members.collect();
    groups::refuse_unreadable(&members)?;
    let plan = |content: &Content| -> PlanOrReason {
        match content {
            Content::Plan(plan) => Ok(plan.clone()),
            Content::Unreadable(why) => Err(why.clone()),
            Content::Machine(document) => {
                match planner::plan(&Job::hosts(Arc::clone(document), 1), settings) {
                    Ok(planned) => Ok(planned.plan().clone()),
                    Err(problem) => Err(problem.to_string()),
                }
            }
        }
    };
    Groups::of(members, settings, plan)
}
