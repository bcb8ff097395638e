//! Devices and links that one machine has and another lacks.

use std::collections::HashMap;

use planner::explain::NodeNames;
use topology::{LinkId, LinkType, NodeId};

use crate::draw::picture::Marks;

/// The nodes of `names` that `other` lacks by name, and the links that it lacks or that have
/// another bandwidth there, marked by `class`.
pub fn marks(names: &NodeNames<'_>, other: &NodeNames<'_>, class: &'static str) -> Marks {
    let there = links(other);
    let known: HashMap<String, ()> = nodes(other).map(|(_, name)| (name, ())).collect();
    let missing = nodes(names).filter(|(_, name)| !known.contains_key(name));
    let own = links(names);
    let differs = own.iter().filter(|(ends, (_, bw))| {
        let found = there.get(*ends).map(|(_, bw)| *bw);
        found != Some(*bw)
    });
    let mut links: Vec<LinkId> = differs.map(|(_, (link, _))| *link).collect();
    links.sort_unstable();
    Marks {
        class,
        nodes: missing.map(|(node, _)| node).collect(),
        links,
    }
}

fn nodes<'a>(names: &'a NodeNames<'_>) -> impl Iterator<Item = (NodeId, String)> + 'a {
    let nodes = (0..names.system().node_count() as u32).map(NodeId);
    nodes.map(|node| (node, name(names, node)))
}

/// A port by its name, because its number changes with those before it.
fn name(names: &NodeNames<'_>, node: NodeId) -> String {
    let port = names.system().net(node).and_then(|net| net.name.clone());
    port.unwrap_or_else(|| names.label(node).to_owned())
}

type Ends = (String, String, LinkType);

fn links(names: &NodeNames<'_>) -> HashMap<Ends, (LinkId, f32)> {
    let system = names.system();
    let links = (0..system.link_count() as u32).map(LinkId);
    let ends = links.map(|link| {
        let (from, to) = system.ends(link);
        let data = system.link(link);
        let ends = (name(names, from), name(names, to), data.kind);
        (ends, (link, data.bw))
    });
    ends.collect()
}
