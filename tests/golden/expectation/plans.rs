//! Graphs and trails as text.

use plan::{Attempt, Graph, GraphChannel, Pattern, Summary, Trail};
use planner::{Error, HostPlan, Planned, View};
use topology::{NcclId, NodeType};

use super::names::Names;
use super::value::{count, number, word};

/// Remaining budget of an attempt that stopped because nothing better is possible.
const PERFECT: i32 = -1;

pub(super) fn text(hosts: u32, planned: Result<Planned, Error>) -> String {
    let mut text = format!(
        "# What is planned on this machine for {}: the graphs, their channels, and every attempt of the searches.\n\
         # Bandwidths in GB/s for one channel; channels list ranks. Written by `cargo xtask bless`.\n\n",
        count(hosts as usize, "equal host"),
    );
    match planned {
        Ok(planned) => {
            describe(&mut text, planned.node(0));
            text
        }
        Err(error) => text + &format!("refused: {error}\n"),
    }
}

fn describe(text: &mut String, planned: &HostPlan) {
    let view = &planned.view;
    let names = Names::new(view.system());
    text.push_str(&format!("leaves the host: {}\n", yes(view.inter)));
    text.push_str(&format!("widest path: {}\n", number(view.max_bw)));
    text.push_str(&format!(
        "most bandwidth of a GPU: {}\n",
        number(view.total_bw)
    ));
    for (node, gpu) in view.system().gpus() {
        text.push_str(&format!("rank {}: {}\n", gpu.rank, names.of(node)));
    }
    for (graph, trail) in planned.graphs.iter().zip(&planned.trails) {
        text.push_str(&format!("\n## {}\n\n", graph.kind));
        for line in graph_lines(graph, view.inter) {
            text.push_str(&format!("{} {line}\n", graph.kind));
        }
        for (index, channel) in graph.channels.iter().enumerate() {
            let order = channel_line(view, &names, graph.pattern, channel);
            text.push_str(&format!("{} channel {index}: {order}\n", graph.kind));
        }
        for line in trail_lines(trail, view.inter) {
            text.push_str(&format!("{} {line}\n", graph.kind));
        }
    }
}

fn graph_lines(graph: &Graph, inter: bool) -> Vec<String> {
    let mut lines = vec![
        format!("pattern: {}", graph.pattern),
        format!("channels: {}", graph.channels.len()),
        format!("bandwidth between GPUs: {}", number(graph.bw_intra)),
        format!("worst path between GPUs: {}", graph.type_intra),
        format!("one order for all channels: {}", yes(graph.same_channels)),
    ];
    if inter {
        lines.push(format!(
            "bandwidth to the network: {}",
            number(graph.bw_inter)
        ));
        lines.push(format!("worst path to a port: {}", graph.type_inter));
        lines.push(format!(
            "latency of the port: {} µs",
            number(graph.latency_inter)
        ));
        lines.push(format!("NICs in and out: {}", nics(graph.cross_nic)));
    }
    lines
}

fn channel_line(
    view: &View,
    names: &Names<'_>,
    pattern: Pattern,
    channel: &GraphChannel,
) -> String {
    let ranks: Vec<String> = channel.ranks.iter().map(ToString::to_string).collect();
    let mut order = ranks.join(" ");
    if pattern == Pattern::Nvls {
        order.insert_str(0, "head ");
    }
    let Some([enter, leave]) = channel.nets else {
        return order;
    };
    let port = |id: i64| match view.system().find(NodeType::Net, NcclId(id as u64)) {
        Some(port) if id >= 0 => names.of(port).to_owned(),
        _ => "no port".to_owned(),
    };
    format!("{} -> {order} -> {}", port(enter), port(leave))
}

fn trail_lines(trail: &Trail, inter: bool) -> Vec<String> {
    let attempts = trail.attempts.iter().enumerate();
    let mut lines: Vec<String> = attempts
        .map(|(index, attempt)| format!("attempt {}: {}", index + 1, attempt_line(attempt, inter)))
        .collect();
    lines.push(format!(
        "first pass ended: {}, {} steps left in common",
        word(&trail.end),
        trail.budget_left
    ));
    if let Some(split) = trail.duplicated {
        lines.push(format!(
            "each channel split: {} became {}",
            split.from, split.to
        ));
    }
    lines
}

fn attempt_line(attempt: &Attempt, inter: bool) -> String {
    let mut asked = vec![
        format!(
            "{} {}",
            attempt.pattern,
            bandwidths(attempt.bw_intra, attempt.bw_inter, inter)
        ),
        format!(
            "within {}",
            types(attempt.type_intra, attempt.type_inter, inter)
        ),
        if attempt.same_channels {
            "one order"
        } else {
            "any order"
        }
        .to_owned(),
    ];
    if inter {
        asked.push(format!("NICs {}", nics(attempt.cross_nic)));
    }
    if attempt.min_channels > 1 {
        asked.push(format!(
            "at least {}",
            count(attempt.min_channels as usize, "channel")
        ));
    }
    let effort = match attempt.budget_left {
        PERFECT => format!("stopped early of {}", attempt.budget),
        left => format!("{} of {} steps", attempt.budget - left, attempt.budget),
    };
    let outcome = match (attempt.improved, attempt.best.channels) {
        (true, _) => format!("better: {}", summary(&attempt.best, inter)),
        (false, 0) => "nothing".to_owned(),
        (false, _) => "nothing better".to_owned(),
    };
    format!(
        "pass {}, {}; {effort}; {outcome}; {}",
        attempt.pass,
        asked.join(", "),
        word(&attempt.next)
    )
}

fn summary(best: &Summary, inter: bool) -> String {
    format!(
        "{} of {} over {} in {}",
        count(best.channels as usize, "channel"),
        bandwidths(best.bw_intra, best.bw_inter, inter),
        types(best.type_intra, best.type_inter, inter),
        count(usize::try_from(best.hops).unwrap_or(0), "hop"),
    )
}

fn bandwidths(intra: f32, inter: f32, leaves: bool) -> String {
    if leaves {
        format!("{}/{}", number(intra), number(inter))
    } else {
        number(intra)
    }
}

fn types(intra: topology::PathType, inter: topology::PathType, leaves: bool) -> String {
    if leaves {
        format!("{intra}/{inter}")
    } else {
        intra.to_string()
    }
}

const fn nics(mode: i32) -> &'static str {
    match mode {
        0 => "the same",
        1 => "any",
        _ => "in pairs",
    }
}

const fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
