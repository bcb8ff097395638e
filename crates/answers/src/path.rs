//! The path between two devices, and why it is what it is.

use std::sync::Arc;

use crate::JsonSchema;
use planner::Settings;
use planner::explain::{self, ExplainedPath, NodeNames, PathAnswer};
use serde::Serialize;
use topology::{NodeId, NodeType, System};

use crate::device::{self, DeviceError};
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

/// A path and its ends.
#[derive(Debug)]
pub struct FoundPath {
    /// The devices.
    pub ends: [NodeId; 2],
    /// The path.
    pub explained: PathAnswer,
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
) -> Result<FoundPath, PathError> {
    let from = device::find(names, machine, from)?;
    let to = device::find(names, machine, to)?;
    if system.kind(to) == NodeType::Pci {
        return Err(PathError::Switch(names.label(to).to_owned()));
    }
    Ok(FoundPath {
        ends: [from, to],
        explained: explain::path(system, settings, names, (from, to))?,
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
    verdicts: Vec<String>,
    /// Why NCCL gives up on the machine, so that only the widest path is known.
    refused: Option<String>,
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
}

impl PathReport {
    /// The answer; `names` are those of the devices.
    pub fn of(answer: &FoundPath, names: &NodeNames<'_>) -> Self {
        let [from, to] = answer.ends.map(|end| names.full(end));
        let answer = &answer.explained;
        let instead = answer.diverted.as_ref();
        Self {
            from,
            to,
            widest: Route::of(&answer.widest, &answer.widest.reason),
            instead: instead.map(|(path, why)| Route::of(path, why)),
            verdicts: answer.verdicts.clone(),
            refused: answer.refused.as_ref().map(ToString::to_string),
        }
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
}
