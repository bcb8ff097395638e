//! The bound of broadcast and reduce: the least maximum flow between rank 0 and another rank.

use plan::certificate::{CapacityGraph, Cut, Direction};

use crate::collapse::CollapsedGraph;
use crate::flow::FlowGraph;

/// The narrowest cut between rank 0 and another rank; rank 0 is in the set. `Direction::Out` is
/// broadcast, `Direction::In` is reduce. `None` if there is no second rank.
pub fn rooted(graph: &CapacityGraph, direction: Direction) -> Option<Cut> {
    let (root_class, _) = graph.root()?;
    let mut least: Option<(i128, Cut)> = None;
    let mut offer = |alone: &[u32]| {
        let collapsed = CollapsedGraph::new(graph, alone, direction);
        let mut flow = FlowGraph::new(collapsed.vertices(), &collapsed.ends);
        let own = collapsed.ranks_of(0);
        let Some(root) = own.first().copied() else {
            return;
        };
        let sinks = match alone {
            [_] => own,
            _ => collapsed.ranks_of(1),
        };
        for sink in sinks.into_iter().filter(|sink| *sink != root) {
            for (link, capacity) in collapsed.capacities.iter().enumerate() {
                flow.set(link, *capacity);
            }
            let most = least.as_ref().map_or(i128::MAX, |(value, _)| *value);
            let value = flow.augment(root, sink, most);
            if value < most {
                let inside = flow.source_side(root);
                least = Some((value, collapsed.cut(&inside)));
            }
        }
    };
    offer(&[root_class]);
    for (class, host) in (0..).zip(&graph.hosts) {
        if host.ranks() > 0 && (class != root_class || host.count > 1) {
            offer(&[root_class, class]);
        }
    }
    least.map(|(_, cut)| cut)
}
