//! `topo doctor`: checks machines or files.

mod page;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use plan::certificate::Operation;
use planner::rings::{self, Cost};
use planner::{Job, Settings};
use probe::{Finding, checks};
use schemars::JsonSchema;
use serde::Serialize;
use topology::xml::Document;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::DoctorArguments;
use crate::environment::Environment;
use crate::groups::json::GroupRow;
use crate::groups::{self, Content, Groups, Planned};
use crate::input::{FileOrProbe, refuse_missing, why};
use crate::output::Output;
use crate::report::{self, Report};
use bounds::optimum::{self, Optimum};
pub use page::{section, table};

/// Findings with what they cost.
#[derive(Debug, Default)]
pub struct FindingReport {
    pub findings: Vec<PricedFinding>,
}

/// A finding with what it costs.
#[derive(Debug)]
pub struct PricedFinding {
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
    /// What to do.
    advice: String,
    /// Bandwidth lost by it; null if the planner cannot tell.
    cost: Option<Cost>,
    /// The files with this finding, where several were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
}

/// What `topo doctor` prints as JSON.
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

/// What limits a collective far more than the links of the machine do.
#[derive(Debug, Serialize, JsonSchema)]
struct LimitRow {
    /// The operation.
    operation: Operation,
    /// No schedule has more bus bandwidth, GB/s.
    bound_gbps: f64,
    /// What NCCL's plan reaches, GB/s.
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
    let mut all = optimum::of(&planned, &planned.plan());
    // What switches that reduce reach is a matter of their efficiency, not of the machine.
    all.retain(|it| it.share() < LOW_SHARE && it.operation != Operation::AllReduceInNetwork);
    all
}

impl Report for DoctorReport {
    const FORMAT: &'static str = "topo-doctor";
    const VERSION: u32 = 1;
}

impl FindingReport {
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
                files: Some(priced.files.clone()).filter(|files| !files.is_empty()),
            }
        };
        self.findings.iter().map(row).collect()
    }
}

/// What a finding costs, if the planner can tell.
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
struct Checked {
    file: String,
    /// The machine, or why its file cannot be read.
    content: Result<Arc<Document>, String>,
    findings: Vec<Finding>,
}

impl Checked {
    /// The machine with its findings, if it could be read.
    fn machine(&self) -> Option<(&[Finding], &Arc<Document>)> {
        let document = self.content.as_ref().ok()?;
        Some((&self.findings, document))
    }
}

/// Reads and checks all files, or this machine. Returns also whether one was probed.
fn check_all(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(Vec<Checked>, bool)> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input (-) can be read once only; expected files for the others");
    }
    let files: Vec<Option<&Path>> = match arguments.files.as_slice() {
        [] => vec![None],
        files => files.iter().map(|file| Some(file.as_path())).collect(),
    };
    files
        .iter()
        .flatten()
        .try_for_each(|file| refuse_missing(file))?;
    let mut probed = false;
    let mut checked = Vec::new();
    for file in &files {
        let subject = FileOrProbe::read(*file, &arguments.source, environment, output);
        let name = file.map_or_else(String::new, |file| file.display().to_string());
        let (findings, content) = match (subject, *file) {
            (Ok(FileOrProbe::File(machine)), _) => {
                (checks::of_document(&machine.document), Ok(machine.document))
            }
            (Ok(FileOrProbe::Probed(probe)), _) => {
                probed = true;
                (probe.findings, Ok(Arc::new(probe.document)))
            }
            (Err(problem), Some(file)) if files.len() > 1 => (Vec::new(), Err(why(file, &problem))),
            (Err(problem), _) => return Err(problem),
        };
        checked.push(Checked {
            file: name,
            content,
            findings,
        });
    }
    Ok((checked, probed))
}

pub fn run(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let (checked, probed) = check_all(arguments, environment, output)?;
    // The reader's warnings are among the findings.
    output.warnings.clear();
    let of_amd = |machine: &&Checked| {
        let document = machine.content.as_ref();
        document.is_ok_and(|document| document.is_rccl())
    };
    if let Some(machine) = checked.iter().find(of_amd) {
        output.warnings.push(format!(
            "{} is a topology of AMD's RCCL: only its devices and links are checked, nothing has a cost",
            machine.file
        ));
    }
    let settings = environment.settings(&arguments.variables, &mut output.warnings);
    if probed {
        // A probe reads the file, unlike commands that are given one.
        output
            .warnings
            .retain(|remark| !remark.starts_with("NCCL_TOPO_FILE="));
    }
    let limits = match checked.as_slice() {
        [only] => only
            .machine()
            .map(|(_, document)| limits(document, &settings)),
        _ => None,
    };
    let limits = limits.unwrap_or_default();
    let (report, groups) = match checked.as_slice() {
        [only] => {
            let machine = only.machine();
            let priced = machine.map(|(findings, document)| priced(findings, document, &settings));
            (priced.unwrap_or_default(), None)
        }
        several => (
            findings_of(several, &settings),
            Some(groups_of(several, &settings)?),
        ),
    };
    let differ = groups.as_ref().is_some_and(Groups::differ);
    output.differs = !report.findings.is_empty() || differ;
    output.text = match arguments.form.format() {
        TextOrJson::Text => {
            let text = page::page(&report, groups.as_ref(), environment.look());
            text + &page::limits(&limits, environment.look())
        }
        TextOrJson::Json => report::json(&DoctorReport {
            findings: report.rows(),
            groups: groups.map(|groups| groups.rows()),
            limits: limits
                .into_iter()
                .map(|it| LimitRow {
                    operation: it.operation,
                    bound_gbps: it.bound,
                    nccl_gbps: it.nccl,
                    border: it.limit.border,
                })
                .collect(),
        })?,
    };
    Ok(())
}

/// The findings of several machines; equal ones are one finding with its files.
fn findings_of(all: &[Checked], settings: &Settings) -> FindingReport {
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
fn groups_of(all: &[Checked], settings: &Settings) -> Result<Groups> {
    let members = all.iter().map(|machine| {
        let content = match &machine.content {
            Ok(document) => Content::Machine(Arc::clone(document)),
            Err(why) => Content::Unreadable(why.clone()),
        };
        (machine.file.clone(), content)
    });
    let members: Vec<(String, Content)> = members.collect();
    groups::refuse_unreadable(&members)?;
    let plan = |content: &Content| -> Planned {
        match content {
            Content::Plan(plan) => Ok(plan.clone()),
            Content::Unreadable(why) => Err(why.clone()),
            Content::Machine(document) => {
                match planner::plan(&Job::hosts(Arc::clone(document), 1), settings) {
                    Ok(planned) => Ok(Box::new(planned.plan())),
                    Err(problem) => Err(problem.to_string()),
                }
            }
        }
    };
    Groups::of(members, settings, plan)
}
