//! NCCL's decisions on measured links: what its channels carry there, and how long messages take.

use bounds::rings::{Carried, carried};
use plan::{CostTable, GraphKind, Plan, PlanContent};
use planner::Planned;
use planner::cost::{self, CostProfile, GraphFigures};
use topology::{LinkType, NodeType};

use super::{MeasuredLinks, MeasuredStep};

/// A job on measured links. Its decisions are NCCL's, which knows nothing of the measurements.
#[derive(Debug)]
pub struct OnMeasured {
    /// The links.
    pub links: MeasuredLinks,
    /// The job with these links: for bounds, forests and other rings.
    pub planned: Planned,
    /// What NCCL's channels carry on these links.
    pub carried: Carried,
    /// How much of what NCCL takes them for the links of NVSwitches have, the least of them: NVLS
    /// uses all alike.
    pub nvswitch_share: Option<f32>,
    /// The cost model with what the channels carry: times of what NCCL takes, not its choices.
    pub costs: CostTable,
}

impl OnMeasured {
    /// Prices a job's decisions on measured links. `profile` are the constants of the cost model;
    /// none: those of its version.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(
        planned: &Planned,
        mut links: MeasuredLinks,
        profile: Option<&CostProfile>,
    ) -> Result<Self, planner::Error> {
        let on_links = planned.on_measured(|system, link| links.bandwidth(system, link));
        let carried = carried(&on_links);
        let nvswitch_share = nvswitch_share(planned, &links);
        let mut inputs = planned.job.cost_inputs();
        apply(&mut inputs.ring, carried.ring);
        apply(&mut inputs.tree, carried.tree);
        let nvls = nvswitch_share.map(|share| inputs.nvls_graph.bw_intra * share);
        if let Some(speed) = nvls {
            inputs.nvls_graph.bw_intra = speed;
        }
        let built_in;
        let profile = match profile {
            Some(profile) => profile,
            None => {
                built_in = CostProfile::of(planned.version());
                &built_in
            }
        };
        let mut profile = profile.clone();
        links.simple_step = links.latencies.as_ref().and_then(|latencies| {
            let step = MeasuredStep::of(planned, latencies, &profile)?;
            step.apply(&mut profile);
            Some(step)
        });
        let settings = &planned.settings;
        let costs = cost::table(&inputs, &settings.tuning, &profile, settings.rules)?;
        Ok(Self {
            links,
            planned: on_links,
            carried,
            nvswitch_share,
            costs,
        })
    }

    /// NCCL's plan with times on these links: choices by it are what is fastest there.
    ///
    /// # Errors
    /// The plan contradicts itself.
    pub fn plan_with_costs(&self) -> Result<Plan, plan::Error> {
        Plan::new(PlanContent {
            costs: Some(self.costs.clone()),
            measured: Some(self.links.in_plan()),
            ..(**self.planned.plan()).clone()
        })
    }

    /// The plan with what its channels carry in place of what NCCL states: to be judged, not to be
    /// kept.
    ///
    /// # Errors
    /// The plan contradicts itself.
    pub fn priced_plan(&self) -> Result<Plan, plan::Error> {
        let plan = self.planned.plan();
        let mut common = plan.common.clone();
        for graph in common.iter_mut().flat_map(|it| &mut it.graphs) {
            if let (GraphKind::Nvls, Some(share)) = (graph.kind, self.nvswitch_share) {
                graph.bw_intra *= share;
            }
            let speed = match graph.kind {
                GraphKind::Ring => self.carried.ring,
                GraphKind::Tree => self.carried.tree,
                _ => None,
            };
            if let Some(speed) = speed {
                (graph.bw_intra, graph.bw_inter) = (speed, speed);
            }
        }
        Plan::new(PlanContent {
            common,
            costs: Some(self.costs.clone()),
            ..(**plan).clone()
        })
    }
}

fn apply(graph: &mut GraphFigures, speed: Option<f32>) {
    if let Some(speed) = speed {
        (graph.bw_intra, graph.bw_inter) = (speed, speed);
    }
}

/// The least share of what NCCL takes them for that measured links of NVSwitches have.
fn nvswitch_share(planned: &Planned, links: &MeasuredLinks) -> Option<f32> {
    let views = planned.machines().iter().flat_map(|it| &it.nodes);
    let views = views.map(|node| node.view.system());
    let shares = views.flat_map(|system| {
        let switches = system.nodes(NodeType::Nvs);
        let all = switches.flat_map(|switch| system.links(switch).map(move |link| (switch, link)));
        all.filter_map(|(switch, link)| {
            let back = system.link_between(system.target(link), switch, LinkType::Nvl)?;
            let share = |link| links.bandwidth(system, link) / system.link(link).bw;
            Some(share(link).min(share(back)))
        })
        .collect::<Vec<f32>>()
    });
    let shares = shares.filter(|share| share.is_finite() && *share > 0.0);
    shares.min_by(f32::total_cmp)
}
