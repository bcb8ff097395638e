//! What a finding costs: the rings of the machine as it is, and as it would be.

use std::sync::Arc;

use plan::GraphKind;
use planner::{Job, Settings};
use probe::Finding;
use schemars::JsonSchema;
use serde::Serialize;
use topology::xml::Document;

/// Losses below this are rounding, GB/s.
const NOTHING: f32 = 0.01;

/// Bandwidth that is lost, GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Cost {
    /// Of all rings together inside the machine, GB/s.
    pub inside: f32,
    /// Of all rings together between machines like this one, GB/s.
    pub between: f32,
}

impl Cost {
    /// `−48 GB/s`, and where.
    pub fn text(&self) -> String {
        let gbps = |bw: f32| format!("−{} GB/s", crate::render::gbps(bw));
        match (self.inside > NOTHING, self.between > NOTHING) {
            (true, true) => format!(
                "{} inside, {} between hosts",
                gbps(self.inside),
                gbps(self.between)
            ),
            (true, false) => format!("{} inside", gbps(self.inside)),
            (false, true) => format!("{} between hosts", gbps(self.between)),
            (false, false) => "nothing for rings".to_owned(),
        }
    }
}

/// The cost of a finding, if the planner can tell.
pub fn cost(finding: &Finding, document: &Document, settings: &Settings) -> Option<Cost> {
    if finding.effect.is_empty() {
        return None;
    }
    let now = rings(finding.effect.now(document), settings);
    let mended = rings(finding.effect.mended(document), settings);
    let lost =
        |now: Option<f32>, mended: Option<f32>| Some((mended? - now.unwrap_or(0.0)).max(0.0));
    match (lost(now[0], mended[0]), lost(now[1], mended[1])) {
        (None, None) => None,
        (inside, between) => Some(Cost {
            inside: inside.unwrap_or(0.0),
            between: between.unwrap_or(0.0),
        }),
    }
}

/// Bandwidth of all rings inside one host, and of each of two.
fn rings(document: Document, settings: &Settings) -> [Option<f32>; 2] {
    let document = Arc::new(document);
    [1, 2].map(|hosts| {
        let planned = planner::plan(&Job::hosts(Arc::clone(&document), hosts), settings).ok()?;
        let rings = planned.node(0).graph(GraphKind::Ring)?;
        let each = if hosts == 1 {
            rings.bw_intra
        } else {
            rings.bw_inter
        };
        Some(rings.channels.len() as f32 * each)
    })
}
