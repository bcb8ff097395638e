//! A machine for Graphviz.

use std::fmt::Write;

use planner::explain::NodeNames;
use topology::{LinkId, NodeId, NodeType};

use crate::draw::text::gbps;

/// The machine as an undirected graph in Graphviz's language: a node each, a link of both
/// directions as one edge with its bandwidth in GB/s.
pub fn dot(title: &str, names: &NodeNames<'_>) -> String {
    let system = names.system();
    let mut text = format!("graph {} {{\n", quoted(title));
    text.push_str("  node [shape=box, style=rounded];\n");
    for node in (0..system.node_count() as u32).map(NodeId) {
        let shape = match system.kind(node) {
            NodeType::Gpu | NodeType::Dev => "box",
            NodeType::Net | NodeType::Nic => "ellipse",
            NodeType::Cpu => "box3d",
            _ => "hexagon",
        };
        let label = quoted(&names.full(node));
        // Writing to a string does not fail.
        let _ = writeln!(text, "  n{} [label={label}, shape={shape}];", node.0);
    }
    for link in (0..system.link_count() as u32).map(LinkId) {
        let (from, to) = system.ends(link);
        let data = system.link(link);
        let back = system.link_between(to, from, data.kind);
        // Once for both directions.
        if from > to && back.is_some() || from == to {
            continue;
        }
        let width = 1.0 + f64::from(data.bw.max(1.0)).log2() / 2.0;
        let label = format!("{} {}", data.kind, gbps(data.bw));
        let _ = writeln!(
            text,
            "  n{} -- n{} [label={}, penwidth={width:.1}];",
            from.0,
            to.0,
            quoted(&label)
        );
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|it| !it.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}
