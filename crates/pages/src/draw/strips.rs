//! Channels as strips: the ranks of each ring or chain in order, between the ports where it enters
//! and leaves.

use plan::{Graph, GraphKind, Pattern};
use planner::explain::NodeNames;
use topology::{NodeId, NodeType, System};

use crate::draw::layout::Area;
use crate::draw::svg::Elements;
use crate::draw::text::{CHARACTER, SMALL_CHARACTER, gbps, shorten};
use crate::draw::traffic;

const CHIP: f64 = 34.0;
const HEIGHT: f64 = 22.0;
const GAP: f64 = 12.0;
const LINE: f64 = 34.0;
const LEFT: f64 = 20.0;
/// Ports have wider chips.
const PORT: f64 = 110.0;
/// Longest list of channel numbers, characters.
const LONGEST_NAME: usize = 15;
/// Longest name of a port, characters.
const LONGEST_PORT: usize = 14;

/// Channels with equal order, and their numbers.
fn equal(graph: &Graph) -> Vec<(Vec<usize>, usize)> {
    let mut groups: Vec<(Vec<usize>, usize)> = Vec::new();
    for (number, channel) in graph.channels.iter().enumerate() {
        let known = groups
            .iter_mut()
            .find(|it| graph.channels[it.1] == *channel);
        match known {
            Some(group) => group.0.push(number),
            None => groups.push((vec![number], number)),
        }
    }
    groups
}

/// Draws the channels of a graph, of which the last can be this wide. Returns them with their width
/// and height, pixels.
pub fn draw(names: &NodeNames<'_>, graph: &Graph, room: f64) -> (Elements, (f64, f64)) {
    let system = names.system();
    let mut elements = Elements::default();
    let title = format!(
        "{}  {} channels of {} GB/s",
        heading(graph.kind),
        graph.channels.len(),
        gbps(graph.bw_intra)
    );
    elements.text("t", (LEFT, 18.0), &title);
    let groups: Vec<(String, usize)> = equal(graph)
        .into_iter()
        .map(|(numbers, first)| {
            let list: Vec<String> = numbers.iter().map(usize::to_string).collect();
            (shorten(&list.join(", "), LONGEST_NAME), first)
        })
        .collect();
    let longest = groups.iter().map(|it| it.0.chars().count()).max();
    let begin = LEFT + 14.0 + longest.unwrap_or(0) as f64 * SMALL_CHARACTER;
    let (mut y, mut right) = (34.0, LEFT + title.chars().count() as f64 * 9.0);
    for (name, first) in groups {
        let channel = &graph.channels[first];
        elements.text("b", (LEFT, y + 15.0), &name);
        let mut x = begin;
        for (index, node) in stops(system, graph, channel).into_iter().enumerate() {
            let is_port = system.kind(node) == NodeType::Net;
            let width = if is_port { PORT } else { CHIP };
            if x + width > room && x > begin {
                x = begin;
                y += LINE;
            }
            if index > 0 {
                elements.text("d", (x - GAP / 2.0, y + 15.0), "›");
            }
            let area = Area {
                x,
                y,
                width,
                height: HEIGHT,
            };
            let class = if is_port { "port" } else { "gpu" };
            elements.area(class, area, &names.full(node));
            elements.text("", (area.center(), y + 15.0), &label(system, names, node));
            x += width + GAP;
            right = right.max(x);
        }
        if graph.pattern == Pattern::Ring && channel.nets.is_none() {
            elements.text("b", (x - 4.0, y + 15.0), "↺");
        }
        y += LINE;
    }
    (elements, (right + LEFT, y + 6.0))
}

fn heading(kind: GraphKind) -> &'static str {
    match kind {
        GraphKind::Ring => "Rings",
        GraphKind::Tree => "Trees, the head of each host's chain first",
        GraphKind::CollnetChain => "CollNet chains",
        GraphKind::CollnetDirect => "CollNet direct, heads",
        GraphKind::Nvls => "NVLS, heads",
    }
}

/// The nodes of a channel in order, with the port at which it begins or ends.
fn stops(system: &System, graph: &Graph, channel: &plan::GraphChannel) -> Vec<NodeId> {
    let hops = traffic::hops(system, graph.pattern, channel);
    let gpus = channel.ranks.iter();
    let gpus = gpus.filter_map(|rank| system.gpu_of_rank(*rank));
    let is_port = |node: &NodeId| system.kind(*node) == NodeType::Net;
    let first = hops.first().map(|hop| hop.from).filter(is_port);
    let last = hops.last().map(|hop| hop.to).filter(is_port);
    let last = last.filter(|_| graph.pattern == Pattern::Ring);
    first.into_iter().chain(gpus).chain(last).collect()
}

fn label(system: &System, names: &NodeNames<'_>, node: NodeId) -> String {
    match (system.gpu(node), system.net(node)) {
        (Some(gpu), _) => gpu.rank.to_string(),
        (_, Some(net)) => {
            let name = net.name.as_deref().unwrap_or_else(|| names.plain(node));
            let most = (PORT / CHARACTER) as usize - 1;
            shorten(name, most.min(LONGEST_PORT))
        }
        _ => names.plain(node).to_owned(),
    }
}
