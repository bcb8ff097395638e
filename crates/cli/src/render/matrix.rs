//! Matrices of GPUs and NICs: wiring as `nvidia-smi topo -m` draws it, and NCCL's bandwidths.

use planner::Routing;
use planner::explain::NodeNames;
use topology::{NodeId, NodeType, PathType};

use super::grid::{Column, GAP, Grid};
use super::table::Columns;
use super::{Look, gbps, legend, ranges, words, wrap};
use crate::wiring::{Device, Wiring};

/// The letters of the wiring, as nvidia-smi explains them.
const LETTERS: &str = "X: self · SYS: between NUMA nodes · NODE: between PCI host bridges of one NUMA node · PHB: through a PCI host \
bridge · PXB: several PCI bridges · PIX: at most one PCI bridge · NV#: so many NVLinks";

pub fn wiring(wiring: &Wiring, look: Look) -> String {
    let single: Vec<Vec<usize>> = (0..wiring.devices.len())
        .map(|device| vec![device])
        .collect();
    let mut grid = wiring_grid(wiring, &single);
    let mut beside = true;
    // If it is too wide, merge neighboring NICs, then move affinities below, then whole blocks.
    if grid.width() + GAP > look.width {
        grid = wiring_grid(wiring, &nics_together(wiring));
    }
    if grid.width() + GAP > look.width {
        beside = false;
        grid.blocks.pop();
    }
    if grid.width() + GAP > look.width {
        grid.blank_mirrored();
    }
    let mut text = grid.draw(look);
    if !beside {
        text.push_str(&format!("\n{}", affinities_below(wiring, look)));
    }
    let seen = |letters: &str| {
        grid.blocks
            .iter()
            .flatten()
            .any(|column| column.cells.iter().any(|cell| cell == letters))
    };
    text.push('\n');
    text.push_str(&look.faint(&wrap(LETTERS, "  ", "  ", look.width)));
    if seen("PHB") {
        let remark = "PHB: the file does not tell host bridges of one PCI domain apart; where there are several, nvidia-smi says NODE.";
        text.push_str(&look.faint(&wrap(remark, "  ", "  ", look.width)));
    }
    if let Some(names) = nic_names(wiring) {
        text.push_str(&look.faint(&wrap(&names, "  ", "  ", look.width)));
    }
    text
}

fn nics_together(wiring: &Wiring) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, device) in wiring.devices.iter().enumerate() {
        match groups.last_mut() {
            Some(group)
                if !device.is_gpu
                    && group
                        .iter()
                        .all(|other| wiring.devices[*other].sits_with(device)) =>
            {
                group.push(index);
            }
            _ => groups.push(vec![index]),
        }
    }
    groups
}

fn wiring_grid(wiring: &Wiring, groups: &[Vec<usize>]) -> Grid {
    let label = |group: &Vec<usize>| {
        let numbers: Vec<i32> = group
            .iter()
            .map(|device| wiring.devices[*device].number)
            .collect();
        let kind = if wiring.devices[group[0]].is_gpu {
            "GPU"
        } else {
            "NIC"
        };
        format!("{kind}{}", ranges(&numbers, ","))
    };
    let cell = |row: &Vec<usize>, column: &Vec<usize>| match (row[0] == column[0], row.get(1)) {
        // Among themselves.
        (true, Some(second)) => wiring.letters(row[0], *second),
        _ => wiring.letters(row[0], column[0]),
    };
    let column = |group: &Vec<usize>| Column {
        header: label(group),
        cells: groups.iter().map(|row| cell(row, group)).collect(),
    };
    let of_gpu = |header: &str, text: &dyn Fn(usize) -> String| Column {
        header: header.to_owned(),
        cells: groups
            .iter()
            .map(|group| {
                if wiring.devices[group[0]].is_gpu {
                    text(group[0])
                } else {
                    String::new()
                }
            })
            .collect(),
    };
    let (gpus, nics): (Vec<_>, Vec<_>) = groups
        .iter()
        .partition(|group| wiring.devices[group[0]].is_gpu);
    let affinities = vec![
        of_gpu("CPU Affinity", &|gpu| affinity(&wiring.devices[gpu]).0),
        of_gpu("NUMA Affinity", &|gpu| affinity(&wiring.devices[gpu]).1),
    ];
    Grid {
        labels: groups.iter().map(label).collect(),
        blocks: vec![
            gpus.into_iter().map(column).collect(),
            nics.into_iter().map(column).collect(),
            affinities,
        ],
    }
}

/// Processors and NUMA node of a device.
fn affinity(device: &Device) -> (String, String) {
    let unknown = || "N/A".to_owned();
    let processors = words::processors(&device.affinity).unwrap_or_else(unknown);
    (
        processors,
        if device.numa < 0 {
            unknown()
        } else {
            device.numa.to_string()
        },
    )
}

/// The affinities as a table of their own, equal neighbors in one row.
fn affinities_below(wiring: &Wiring, look: Look) -> String {
    let mut groups: Vec<(Vec<i32>, (String, String))> = Vec::new();
    for gpu in wiring.devices.iter().filter(|device| device.is_gpu) {
        let own = affinity(gpu);
        match groups.last_mut() {
            Some((numbers, other)) if *other == own => numbers.push(gpu.number),
            _ => groups.push((vec![gpu.number], own)),
        }
    }
    let mut table = Columns::new(look, &["", "CPU Affinity", "NUMA Affinity"]);
    for (numbers, (processors, numa)) in groups {
        table.row(vec![
            format!("GPU{}", ranges(&numbers, ",")),
            processors,
            numa,
        ]);
    }
    table.finish()
}

/// `NIC0 mlx5_0 · NIC1-3 mlx5_2-4`: runs of numbers on both sides are shortened.
fn nic_names(wiring: &Wiring) -> Option<String> {
    let mut runs: Vec<(Vec<i32>, String, Vec<i32>)> = Vec::new();
    for nic in wiring.devices.iter().filter(|device| !device.is_gpu) {
        let Some(name) = &nic.name else { continue };
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = name[stem.len()..]
            .parse::<i32>()
            .ok()
            .filter(|number| number.to_string() == name[stem.len()..]);
        let follows = |before: Option<&i32>, own: i32| {
            before.and_then(|before| before.checked_add(1)) == Some(own)
        };
        match (runs.last_mut(), number) {
            (Some((nics, other, numbers)), Some(number))
                if other == stem
                    && follows(nics.last(), nic.number)
                    && follows(numbers.last(), number) =>
            {
                nics.push(nic.number);
                numbers.push(number);
            }
            (_, Some(number)) => runs.push((vec![nic.number], stem.to_owned(), vec![number])),
            (_, None) => runs.push((vec![nic.number], name.clone(), Vec::new())),
        }
    }
    let names: Vec<String> = runs
        .iter()
        .map(|(nics, stem, numbers)| {
            format!("NIC{} {stem}{}", ranges(nics, ","), ranges(numbers, ","))
        })
        .collect();
    (!names.is_empty()).then(|| names.join(" · "))
}

/// Type and bandwidth of the paths that NCCL takes between GPUs, and between GPUs and NICs.
pub fn bandwidths(routing: &Routing, names: &NodeNames<'_>, look: Look) -> String {
    let system = routing.system();
    let gpus: Vec<NodeId> = by_number(system.gpus().map(|(node, gpu)| (gpu.dev, node)).collect());
    let nets: Vec<NodeId> = by_number(system.nets().map(|(node, net)| (net.dev, node)).collect());
    let mut seen = Vec::new();
    let mut cell = |from: NodeId, to: NodeId| {
        if from == to {
            return " X".to_owned();
        }
        let path = routing.table().path(from, to);
        seen.push(path.kind);
        if path.kind == PathType::Dis {
            "-".to_owned()
        } else {
            format!("{} {}", path.kind, gbps(path.bw))
        }
    };
    let mut block = |targets: &[NodeId]| -> Vec<Column> {
        let column = |to: &NodeId| Column {
            header: names.label(*to).to_owned(),
            cells: gpus.iter().map(|from| cell(*from, *to)).collect(),
        };
        targets.iter().map(column).collect()
    };
    let between_gpus = block(&gpus);
    let mut to_nics = block(&nets);
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
            .map(|gpu| names.label(*gpu).to_owned())
            .collect();
        text.push_str(&Grid { labels, blocks }.draw(look));
    }
    if text.is_empty() {
        text.push_str("  one GPU and no NIC: no paths\n");
    }
    seen.sort_unstable();
    seen.dedup();
    let legends: String = seen
        .into_iter()
        .filter(|kind| *kind != PathType::Dis)
        .map(legend)
        .collect();
    text.push_str(&look.faint(&legends));
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
