//! The effects of a job's settings: refusals by NCCL, settings that hide others or change nothing
//! here, and other readings in other versions. Each is found by planning without it.

mod page;
mod report;
mod verdict;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use plan::{Plan, Setting, compare};
use planner::memory::MemorySettings;
use planner::settings::{SettingEffect, effect, is_known_to, number};
use planner::{Job, NcclVersion, Settings};
use program::Collective;

pub use report::{SettingFinding, SettingsReport};
pub use verdict::Verdict;

/// Sizes for which choices are compared, bytes.
const SIZES: [u64; 8] = [
    1 << 10,
    16 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    32 << 20,
    256 << 20,
    1 << 30,
];

/// Bytes of a chunk from which `NCCL_CHUNK_SIZE` gives wrong data. Source: NVIDIA/nccl issue 2408.
const WRONG_CHUNK: i64 = 1 << 20;

/// Most settings of which each is tried as the one that hides another.
const MOST_HIDERS: usize = 16;

/// Most plans of a job. Settings that may be hidden are no longer searched for others from then on.
const MOST_PLANS: usize = 400;

/// The variables that leave algorithms, protocols and kernels out.
const RESTRICTING: [&str; 3] = ["NCCL_ALGO", "NCCL_PROTO", "NCCL_SYM_KERNEL"];

/// A variable and its value.
pub type Variable = (String, String);

/// A job under some of its settings.
struct Checker<'a> {
    job: &'a Job,
    settings: &'a Settings,
    plans: Cell<usize>,
}

/// The plan under some settings, or why NCCL does not start.
type Outcome = Result<Plan, String>;

/// The job cannot be planned, whatever its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the job cannot be planned without settings, either: {0}")]
pub struct PlanRefusal(String);

/// Checks the settings of a job.
///
/// # Errors
/// The job cannot be planned without settings.
pub fn settings(job: &Job, settings: &Settings) -> Result<SettingsReport, PlanRefusal> {
    let checker = Checker::new(job, settings);
    let (mut findings, whole) = checker.findings()?;
    if let Some(whole) = whole {
        findings.extend(checker.of_versions(&whole));
    }
    let names: Vec<&str> = job.hosts.iter().map(|it| it.name.as_str()).collect();
    let given = settings.in_force.iter();
    let given = given.map(|(name, value)| Setting {
        name: name.clone(),
        value: value.clone(),
    });
    Ok(SettingsReport {
        name: names.join("+"),
        nccl: settings.rules.version().name().to_owned(),
        given: given.collect(),
        fine: !findings.iter().any(|it| it.verdict.is_fault()),
        findings: sorted(findings),
        plans: checker.plans.get(),
    })
}

/// The settings of a job that somebody should look at: what NCCL refuses, misreads or hides, what
/// decides nothing here, and what is not modelled.
///
/// # Errors
/// The job cannot be planned without settings.
pub fn doubtful(job: &Job, settings: &Settings) -> Result<Vec<SettingFinding>, PlanRefusal> {
    if settings.in_force.is_empty() {
        return Ok(Vec::new());
    }
    let (mut findings, _) = Checker::new(job, settings).findings()?;
    findings.retain(|it| {
        let deciding = |name: &String| effect(name) != Some(SettingEffect::Nothing);
        match it.verdict {
            Verdict::NotModelled => true,
            Verdict::NoEffect => it.names.iter().all(deciding),
            verdict => verdict.is_fault(),
        }
    });
    Ok(sorted(findings))
}

/// Findings, the worst first.
fn sorted(mut findings: Vec<SettingFinding>) -> Vec<SettingFinding> {
    findings.sort_by(|a, b| (a.verdict, &a.names).cmp(&(b.verdict, &b.names)));
    findings
}

impl<'a> Checker<'a> {
    const fn new(job: &'a Job, settings: &'a Settings) -> Self {
        Self {
            job,
            settings,
            plans: Cell::new(0),
        }
    }
}

impl Checker<'_> {
    /// Other settings of the job. Leaves unknown variables out: they decide nothing, and a search
    /// for names like theirs in each plan would take longer than the plans.
    fn settings(&self, version: NcclVersion, variables: &[Variable]) -> Settings {
        let known = variables.iter().filter(|(name, _)| effect(name).is_some());
        let mut other = Settings::with_variables(version, known.cloned());
        if other.graph_file.is_some() {
            other.graphs.clone_from(&self.settings.graphs);
        }
        other
    }

    /// Whether variables decide the same, so that they need no plan of their own.
    fn decide_alike(&self, one: &[Variable], other: &[Variable]) -> bool {
        let version = self.settings.rules.version();
        let [one, other] = [one, other].map(|it| self.settings(version, it));
        one.decides_as(&other)
    }

    /// The plan of the job under other settings.
    fn plan(&self, version: NcclVersion, variables: &[Variable]) -> Outcome {
        self.plans.update(|it| it + 1);
        let other = self.settings(version, variables);
        let planned = planner::plan(self.job, &other);
        let planned = planned.map(|planned| planned.plan().clone());
        planned.map_err(|error| error.to_string())
    }

    /// The names of all settings.
    fn all(&self) -> Vec<String> {
        let all = self.settings.in_force.iter();
        all.map(|(name, _)| name.clone()).collect()
    }

    /// The names of those that leave algorithms, protocols and kernels out.
    fn restricting(&self) -> Vec<String> {
        let mut names = self.all();
        names.retain(|name| RESTRICTING.contains(&name.as_str()));
        names
    }

    /// All settings but one.
    fn without(&self, name: &str) -> Vec<Variable> {
        let all = self.settings.in_force.iter();
        all.filter(|(known, _)| known != name).cloned().collect()
    }

    /// What this version makes of the settings, and the plan under them if there are any.
    fn findings(&self) -> Result<(Vec<SettingFinding>, Option<Outcome>), PlanRefusal> {
        let version = self.settings.rules.version();
        let none = self.plan(version, &[]).map_err(PlanRefusal)?;
        if self.settings.in_force.is_empty() {
            return Ok((Vec::new(), None));
        }
        let whole = self.plan(version, &self.settings.in_force);
        let mut findings = self.of_notes(whole.as_ref().ok());
        let given = self.settings.in_force.iter();
        findings.extend(given.filter_map(|(name, _)| self.danger(name)));
        let given = self.settings.in_force.iter();
        let deciding: Vec<&Variable> = given
            .filter(|(name, _)| {
                matches!(
                    effect(name),
                    Some(SettingEffect::Search | SettingEffect::Joining | SettingEffect::Cost)
                )
            })
            .collect();
        let noted: BTreeSet<String> = findings.iter().flat_map(|it| it.names.clone()).collect();
        match &whole {
            Err(why) => findings.extend(self.of_refusal(&deciding, why)),
            Ok(plan) => {
                let refused = refused_collectives(plan);
                findings.extend(self.of_calls(&refused));
                let quiet = deciding.iter().filter(|(name, _)| !noted.contains(name));
                for variable in quiet {
                    findings.extend(self.of_effect(variable, plan, &none));
                }
            }
        }
        Ok((findings, Some(whole)))
    }

    /// Notes of the reader of settings, and variables that are no part of a plan. A value of which
    /// NVLink SHARP dies does nothing in a plan without it.
    fn of_notes(&self, plan: Option<&Plan>) -> Vec<SettingFinding> {
        let costs = plan.and_then(|it| it.costs.as_ref());
        let lacks_nvls = costs.is_some_and(|it| it.job.nvls.is_none());
        let version = self.settings.rules.version();
        let mut findings = Vec::new();
        for (name, _) in &self.settings.in_force {
            let notes = self.settings.notes.iter().filter(|note| note.name == *name);
            let is_fatal = notes.clone().any(|note| note.is_fatal);
            let texts: Vec<&str> = notes.map(|note| note.message.as_str()).collect();
            let (verdict, text) = match effect(name) {
                None => (Verdict::Unknown, texts.join("; ")),
                Some(SettingEffect::NotModelled(_)) => (Verdict::NotModelled, texts.join("; ")),
                Some(SettingEffect::Nothing) => (
                    Verdict::NoEffect,
                    "is not read by any decision of a plan".to_owned(),
                ),
                Some(SettingEffect::Memory) => self.of_memory(name),
                Some(_) if !is_known_to(name, version) => (Verdict::Unknown, texts.join("; ")),
                Some(_) if is_fatal && lacks_nvls && name.starts_with("NCCL_NVLS") => continue,
                Some(_) if is_fatal => (Verdict::Refused, texts.join("; ")),
                Some(_) if !texts.is_empty() => (Verdict::Misread, texts.join("; ")),
                Some(_) => continue,
            };
            findings.push(SettingFinding {
                names: vec![name.clone()],
                verdict,
                text,
            });
        }
        findings
    }

    /// The change of memory by a setting that changes nothing else.
    fn of_memory(&self, name: &str) -> (Verdict, String) {
        let without = self.settings(self.settings.rules.version(), &self.without(name));
        match MemorySettings::of(&without) == MemorySettings::of(self.settings) {
            true => (
                Verdict::NoEffect,
                "changes no memory: communicators allocate the same without it".to_owned(),
            ),
            false => (
                Verdict::Decides,
                "changes the memory of communicators, and no choice".to_owned(),
            ),
        }
    }

    /// Why data can be wrong with a setting.
    fn danger(&self, name: &str) -> Option<SettingFinding> {
        let mut all = self.settings.in_force.iter();
        let (name, value) = all.find(|(known, _)| known == name && name == "NCCL_CHUNK_SIZE")?;
        let bytes = number(self.settings.rules.version(), value)?;
        (bytes >= WRONG_CHUNK).then(|| SettingFinding {
            names: vec![name.clone()],
            verdict: Verdict::Dangerous,
            text: "chunks of 1 MiB and more were seen to give wrong data; leave it unset"
                .to_owned(),
        })
    }

    /// Which settings NCCL does not start with.
    fn of_refusal(&self, deciding: &[&Variable], why: &str) -> Vec<SettingFinding> {
        let version = self.settings.rules.version();
        let starts = |name: &str| self.plan(version, &self.without(name)).is_ok();
        let guilty = deciding.iter().filter(|(name, _)| starts(name));
        let guilty: Vec<String> = guilty.map(|(name, _)| name.clone()).collect();
        let at_fault = match guilty.is_empty() {
            true => deciding.iter().map(|(name, _)| name.clone()).collect(),
            false => guilty,
        };
        vec![SettingFinding {
            names: at_fault,
            verdict: Verdict::Refused,
            text: format!("NCCL does not start: {why}"),
        }]
    }

    /// Settings that leave collectives nothing.
    fn of_calls(&self, refused: &[Collective]) -> Option<SettingFinding> {
        if refused.is_empty() {
            return None;
        }
        Some(SettingFinding {
            names: self.restricting(),
            verdict: Verdict::Refused,
            text: format!(
                "leaves no algorithm and protocol for {}: NCCL starts, and refuses the first call",
                list(refused)
            ),
        })
    }

    /// The change by a setting.
    fn of_effect(
        &self,
        (name, value): &Variable,
        plan: &Plan,
        none: &Plan,
    ) -> Option<SettingFinding> {
        let version = self.settings.rules.version();
        let finding = |verdict, text| {
            Some(SettingFinding {
                names: vec![name.clone()],
                verdict,
                text,
            })
        };
        let others = self.without(name);
        let nothing = || {
            finding(
                Verdict::NoEffect,
                "changes nothing in this job: NCCL decides the same without it".to_owned(),
            )
        };
        if self.decide_alike(&others, &self.settings.in_force) {
            return nothing();
        }
        let without = match self.plan(version, &others) {
            Ok(without) => without,
            Err(why) => {
                let text = format!("without it NCCL does not start: {why}");
                return finding(Verdict::Decides, text);
            }
        };
        if let Some(changes) = changes(&without, plan) {
            return finding(Verdict::Decides, changes);
        }
        // Another setting hides what this one would change alone.
        let variable = (name.clone(), value.clone());
        let alone = self.plan(version, std::slice::from_ref(&variable));
        let works_alone = alone.is_ok_and(|alone| changes(none, &alone).is_some());
        if !works_alone {
            return nothing();
        }
        let hides = |hider: &str| {
            let rest: Vec<Variable> = others
                .iter()
                .filter(|(it, _)| it != hider)
                .cloned()
                .collect();
            let mut with = rest.clone();
            with.push(variable.clone());
            match (self.plan(version, &rest), self.plan(version, &with)) {
                (Ok(rest), Ok(with)) => changes(&rest, &with).is_some(),
                _ => false,
            }
        };
        let mut hiders = others.iter().take(MOST_HIDERS);
        let hider = hiders.find(|(hider, _)| self.plans.get() < MOST_PLANS && hides(hider));
        finding(
            Verdict::Hidden,
            match hider {
                Some((hider, _)) => format!("changes nothing beside {hider}"),
                None => "changes nothing beside the others".to_owned(),
            },
        )
    }

    /// Settings that other versions refuse and this one takes, or the reverse.
    fn of_versions(&self, whole: &Outcome) -> Vec<SettingFinding> {
        let own = Start::of(whole);
        let mut others: Vec<(Start, Vec<&str>)> = Vec::new();
        for version in NcclVersion::ALL {
            if version == self.settings.rules.version() {
                continue;
            }
            let other = Start::of(&self.plan(version, &self.settings.in_force));
            let is_taken = other == Start::Succeeds;
            if other == own || !is_taken && other == Start::of(&self.plan(version, &[])) {
                continue;
            }
            match others.iter_mut().find(|(known, _)| *known == other) {
                Some((_, versions)) => versions.push(version.minor()),
                None => others.push((other, vec![version.minor()])),
            }
        }
        let findings = others.into_iter().map(|(start, versions)| SettingFinding {
            names: match (whole, &start) {
                (Err(_), _) | (_, Start::Fails(_)) => self.all(),
                _ => self.restricting(),
            },
            verdict: Verdict::OtherVersions,
            text: format!("NCCL {} {start}", versions.join(", ")),
        });
        findings.collect()
    }
}

/// What NCCL makes of settings.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    Fails(String),
    /// It starts, and refuses these collectives.
    Refuses(Vec<Collective>),
    Succeeds,
}

impl Start {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Err(why) => Self::Fails(why.clone()),
            Ok(plan) => match refused_collectives(plan) {
                refused if refused.is_empty() => Self::Succeeds,
                refused => Self::Refuses(refused),
            },
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(why) => write!(formatter, "does not start: {why}"),
            Self::Refuses(refused) => write!(formatter, "refuses {}", list(refused)),
            Self::Succeeds => formatter.write_str("takes them"),
        }
    }
}

fn list(collectives: &[Collective]) -> String {
    let names: Vec<_> = collectives.iter().map(|it| it.name()).collect();
    names.join(", ")
}

/// The collectives for which nothing is left.
fn refused_collectives(plan: &Plan) -> Vec<Collective> {
    let Some(costs) = plan.costs.as_ref().filter(|_| plan.rank_count() > 1) else {
        return Vec::new();
    };
    let all = Collective::TUNED.into_iter();
    all.filter(|it| SIZES.iter().any(|bytes| costs.choose(*it, *bytes).is_err()))
        .collect()
}

/// The differences between the plans without and with a setting; `None` if there are none.
fn changes(without: &Plan, with: &Plan) -> Option<String> {
    let Ok(comparison) = compare::compare(without, with, &SIZES) else {
        return Some("the plans cannot be compared".to_owned());
    };
    if comparison.is_empty() {
        return None;
    }
    let (facts, choices) = (comparison.facts.len(), comparison.choices.len());
    let number = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        more => Some(format!("{more} {what}s")),
    };
    let parts = [number(facts, "value"), number(choices, "choice")];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    Some(format!("changes {} of the plan", parts.join(" and ")))
}
