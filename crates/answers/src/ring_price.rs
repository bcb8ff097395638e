//! The rings of a machine, and what a fault costs: as the machine is, and as it would be.

use std::fmt;
use std::sync::Arc;

use plan::GraphKind;
use planner::explain::gbps;
use planner::{Job, Settings};
use serde::Serialize;
use topology::xml::Document;

use crate::JsonSchema;

/// Losses below this are rounding, GB/s.
const NOTHING: f32 = 0.01;

/// Rings that NCCL would use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Rings {
    /// Number of ring channels.
    pub channels: u32,
    /// Bandwidth of each, GB/s.
    pub each: f32,
}

/// The rings of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct MachineRings {
    /// Inside the machine; null if there are none.
    pub inside: Option<Rings>,
    /// Between this machine and one without the fault, or the reference; null if there are none.
    pub between: Option<Rings>,
}

/// Bandwidth that is lost, GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Cost {
    /// Of all rings together inside the machine, GB/s.
    pub inside: f32,
    /// Of all rings together between this machine and one without the fault, or the reference,
    /// GB/s.
    pub between: f32,
    /// The rings as the machine is.
    pub now: MachineRings,
    /// The rings without the fault.
    pub mended: MachineRings,
}

impl Rings {
    fn total(self) -> f32 {
        self.channels as f32 * self.each
    }
}

impl MachineRings {
    /// Plans one host, and two.
    pub fn of(document: &Arc<Document>, settings: &Settings) -> Self {
        Self::beside(document, document, settings)
    }

    /// Plans one host, and a job of it and a host of `other`. A job is as fast as its slowest host.
    pub fn beside(document: &Arc<Document>, other: &Arc<Document>, settings: &Settings) -> Self {
        // NCCL refuses the files of others.
        if document.is_rccl() {
            return Self::default();
        }
        let alone = Job::hosts(Arc::clone(document), 1);
        let pair = match Arc::ptr_eq(document, other) {
            true => Job::hosts(Arc::clone(document), 2),
            false => {
                let hosts = [document, other].map(|it| Job::hosts(Arc::clone(it), 1).hosts);
                Job::of(hosts.concat())
            }
        };
        let inside = planner::plan(&alone, settings).ok();
        let inside = inside.and_then(|planned| {
            let rings = planned.node(0).graph(GraphKind::Ring)?;
            Some(Rings {
                channels: rings.channels.len() as u32,
                each: rings.bw_intra,
            })
        });
        let between = planner::plan(&pair, settings).ok();
        let between = between.and_then(|planned| {
            let rings = planned.job.common().graph(GraphKind::Ring)?;
            Some(Rings {
                channels: rings.channels,
                each: rings.bw_inter,
            })
        });
        Self { inside, between }
    }

    /// Bandwidth of all rings between hosts and inside, GB/s, to find the fastest machine.
    pub fn speed(self) -> (f32, f32) {
        let total = |rings: Option<Rings>| rings.map_or(0.0, Rings::total);
        (total(self.between), total(self.inside))
    }
}

impl Cost {
    /// The loss between two states of a machine; `None` if the second cannot be planned.
    pub fn between(now: MachineRings, mended: MachineRings) -> Option<Self> {
        let total = |rings: Option<Rings>| rings.map_or(0.0, Rings::total);
        let lost = |now, mended: Option<Rings>| Some((mended?.total() - total(now)).max(0.0));
        match (
            lost(now.inside, mended.inside),
            lost(now.between, mended.between),
        ) {
            (None, None) => None,
            (inside, between) => Some(Self {
                inside: inside.unwrap_or(0.0),
                between: between.unwrap_or(0.0),
                now,
                mended,
            }),
        }
    }
}

/// The cost of a fault, if the planner can tell: of the machine as it is, alone and in a job with
/// the repaired machine.
pub fn cost(now: &Arc<Document>, mended: &Arc<Document>, settings: &Settings) -> Option<Cost> {
    if now.is_rccl() {
        return None;
    }
    let rings = MachineRings::beside(now, mended, settings);
    Cost::between(rings, MachineRings::of(mended, settings))
}

/// As channels × GB/s: `3×12`.
impl fmt::Display for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.channels, gbps(self.each))
    }
}

/// As `−72 GB/s between hosts (3×12, not 9×12)`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rings = |rings: Option<Rings>| rings.map_or("none".to_owned(), |it| it.to_string());
        let part = |lost: f32, place: &str, now, mended| {
            (lost > NOTHING).then(|| {
                let (now, mended) = (rings(now), rings(mended));
                format!("−{} GB/s {place} ({now}, not {mended})", gbps(lost))
            })
        };
        let (now, mended) = (&self.now, &self.mended);
        let parts = [
            part(self.inside, "inside", now.inside, mended.inside),
            part(self.between, "between hosts", now.between, mended.between),
        ];
        match parts.into_iter().flatten().collect::<Vec<_>>().join(", ") {
            nothing if nothing.is_empty() => f.write_str("nothing for rings"),
            parts => f.write_str(&parts),
        }
    }
}
