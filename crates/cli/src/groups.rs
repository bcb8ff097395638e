//! Groups of equal machines among many files: which one is odd, and in what.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use plan::{Comparison, Plan, compare};
use planner::Settings;
use schemars::JsonSchema;
use serde::Serialize;
use topology::differences::{Inventory, MachineDifference, Property, canonical};
use topology::xml::Document;

use crate::render::what_if::shorten;
use crate::rings::{Cost, MachineRings};

/// Most devices of an order that are told.
const ORDERED: usize = 6;

/// A machine or a plan of a file.
#[derive(Debug, Clone)]
pub enum Content {
    Machine(Arc<Document>),
    Plan(Box<Plan>),
}

/// The plan of a machine, or why there is none.
pub type Planned = Result<Box<Plan>, String>;

/// Equal machines.
#[derive(Debug)]
pub struct Group {
    /// Their files, in the order given.
    pub files: Vec<String>,
    /// How they differ from the reference.
    pub differences: Vec<MachineDifference>,
    /// Whether a job would notice a difference.
    pub noticed: bool,
    /// Why they cannot be planned.
    pub problem: Option<String>,
    /// Bandwidth lost against the reference, if a job notices the difference.
    pub cost: Option<Cost>,
    /// The plans of the reference and of these, if nothing else tells how they differ.
    pub plans: Option<Box<(Plan, Plan, Comparison)>>,
}

/// The files of a command in groups; the first, the reference, is the largest.
#[derive(Debug)]
pub struct Groups(pub Vec<Group>);

/// Machines that NCCL cannot tell apart.
struct Equal {
    files: Vec<String>,
    content: Content,
    inventory: Option<Inventory>,
    planned: Planned,
}

impl Groups {
    /// Groups files. `plan` is called once for machines that NCCL cannot tell apart.
    pub fn of(
        members: Vec<(String, Content)>,
        settings: &Settings,
        mut plan: impl FnMut(&Content) -> Planned,
    ) -> Result<Self, plan::Error> {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut all: Vec<Equal> = Vec::new();
        for (file, content) in members {
            let key = match &content {
                Content::Machine(document) => canonical(document),
                Content::Plan(plan) => plan.to_json()?,
            };
            if let Some(at) = known.get(&key) {
                all[*at].files.push(file);
                continue;
            }
            known.insert(key, all.len());
            let inventory = match &content {
                Content::Machine(document) => Some(Inventory::of(document)),
                Content::Plan(_) => None,
            };
            all.push(Equal {
                files: vec![file],
                planned: plan(&content),
                inventory,
                content,
            });
        }
        let mut equal: Vec<Equal> = Vec::new();
        for one in all {
            let mut same = None;
            for (at, other) in equal.iter().enumerate() {
                if other.is_like(&one)? {
                    same = Some(at);
                    break;
                }
            }
            match same {
                Some(at) => equal[at].files.extend(one.files),
                None => equal.push(one),
            }
        }
        // Stable: of groups of one size, the one that was named first is the reference.
        equal.sort_by_key(|group| Reverse((group.files.len(), group.planned.is_ok())));
        compared(equal, settings).map(Self)
    }

    /// Whether a job notices that machines differ.
    pub fn differ(&self) -> bool {
        self.0.iter().any(|group| group.noticed)
    }

    /// The groups for JSON.
    pub fn rows(&self) -> Vec<GroupRow> {
        let rows = self.0.iter().enumerate();
        rows.map(|(at, group)| GroupRow::of(group, at == 0))
            .collect()
    }
}

impl Equal {
    /// Whether no device differs, and a job notices nothing.
    fn is_like(&self, other: &Self) -> Result<bool, plan::Error> {
        match (&self.inventory, &other.inventory) {
            (Some(one), Some(two)) if one != two => return Ok(false),
            _ => {}
        }
        match (&self.planned, &other.planned) {
            (Ok(one), Ok(two)) => Ok(compare::compare(one, two, &[])?.is_empty()),
            _ => Ok(false),
        }
    }
}

/// Compares all others with the first.
fn compared(all: Vec<Equal>, settings: &Settings) -> Result<Vec<Group>, plan::Error> {
    let mut groups = Vec::new();
    let rings = |content: &Content| match content {
        Content::Machine(document) => Some(MachineRings::of(document, settings)),
        Content::Plan(_) => None,
    };
    let mut all = all.into_iter();
    let Some(reference) = all.next() else {
        return Ok(groups);
    };
    let best = OnceCell::new();
    groups.push(Group {
        files: reference.files.clone(),
        differences: Vec::new(),
        noticed: false,
        problem: reference.planned.as_ref().err().cloned(),
        cost: None,
        plans: None,
    });
    for other in all {
        let differences = match (&reference.inventory, &other.inventory) {
            (Some(one), Some(two)) => one.differences(two),
            _ => Vec::new(),
        };
        let comparison = match (&reference.planned, &other.planned) {
            (Ok(one), Ok(two)) => Some(compare::compare(one, two, &[])?),
            _ => None,
        };
        let noticed = match &comparison {
            Some(comparison) => !comparison.is_empty(),
            None => other.planned.is_ok() || reference.planned.is_ok() || !differences.is_empty(),
        };
        let plans = match (comparison, &reference.planned, &other.planned) {
            (Some(comparison), Ok(one), Ok(two)) if differences.is_empty() => {
                Some(Box::new(((**one).clone(), (**two).clone(), comparison)))
            }
            _ => None,
        };
        let costs = || {
            let best = *best.get_or_init(|| rings(&reference.content));
            Cost::between(rings(&other.content)?, best?)
        };
        groups.push(Group {
            cost: noticed.then(costs).flatten(),
            files: other.files,
            differences,
            noticed,
            problem: other.planned.err(),
            plans,
        });
    }
    Ok(groups)
}

/// Equal machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupRow {
    /// Their files.
    files: Vec<String>,
    /// Whether the others are compared with these; the largest group is the reference.
    reference: bool,
    /// Whether a job would notice that they differ from the reference.
    noticed: bool,
    /// Why they cannot be planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_be_planned: Option<String>,
    /// How they differ from the reference, device by device.
    differences: Vec<DifferenceRow>,
    /// Bandwidth lost against the reference; null if the planner cannot tell.
    cost: Option<Cost>,
}

/// A difference from the reference.
#[derive(Debug, Serialize, JsonSchema)]
struct DifferenceRow {
    /// The devices that differ alike; none for the order of all devices.
    devices: Vec<String>,
    /// The reference's value; null if it has none.
    expected: Option<String>,
    /// The value of these machines; null if they have none.
    found: Option<String>,
    /// The difference in words.
    text: String,
}

impl GroupRow {
    fn of(group: &Group, reference: bool) -> Self {
        let row = |difference: &MachineDifference| DifferenceRow {
            devices: difference.devices.clone(),
            expected: difference.expected.clone(),
            found: difference.found.clone(),
            text: words(difference),
        };
        Self {
            files: group.files.clone(),
            reference,
            noticed: group.noticed,
            cannot_be_planned: group.problem.clone(),
            differences: group.differences.iter().map(row).collect(),
            cost: group.cost,
        }
    }
}

/// A difference in words: `mlx5_3 at 25 GB/s instead of 50`.
pub fn words(difference: &MachineDifference) -> String {
    let all: Vec<&str> = difference.devices.iter().map(String::as_str).collect();
    let names = shorten(&all).join(", ");
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let (found, expected) = (value(&difference.found), value(&difference.expected));
    match &difference.property {
        Property::Presence if difference.found.is_none() => format!("{names} missing"),
        Property::Presence => format!("{names} additional"),
        Property::Cpu => format!("{names} below {found} instead of {expected}"),
        Property::Near => format!(
            "{names} next to {} instead of {}",
            gpu(&difference.found),
            gpu(&difference.expected)
        ),
        Property::PciLinks => {
            format!("{names} behind PCIe links of {found} GB/s instead of {expected}")
        }
        Property::AllNvlinks => match &difference.found {
            None => format!("{names} without NVLinks instead of {expected}"),
            Some(_) => format!("{names} with NVLinks, {found}, instead of none"),
        },
        Property::Nvlinks(target) => {
            let found = difference.found.as_deref().unwrap_or("no");
            let links = if found == "1" { "NVLink" } else { "NVLinks" };
            format!("{names} with {found} {links} to {target} instead of {expected}")
        }
        Property::Speed => format!("{names} at {found} GB/s instead of {expected}"),
        Property::Affinity => format!("other processors in {names}"),
        Property::Attribute(attribute) => {
            format!("{names} with {attribute} {found} instead of {expected}")
        }
        Property::Order => format!(
            "PCI order {} instead of {}",
            order(&found),
            order(&expected)
        ),
        Property::BusOrder => format!(
            "order of bus ids {} instead of {}",
            order(&found),
            order(&expected)
        ),
    }
}

fn gpu(near: &Option<String>) -> String {
    near.clone().unwrap_or_else(|| "no GPU".to_owned())
}

/// The first devices of an order.
fn order(names: &str) -> String {
    let all: Vec<&str> = names.split(", ").collect();
    match all.len() > ORDERED {
        true => format!("{}, …", all[..ORDERED].join(", ")),
        false => names.to_owned(),
    }
}
