//! Groups of equal machines among many files: which one is odd, and in what.

pub(crate) mod page;

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super as diff;
use crate::JsonSchema;
use crate::differences::DeviceDifference;
use crate::ring_price::{Cost, MachineRings};
use pages::Page;
use plan::{Plan, compare};
use planner::Settings;
use planner::explain::count;
use serde::Serialize;
use topology::differences::{Inventory, canonical};
use topology::xml::Document;

/// Why files cannot be grouped.
#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    /// None of the files can be read.
    #[error("none of {} can be read; {file}: {why}", count(*.files, "file"))]
    Unreadable {
        /// Files.
        files: usize,
        /// The first.
        file: String,
        /// Why that cannot be read.
        why: String,
    },
    /// A plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] plan::Error),
}

/// The content of a file.
#[derive(Debug, Clone)]
pub enum Content {
    /// A topology.
    Machine(Arc<Document>),
    /// A plan.
    Plan(Plan),
    /// Neither; why.
    Unreadable(String),
}

/// The plan of a machine, or why there is none.
pub type PlanOrReason = Result<Plan, String>;

/// Equal machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Group {
    /// Their files.
    pub files: Vec<String>,
    /// Whether the others are compared with these: the largest group that can be planned, the
    /// fastest if several are as large.
    pub reference: bool,
    /// Whether a job would notice that they differ from the reference.
    pub noticed: bool,
    /// Why they cannot be planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_be_planned: Option<String>,
    /// Why they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_be_read: Option<String>,
    /// How they differ from the reference, device by device.
    pub differences: Vec<DeviceDifference>,
    /// Bandwidth lost against the reference; null if the planner cannot tell.
    pub cost: Option<Cost>,
    /// How the plans of the reference and of these differ, if nothing else tells it.
    #[serde(skip)]
    plans: Option<Page>,
}

/// The files of a command in groups. The first, the reference, is the largest that can be planned.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Groups {
    /// The groups, the largest first.
    pub all: Vec<Group>,
    /// Whether other groups are as large as the reference, which is the fastest of them.
    #[serde(skip)]
    tied: bool,
}

/// Machines that NCCL cannot tell apart.
struct Equal {
    files: Vec<String>,
    content: Content,
    inventory: Option<Inventory>,
    planned: PlanOrReason,
}

/// Refuses files of which none can be read.
///
/// # Errors
/// That is so.
pub fn refuse_unreadable(members: &[(String, Content)]) -> Result<(), GroupsError> {
    let why = members.iter().map(|(file, content)| match content {
        Content::Unreadable(why) => Some((file, why)),
        Content::Machine(_) | Content::Plan(_) => None,
    });
    let all: Option<Vec<_>> = why.collect();
    if let Some([(file, why), ..]) = all.as_deref() {
        return Err(GroupsError::Unreadable {
            files: members.len(),
            file: (*file).clone(),
            why: (*why).clone(),
        });
    }
    Ok(())
}

impl Groups {
    /// Groups files. `plan` is called once for machines that NCCL cannot tell apart.
    ///
    /// # Errors
    /// A plan contradicts itself.
    pub fn of(
        members: Vec<(String, Content)>,
        settings: &Settings,
        mut plan: impl FnMut(&Content) -> PlanOrReason,
    ) -> Result<Self, GroupsError> {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut all: Vec<Equal> = Vec::new();
        for (file, content) in members {
            let key = match &content {
                Content::Machine(document) => canonical(document),
                Content::Plan(plan) => plan.digest()?.to_string(),
                Content::Unreadable(why) => why.clone(),
            };
            if let Some(at) = known.get(&key) {
                all[*at].files.push(file);
                continue;
            }
            known.insert(key, all.len());
            let inventory = match &content {
                Content::Machine(document) => Some(Inventory::of(document)),
                Content::Plan(_) | Content::Unreadable(_) => None,
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
        let size = |group: &Equal| (group.planned.is_ok(), group.files.len());
        // Stable: groups of one size stay in the order in which they were named.
        equal.sort_by_key(|group| Reverse(size(group)));
        let largest = equal.first().map(size);
        let ties = equal.iter().take_while(|it| Some(size(it)) == largest);
        let ties = ties.count();
        if ties > 1 {
            let fastest = fastest(&equal[..ties], settings);
            equal[..=fastest].rotate_right(1);
        }
        Ok(Self {
            all: compared(equal, settings)?,
            tied: ties > 1,
        })
    }

    /// Whether a job notices that machines differ.
    pub fn differ(&self) -> bool {
        self.all.iter().any(|group| group.noticed)
    }
}

/// The first of the fastest machines.
fn fastest(all: &[Equal], settings: &Settings) -> usize {
    let mut best = (0, (0.0, 0.0));
    for (at, group) in all.iter().enumerate() {
        let Content::Machine(document) = &group.content else {
            continue;
        };
        let speed = MachineRings::of(document, settings).speed();
        if speed > best.1 {
            best = (at, speed);
        }
    }
    best.0
}

impl Content {
    fn unreadable(&self) -> Option<String> {
        match self {
            Self::Unreadable(why) => Some(why.clone()),
            Self::Machine(_) | Self::Plan(_) => None,
        }
    }
}

impl Equal {
    /// Why a machine cannot be planned.
    fn problem(&self) -> Option<String> {
        match self.content {
            Content::Unreadable(_) => None,
            Content::Machine(_) | Content::Plan(_) => self.planned.clone().err(),
        }
    }

    /// Whether no device differs, and a job notices nothing.
    fn is_like(&self, other: &Self) -> Result<bool, GroupsError> {
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
fn compared(all: Vec<Equal>, settings: &Settings) -> Result<Vec<Group>, GroupsError> {
    let mut groups = Vec::new();
    let rings = |content: &Content, beside: &Content| match (content, beside) {
        (Content::Machine(document), Content::Machine(other)) => {
            Some(MachineRings::beside(document, other, settings))
        }
        _ => None,
    };
    let mut all = all.into_iter();
    let Some(reference) = all.next() else {
        return Ok(groups);
    };
    let best = OnceCell::new();
    groups.push(Group {
        files: reference.files.clone(),
        reference: true,
        differences: Vec::new(),
        noticed: false,
        cannot_be_read: reference.content.unreadable(),
        cannot_be_planned: reference.problem(),
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
            None => {
                let unplanned = reference.planned.is_err() && other.planned.is_err();
                let unread = other.content.unreadable().is_some();
                !unplanned || unread || !differences.is_empty()
            }
        };
        let plans = match (comparison, &reference.planned, &other.planned) {
            (Some(comparison), Ok(one), Ok(two)) if differences.is_empty() => {
                let names = [&reference.files[0], &other.files[0]];
                diff::page([(names[0], one), (names[1], two)], &[], &comparison)
            }
            _ => None,
        };
        let costs = || {
            let best = *best.get_or_init(|| rings(&reference.content, &reference.content));
            Cost::between(rings(&other.content, &reference.content)?, best?)
        };
        groups.push(Group {
            cost: noticed.then(costs).flatten(),
            reference: false,
            cannot_be_read: other.content.unreadable(),
            cannot_be_planned: other.problem(),
            files: other.files,
            differences: differences.iter().map(DeviceDifference::of).collect(),
            noticed,
            plans,
        });
    }
    Ok(groups)
}
