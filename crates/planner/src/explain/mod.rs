//! The reasons for a plan, in words.
//!
//! [`Planned::explain`](crate::Planned::explain) tells the whole story of a job. Its parts:
//! [`machine`] (a machine in one line), [`search`] (how channels were found) and [`attempts`] (the
//! same attempt by attempt), [`path`](path()) (why a path between two devices is what it is). Texts
//! have no layout: they are not wrapped or colored.

mod machine;
mod names;
mod path;
mod search;
mod transfer;
mod words;

pub use machine::machine;
pub use names::NodeNames;
pub use path::{ExplainedPath, Hop, PathAnswer, path};
pub use search::{AttemptStory, attempts, search};
pub use words::{count, cross_nic, gbps, processor};

use plan::Graph;

use crate::host_plan::HostPlan;

/// Appends what the searches of a node found, and how each went.
pub(crate) fn tell(node: &HostPlan, text: &mut String) {
    for (graph, trail) in node.graphs.iter().zip(&node.trails) {
        let found = found(graph, node.view.inter);
        text.push_str(&format!(
            "  {}: {found}\n    {}\n",
            graph.kind,
            search(trail)
        ));
    }
}

/// Describes the channels of a graph. `inter`: the job leaves the node.
fn found(graph: &Graph, inter: bool) -> String {
    if graph.channels.is_empty() {
        return "no channels".to_owned();
    }
    let inside = format!(
        "{} of {} GB/s over {}",
        count(graph.channels.len(), "channel"),
        gbps(graph.bw_intra),
        graph.type_intra
    );
    if inter {
        let bw = gbps(graph.bw_inter);
        format!(
            "{inside}, {bw} GB/s to the network over {}",
            graph.type_inter
        )
    } else {
        inside
    }
}
