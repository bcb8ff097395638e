//! The path between two devices, and why it is what it is.

use std::sync::Arc;

use crate::JsonSchema;
use pages::numbers::{count, gbps};
use pages::{Page, Section, Table, row};
use planner::Settings;
use planner::explain::{self, ExplainedPath, NodeNames};
use serde::Serialize;
use topology::{LinkType, NodeId, NodeType, System};

use crate::device::{self, DeviceError};
use crate::head;
use crate::report::Report;

/// Why there is no path.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// A name means no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No path ends there.
    #[error(
        "{0} is a PCI switch: NCCL keeps no paths that end there; expected a GPU, a NIC or a CPU as the second device"
    )]
    Switch(String),
    /// A link has no counterpart.
    #[error(transparent)]
    Planner(#[from] planner::Error),
}

/// Explains the path between two devices of a machine.
///
/// # Errors
/// A name means no device, or no path ends there.
pub fn path(
    machine: &str,
    system: &Arc<System>,
    names: &NodeNames<'_>,
    settings: Settings,
    [from, to]: [&str; 2],
) -> Result<PathReport, PathError> {
    let from = device::find(names, machine, from)?;
    let to = device::find(names, machine, to)?;
    if system.kind(to) == NodeType::Pci {
        return Err(PathError::Switch(names.label(to).to_owned()));
    }
    let ends = [from, to];
    let profile = settings.rules.version().profile();
    let answer = explain::path(system, settings, names, (from, to))?;
    let instead = answer.diverted.as_ref();
    let [from, to] = ends.map(|end| names.full(end));
    Ok(PathReport {
        from,
        to,
        widest: Route::of(&answer.widest, &answer.widest.reason),
        instead: instead.map(|(path, why)| Route::of(path, why)),
        verdicts: answer.verdicts,
        refused: answer.refused.as_ref().map(ToString::to_string),
        profile: Some(profile.to_owned()),
        ends,
    })
}

/// The path between two devices, and why it is what it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PathReport {
    /// The first device.
    from: String,
    /// The second device.
    to: String,
    /// The widest path.
    widest: Route,
    /// The path that NCCL takes instead, if one of its rules changes it.
    instead: Option<Route>,
    /// How the devices transfer data, one sentence or more each.
    pub verdicts: Vec<String>,
    /// Why NCCL gives up on the machine, so that only the widest path is known.
    pub refused: Option<String>,
    /// The profile of NCCL's version; absent if a binary has judged it.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    profile: Option<String>,
    /// The devices.
    #[serde(skip)]
    pub ends: [NodeId; 2],
}

/// A path.
#[derive(Debug, Serialize, JsonSchema)]
struct Route {
    /// Its type.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Bandwidth, GB/s.
    bandwidth_gbps: f32,
    /// Why the type is what it is, or why NCCL takes this path.
    reason: String,
    /// The links in order; those inside a GPU are left out.
    hops: Vec<RouteHop>,
}

/// One link of a path.
#[derive(Debug, Serialize, JsonSchema)]
struct RouteHop {
    /// The first device.
    from: String,
    /// The second device.
    to: String,
    /// Kind of the link.
    link: &'static str,
    /// Bandwidth, GB/s.
    bandwidth_gbps: f32,
    /// Type of the path up to this hop.
    so_far: &'static str,
    /// No other hop is narrower.
    narrowest: bool,
}

impl Report for PathReport {
    const FORMAT: &'static str = "topo-path";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

impl PathReport {
    /// The page: the widest path, the one that NCCL takes instead, and what that means.
    pub fn page(&self) -> Page {
        let widest = &self.widest;
        let mut page = Page::new(format!("{} → {}", self.from, self.to));
        page.remark = widest.summary();
        if let Some(profile) = self.profile.as_ref().filter(|it| !head::are_judged([*it])) {
            page.field("nccl", head::version(profile));
        }
        let section = page.section("", "");
        widest.hops(section);
        section.say(&widest.reason);
        if let Some(ruled) = &self.instead {
            let section = page.section("NCCL takes instead", ruled.summary());
            ruled.hops(section.say(&ruled.reason));
        }
        if !self.verdicts.is_empty() {
            let section = page.section("", "").lines("\n");
            self.verdicts.iter().for_each(|verdict| {
                section.say(verdict);
            });
        }
        page
    }

    /// Whether bytes cross PCI on the path that NCCL takes.
    pub fn uses_pci(&self) -> bool {
        let hops = &self.instead.as_ref().unwrap_or(&self.widest).hops;
        hops.iter().any(|hop| hop.link == LinkType::Pci.name())
    }
}

impl Route {
    fn of(path: &ExplainedPath, reason: &str) -> Self {
        let hops = path.hops.iter().map(|hop| RouteHop {
            from: hop.from.clone(),
            to: hop.to.clone(),
            link: hop.link.name(),
            bandwidth_gbps: hop.bw,
            so_far: hop.so_far.name(),
            narrowest: hop.narrowest,
        });
        Self {
            kind: path.kind.name(),
            bandwidth_gbps: path.bw,
            reason: reason.to_owned(),
            hops: hops.collect(),
        }
    }

    fn summary(&self) -> String {
        if self.hops.is_empty() {
            return self.kind.to_owned();
        }
        let hops = count(self.hops.len(), "hop");
        format!("{}, {} GB/s, {hops}", self.kind, gbps(self.bandwidth_gbps))
    }

    fn hops(&self, section: &mut Section) {
        if self.hops.is_empty() {
            return;
        }
        let mut table = Table::new([">hop", "from", "to", "link", ">GB/s", "path so far", ""]);
        // Where all hops are alike, none is a bottleneck.
        let uneven = self.hops.iter().any(|hop| !hop.narrowest);
        for (index, hop) in self.hops.iter().enumerate() {
            let is_inside = hop.link == LinkType::Loc.name();
            let cells = row![
                index + 1,
                hop.from,
                hop.to,
                if is_inside { "inside" } else { hop.link },
                gbps(hop.bandwidth_gbps),
                hop.so_far,
                if uneven && hop.narrowest {
                    "narrowest"
                } else {
                    ""
                },
            ];
            table.row_of(vec![hop.from.clone(), hop.to.clone()], cells);
        }
        section.table(table);
    }
}
