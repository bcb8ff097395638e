//! The paths that NCCL takes between GPUs, and between GPUs and NICs.

use planner::Routing;
use planner::explain::NodeNames;
use topology::{NodeId, NodeType, PathType};

use super::grid::{Column, Grid};
use super::{Look, gbps, legend, names, ranges};

/// Type and bandwidth of the paths; of several hosts, those of each, equal ones once.
pub fn bandwidths(routing: &Routing, labels: &NodeNames<'_>, look: Look) -> String {
    let system = routing.system();
    let gpus: Vec<NodeId> = by_number(system.gpus().map(|(node, gpu)| (gpu.dev, node)).collect());
    let nets: Vec<NodeId> = by_number(system.nets().map(|(node, net)| (net.dev, node)).collect());
    let host_of = |node: &NodeId| system.node(*node).id.system();
    let mut hosts: Vec<u32> = gpus.iter().chain(&nets).map(host_of).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let of = |nodes: &[NodeId], host: u32| -> Vec<NodeId> {
        let own = nodes.iter().filter(|node| host_of(node) == host);
        own.copied().collect()
    };
    let mut seen = Vec::new();
    let mut text = match &hosts[..] {
        [] | [_] => one_host(routing, labels, &gpus, &nets, &mut seen, look),
        several => {
            let drawn: Vec<String> = several
                .iter()
                .map(|host| {
                    let (gpus, nets) = (of(&gpus, *host), of(&nets, *host));
                    one_host(routing, labels, &gpus, &nets, &mut seen, look)
                })
                .collect();
            let drawn = names::each_host(drawn.into_iter().zip(0..), look);
            let cells = several
                .iter()
                .flat_map(|host| of(&gpus, *host))
                .map(|gpu| best_beyond_host(routing, labels, gpu, &gpus));
            format!("{drawn}\n{}", names::between_hosts(cells, look))
        }
    };
    let apart = |from: &NodeId| {
        let mut ends = gpus.iter().chain(&nets);
        ends.any(|to| to != from && routing.table().kind(*from, *to) == PathType::Dis)
    };
    if gpus.iter().any(apart) {
        seen.push(PathType::Dis);
    }
    seen.sort_unstable();
    seen.dedup();
    let legends: String = seen
        .into_iter()
        .map(|kind| match kind {
            PathType::Dis => format!("  {kind}  {} (-)\n", kind.meaning()),
            _ => legend(kind),
        })
        .collect();
    text.push_str(&look.faint(&legends));
    text
}

/// The widest path of a GPU to GPUs of other hosts, and the GPU.
fn best_beyond_host(
    routing: &Routing,
    labels: &NodeNames<'_>,
    gpu: NodeId,
    gpus: &[NodeId],
) -> (String, (u32, String)) {
    let system = routing.system();
    let host = system.node(gpu).id.system();
    let others = gpus
        .iter()
        .filter(|it| system.node(**it).id.system() != host);
    let paths = others.map(|other| routing.table().path(gpu, *other));
    let best = paths.max_by(|a, b| a.bw.total_cmp(&b.bw));
    let cell = best.map_or_else(|| "-".to_owned(), |path| path_cell(path.kind, path.bw));
    let name = labels.plain(gpu);
    (
        cell,
        (host, name.strip_prefix("GPU").unwrap_or(name).to_owned()),
    )
}

fn path_cell(kind: PathType, bw: f32) -> String {
    match kind {
        PathType::Dis => "-".to_owned(),
        kind => format!("{kind} {}", gbps(bw)),
    }
}

/// The paths inside one host.
fn one_host(
    routing: &Routing,
    labels: &NodeNames<'_>,
    gpus: &[NodeId],
    nets: &[NodeId],
    seen: &mut Vec<PathType>,
    look: Look,
) -> String {
    let mut cell = |from: NodeId, to: NodeId| {
        if from == to {
            return " X".to_owned();
        }
        let path = routing.table().path(from, to);
        seen.push(path.kind);
        path_cell(path.kind, path.bw)
    };
    let mut block = |targets: &[NodeId]| -> Vec<Column> {
        let column = |to: &NodeId| Column {
            header: labels.plain(*to).to_owned(),
            cells: gpus.iter().map(|from| cell(*from, *to)).collect(),
        };
        targets.iter().map(column).collect()
    };
    let between_gpus = block(gpus);
    let mut to_nics = block(nets);
    merge_equal(&mut to_nics, "NIC");
    let mut text = String::new();
    let mut blocks = Vec::new();
    match all_the_same(&between_gpus) {
        Some(same) => text.push_str(&format!(
            "  between any two GPUs  {}\n",
            look.nearness(&same)
        )),
        None if gpus.len() > 1 => blocks.push(between_gpus),
        None => {}
    }
    if !to_nics.is_empty() {
        blocks.push(to_nics);
    }
    if !blocks.is_empty() {
        let labels = gpus
            .iter()
            .map(|gpu| labels.plain(*gpu).to_owned())
            .collect();
        text.push_str(&Grid { labels, blocks }.draw(look));
    }
    if text.is_empty() {
        text.push_str("  one GPU and no NIC: no paths\n");
    }
    text
}

fn by_number(mut nodes: Vec<(i32, NodeId)>) -> Vec<NodeId> {
    nodes.sort_by_key(|(number, _)| *number);
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// Neighbours with equal cells become one column.
fn merge_equal(columns: &mut Vec<Column>, prefix: &str) {
    let mut merged: Vec<(Vec<i32>, Column)> = Vec::new();
    for column in std::mem::take(columns) {
        let number = column
            .header
            .strip_prefix(prefix)
            .and_then(|number| number.parse().ok());
        match (merged.last_mut(), number) {
            (Some((numbers, last)), Some(number))
                if !numbers.is_empty() && last.cells == column.cells =>
            {
                numbers.push(number);
                last.header = format!("{prefix}{}", ranges(numbers, ","));
            }
            (_, number) => merged.push((number.into_iter().collect(), column)),
        }
    }
    columns.extend(merged.into_iter().map(|(_, column)| column));
}

/// The cell that all but the diagonal have in common.
fn all_the_same(columns: &[Column]) -> Option<String> {
    let mut cells = columns
        .iter()
        .flat_map(|column| &column.cells)
        .filter(|cell| cell.trim() != "X");
    let first = cells.next()?;
    cells.all(|cell| cell == first).then(|| first.clone())
}

/// Paths by type, best first: `NVL 56, PXN 48, PIX 8`.
pub fn path_types(routing: &Routing, to: NodeType) -> Option<String> {
    let system = routing.system();
    let mut counts = [0usize; PathType::ALL.len()];
    for from in system.nodes(NodeType::Gpu) {
        for to in system.nodes(to).filter(|to| *to != from) {
            counts[routing.table().kind(from, to) as usize] += 1;
        }
    }
    let counted: Vec<String> = PathType::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind} × {count}"))
        .collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}
