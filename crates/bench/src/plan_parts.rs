//! The parts of a plan that ranks take.

use anyhow::{Result, bail};
use net::run::RunChannels;
use plan::{NcclVersion, Plan};
use program::Schedule;

use crate::report::RunPlan;
use crate::spec::Spec;

/// Gives `spec` the rings, trees and hosts of a plan.
///
/// # Errors
/// The plan lacks what the run needs.
pub fn take(spec: &mut Spec, name: String, plan: &Plan) -> Result<RunPlan> {
    let planned = RunChannels::of(&name, plan, Some(spec.collective))?;
    spec.devices.launches.nvls_from = planned.nvls_from;
    let choice = |bytes: &u64| {
        let choice = plan.costs.as_ref()?.choose(spec.collective, *bytes).ok()?;
        Some(format!("{} {}", choice.algorithm, choice.protocol))
    };
    let choices = spec.sizes.iter().map(choice).collect();
    let mut forests = planned.forests.into_iter();
    spec.forest = forests.find(|forest| forest.collective == spec.collective);
    if spec.algorithm == Some(Schedule::Forest) && spec.forest.is_none() {
        bail!(
            "{name} has no trees for {}; expected a plan with forests",
            spec.collective.command_name()
        );
    }
    (spec.rings, spec.trees) = (planned.rings, planned.trees);
    spec.nodes = planned.hosts;
    spec.plan = Some(planned.fingerprint);
    let nccl = NcclVersion::of_profile(&plan.profile).map(NcclVersion::name);
    Ok(RunPlan {
        name,
        nccl: nccl.unwrap_or(&plan.profile).to_owned(),
        transports: planned.transports,
        choices,
        ports: planned.ports,
    })
}

/// Takes ranks out of the rings of a job of `all` ranks, and makes new binary trees in the order of
/// the remaining ranks.
pub fn lose(spec: &mut Spec, all: u32, lost: &[u32]) {
    let left: Vec<u32> = (0..all).filter(|rank| !lost.contains(rank)).collect();
    let place = |rank: &u32| left.iter().position(|it| it == rank).map(|it| it as u32);
    for (ring, parents) in spec.rings.iter_mut().zip(&mut spec.trees) {
        *ring = ring.iter().filter_map(place).collect();
        *parents = vec![None; ring.len()];
        for (at, rank) in ring.iter().enumerate().skip(1) {
            parents[*rank as usize] = Some(ring[(at - 1) / 2]);
        }
    }
    let nodes = left
        .iter()
        .filter_map(|rank| spec.nodes.get(*rank as usize));
    spec.nodes = nodes.copied().collect();
    // Without its own trees a forest is made of the new ones.
    spec.forest = None;
}
