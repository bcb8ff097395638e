//! Faults of machines, and their costs.

mod dcgm;
mod page;

use std::sync::Arc;

use crate::JsonSchema;
use bounds::optimum::{self, Optimum};
use findings::check::Verdict;
use findings::{Check, Finding, Maturity, Rule, Teller};
use pages::Page;
use plan::certificate::Operation;
use planner::{Job, Settings};
use serde::Serialize;
use topology::xml::{Document, Element, Tag};

use crate::diff::groups::{self, Content, Groups, GroupsError, PlanOrReason};
use crate::report::Report;
use crate::ring_price::{self, Cost};
pub use page::{Advice, findings};

/// A finding with what it costs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PricedFinding {
    /// The id of its rule, such as `T001`; ids never change.
    pub id: String,
    /// The problem, in a few words.
    pub title: &'static str,
    /// The affected devices in short: the first, and the number of others.
    pub device: String,
    /// All affected devices.
    pub devices: Vec<String>,
    /// The value found.
    pub seen: String,
    /// The expected value.
    pub expected: String,
    /// Advice.
    pub advice: String,
    /// Bandwidth lost by it; null if the planner cannot tell.
    pub cost: Option<Cost>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    /// The files with this finding, where several were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// Its rule.
    #[serde(skip)]
    pub rule: Rule,
}

/// Faults of machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// The findings.
    pub findings: Vec<PricedFinding>,
    /// What was checked, and what came of it.
    pub checks: Vec<Check>,
    /// The files in groups of equal machines, where several were checked; the first group is the
    /// reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// Collectives of which NCCL's plan for the machine reaches less than 70 % of what its links
    /// allow, where one machine was checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LowShare>,
}

/// A limit of a collective far below that of the machine's links.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LowShare {
    /// The operation.
    pub operation: Operation,
    /// No schedule has more bus bandwidth, GB/s.
    pub bound_gbps: f64,
    /// Bandwidth of NCCL's plan, GB/s.
    pub nccl_gbps: f64,
    /// The border that data must cross.
    pub border: String,
    /// The same in a sentence.
    #[serde(skip)]
    sentence: String,
}

/// Below this share of the bound a plan is reported.
const LOW_SHARE: f64 = 0.7;

/// The operations of which NCCL's plan for a machine reaches little.
fn limits(document: &Arc<Document>, settings: &Settings) -> Vec<LowShare> {
    let job = Job::hosts(Arc::clone(document), 1);
    let Ok(planned) = planner::plan(&job, settings) else {
        return Vec::new();
    };
    // What switches that reduce reach is a matter of their efficiency, not of the machine.
    let is_low =
        |it: &Optimum| it.share() < LOW_SHARE && it.operation != Operation::AllReduceInNetwork;
    let low = optimum::of(&planned).into_iter().filter(is_low);
    low.map(LowShare::of).collect()
}

impl Report for DoctorReport {
    const FORMAT: &'static str = "topo-doctor";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page(&|rule| rule.advice().into()))
    }
}

impl PricedFinding {
    fn of(finding: &Finding, cost: Option<Cost>) -> Self {
        Self {
            id: finding.rule.id(),
            title: finding.rule.title(),
            device: finding.device(),
            devices: finding.devices.clone(),
            seen: finding.seen.clone(),
            expected: finding.expected.clone(),
            advice: finding.advice.clone(),
            cost,
            costs: cost.as_ref().map(ToString::to_string),
            files: None,
            rule: finding.rule,
        }
    }

    /// The files with this finding, where several were checked.
    fn files(&self) -> &[String] {
        self.files.as_deref().unwrap_or_default()
    }
}

/// The cost of a finding, if the planner can tell.
fn cost(finding: &Finding, document: &Arc<Document>, settings: &Settings) -> Option<Cost> {
    let (now, mended) = finding.effect.states(document)?;
    ring_price::cost(&now, &mended, settings)
}

/// Findings with their costs.
pub fn priced(
    findings: &[Finding],
    document: &Arc<Document>,
    settings: &Settings,
) -> Vec<PricedFinding> {
    let findings = findings.iter();
    let priced = findings.map(|it| PricedFinding::of(it, cost(it, document, settings)));
    priced.collect()
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
    /// It was probed, or recorded by a probe; others are files.
    pub is_probed: bool,
    /// Whether the config space of a bridge above a GPU or a port could be read; none if there is
    /// no such bridge, or it is not probed.
    pub are_bridges_read: Option<bool>,
}

impl CheckedMachine {
    /// The machine with its findings, if it could be read.
    fn machine(&self) -> Option<(&[Finding], &Arc<Document>)> {
        let document = self.content.as_ref().ok()?;
        Some((&self.findings, document))
    }
}

/// Prices what is wrong with machines, and groups them.
///
/// # Errors
/// There are several machines, and none can be read.
pub fn doctor(
    checked: &[CheckedMachine],
    settings: &Settings,
) -> Result<DoctorReport, GroupsError> {
    let [only] = checked else {
        let groups = groups_of(checked, settings)?;
        return Ok(DoctorReport {
            checks: checks(checked, Some(&groups)),
            groups: Some(groups),
            findings: findings_of(checked, settings),
            limits: Vec::new(),
        });
    };
    let machine = only.machine();
    let findings = machine.map(|(findings, document)| priced(findings, document, settings));
    Ok(DoctorReport {
        findings: findings.unwrap_or_default(),
        checks: checks(checked, None),
        groups: None,
        limits: machine.map_or_else(Vec::new, |(_, document)| limits(document, settings)),
    })
}

/// Rules that compare devices of a file with equal ones beside them.
const TWINS: [Rule; 5] = [
    Rule::Width,
    Rule::Speed,
    Rule::NvlinkMissing,
    Rule::PortSlow,
    Rule::DirectAccess,
];

/// What was checked on machines: each rule, and whether they are alike and readable.
fn checks(all: &[CheckedMachine], groups: Option<&Groups>) -> Vec<Check> {
    let of = |file: &str| match all {
        [_] => String::new(),
        _ => format!(" of {file}"),
    };
    let machines: Vec<&CheckedMachine> = all.iter().filter(|it| it.content.is_ok()).collect();
    let mut checks = Vec::new();
    for rule in Rule::ALL {
        let new = |looked_at: String, is_probed: bool| {
            let (expected, proof) = rule.evidence();
            let maturity = match is_probed || !TWINS.contains(&rule) {
                true => Maturity::Modelled,
                false => Maturity::Guessed,
            };
            Check::new(rule.id(), looked_at, maturity).expects(expected, proof)
        };
        let before = checks.len();
        for machine in &machines {
            for it in machine.findings.iter().filter(|it| it.rule == rule) {
                let what = format!("{}: {}{}", rule.subject(), it.device(), of(&machine.file));
                let mut found = new(what, machine.is_probed).judged(false, &it.seen);
                found.expected.clone_from(&it.expected);
                checks.push(match rule.is_unknown() {
                    true => found.unknown(format!("{}: {}", rule.title(), it.seen)),
                    false => found,
                });
            }
        }
        if checks.len() > before {
            continue;
        }
        // Of equally unknown machines the first one says why.
        let untold: Vec<Verdict> = machines.iter().filter_map(|it| it.untold(rule)).collect();
        let told = machines.len() - untold.len();
        let what = match machines.as_slice() {
            [only] => format!("{}{}", rule.subject(), of(&only.file)),
            _ => format!("{} of {told} machines", rule.subject()),
        };
        let mut passed = new(what, machines.iter().all(|it| it.is_probed));
        if told == 0 {
            passed.verdict = untold.into_iter().next().unwrap_or(Verdict::Pass);
        }
        checks.push(passed);
    }
    let unread = || all.iter().filter(|it| it.content.is_err());
    let more = match unread().count() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    for it in all {
        if let (Err(why), Some(first)) = (&it.content, unread().next()) {
            let mut unread = Check::new("readable", &it.file, Maturity::Modelled);
            unread.seen.clone_from(why);
            checks.push(unread.unknown(format!("{}{more}: it cannot be read", first.file)));
        }
    }
    // That there is no driver is why other checks are unknown.
    let no_driver = Rule::NoDriver.id();
    checks.sort_by_key(|it| it.id != no_driver || !matches!(it.verdict, Verdict::Unknown(_)));
    if let Some(groups) = groups {
        let read = || groups.all.iter().filter(|it| it.cannot_be_read.is_none());
        let seen = format!("different kinds of machines: {}", read().count());
        let what = format!("all machines: {}", machines.len());
        let alike = Check::new("alike", what, Maturity::Modelled);
        let alike = alike.expects("no difference that a job notices", "topo diff");
        checks.push(match machines.len() {
            0 | 1 => alike.skipped("fewer than two machines can be compared"),
            _ => alike.judged(!read().any(|it| it.noticed), seen),
        });
    }
    checks
}

impl CheckedMachine {
    /// Why a rule without findings was not checked.
    fn untold(&self, rule: Rule) -> Option<Verdict> {
        let has = |rules: &[Rule]| self.findings.iter().any(|it| rules.contains(&it.rule));
        let explained = match rule {
            Rule::Merged => has(&[Rule::PortDown, Rule::PortSlow, Rule::VirtualFunction]),
            Rule::NarrowNic if self.is_probed => {
                has(&[Rule::Width, Rule::Speed, Rule::ImpossibleLink])
            }
            _ => false,
        };
        let skipped = |why: &str| Some(Verdict::Skipped(why.to_owned()));
        match (self.is_probed, rule.told()) {
            _ if explained => skipped("other findings explain it"),
            (false, (false, _)) => skipped("a file does not say it"),
            (true, (_, None)) => skipped("it is about files"),
            _ if rule == Rule::NoAnswer && has(&[Rule::NoDriver]) => {
                Some(Verdict::Unknown("there is no driver".to_owned()))
            }
            (true, _) if rule == Rule::AccessControl && self.are_bridges_read == Some(false) => {
                Some(Verdict::Unknown("config space needs root".to_owned()))
            }
            (true, _) if rule == Rule::AccessControl && self.are_bridges_read.is_none() => {
                skipped("there are no bridges above GPUs and NICs")
            }
            (true, (_, Some(Teller::Driver))) if has(&[Rule::NoDriver, Rule::NoAnswer]) => {
                Some(Verdict::Unknown("the driver did not say it".to_owned()))
            }
            _ => {
                let root = &self.content.as_ref().ok()?.root;
                let (tag, why) = rule.subject_elements()?;
                (!has_element(root, tag)).then(|| Verdict::Skipped(why.to_owned()))
            }
        }
    }
}

/// Whether an element of this kind is at or below another.
fn has_element(at: &Element, tag: Tag) -> bool {
    at.tag == tag || at.children.iter().any(|it| has_element(it, tag))
}

/// The findings of several machines; equal ones are one finding with its files.
fn findings_of(all: &[CheckedMachine], settings: &Settings) -> Vec<PricedFinding> {
    let mut found: Vec<PricedFinding> = Vec::new();
    for machine in all {
        let Some((findings, document)) = machine.machine() else {
            continue;
        };
        for finding in findings {
            let same = |known: &PricedFinding| {
                known.rule == finding.rule
                    && known.devices == finding.devices
                    && (&known.seen, &known.expected) == (&finding.seen, &finding.expected)
            };
            let at = found.iter().position(same).unwrap_or(found.len());
            if at == found.len() {
                let cost = cost(finding, document, settings);
                found.push(PricedFinding::of(finding, cost));
            }
            let files = found[at].files.get_or_insert_with(Vec::new);
            files.push(machine.file.clone());
        }
    }
    found.sort_by_key(|it| it.rule);
    found
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
