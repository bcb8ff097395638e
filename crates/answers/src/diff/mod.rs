//! The differences of two jobs that a job would notice.

pub mod groups;
mod page;

use crate::JsonSchema;
pub(crate) use page::page;
use pages::Page;
use plan::{ChoiceDifference, Plan, PlanDifference, compare};
use serde::Serialize;
use topology::differences::MachineDifference;

use crate::differences::DeviceDifference;
use crate::report::Report;
use groups::Groups;

/// A plan with its name.
pub type NamedPlan<'a> = (&'a str, &'a Plan);

/// Why plans cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// One plan has costs, and the other none.
    #[error(
        "{without} is a plan without a cost table, but {with} has one; expected both with their costs"
    )]
    Costs {
        /// The name of that without.
        without: String,
        /// The name of the other.
        with: String,
    },
    /// A plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] plan::Error),
}

/// The differences of two plans, or of files.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct DiffReport {
    /// Whether a job would notice no difference.
    pub equal: bool,
    /// The name of A.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The name of B.
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<String>,
    /// The profiles of A and B; absent if binaries have judged their versions.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    profiles: Vec<String>,
    /// How the devices of the file of B differ from those of A; a job may not notice it.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<DeviceDifference>>,
    /// Values of the plans of A and B that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Vec<PlanDifference>>,
    /// Sizes for which A and B choose differently, or take another time.
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Vec<ChoiceDifference>>,
    /// Three or more files in groups of equal machines; the first group is the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Groups>,
    /// Its page; none where nothing differs.
    #[serde(skip)]
    pub page: Option<Page>,
}

impl Report for DiffReport {
    const FORMAT: &'static str = "topo-diff";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        self.page.clone()
    }
}

/// Compares two plans, and their choices for messages of these sizes, bytes. `devices` are the
/// differences of the files.
///
/// # Errors
/// One plan only has costs, or a plan contradicts itself.
pub fn diff(
    [one, other]: [NamedPlan<'_>; 2],
    mut devices: Vec<MachineDifference>,
    sizes: &[u64],
) -> Result<DiffReport, DiffError> {
    let missing = match (&one.1.costs, &other.1.costs) {
        (None, Some(_)) => Some((one.0, other.0)),
        (Some(_), None) => Some((other.0, one.0)),
        _ => None,
    };
    if let Some((without, with)) = missing {
        return Err(DiffError::Costs {
            without: without.to_owned(),
            with: with.to_owned(),
        });
    }
    let comparison = compare::compare(one.1, other.1, sizes)?;
    if comparison.is_empty() {
        // The order of a file is the only difference without devices; it is no fault by itself.
        devices.retain(|difference| !difference.devices.is_empty());
    }
    let devices: Vec<DeviceDifference> = devices.iter().map(DeviceDifference::of).collect();
    Ok(DiffReport {
        equal: comparison.is_empty(),
        first: Some(one.0.to_owned()),
        second: Some(other.0.to_owned()),
        profiles: [one, other].map(|it| it.1.profile.clone()).into(),
        page: page([one, other], &devices, &comparison),
        devices: Some(devices),
        facts: Some(comparison.facts),
        choices: Some(comparison.choices),
        groups: None,
    })
}

impl DiffReport {
    /// Files that NCCL does not plan.
    pub fn of_files(names: [String; 2], devices: &[MachineDifference]) -> Self {
        let devices: Vec<DeviceDifference> = devices.iter().map(DeviceDifference::of).collect();
        let page = page::of_files(&names, &devices);
        let [first, second] = names;
        Self {
            equal: devices.is_empty(),
            first: Some(first),
            second: Some(second),
            devices: Some(devices),
            page,
            ..Self::default()
        }
    }

    /// Three or more files.
    pub fn of_groups(groups: Groups) -> Self {
        Self {
            equal: !groups.differ(),
            page: (groups.all.len() > 1).then(|| groups.page()),
            groups: Some(groups),
            ..Self::default()
        }
    }
}
