//! The wiring of GPUs and NICs as `nvidia-smi topo -m` draws it.

use pages::Table;

use crate::matrix::{Device, Wiring};
use crate::names::processors;

use super::grid::{Column, GAP, Grid};
use super::{Look, names, ranges, wrap};

/// The letters of the wiring, as nvidia-smi explains them.
const LETTERS: &str = "X: self · SYS: between NUMA nodes · NODE: between PCI host bridges of one NUMA node · PHB: through a PCI host \
bridge · PXB: several PCI bridges · PIX: at most one PCI bridge · NV#: so many NVLinks";

/// The matrix; of several hosts, that of each, equal ones once.
pub fn wiring(wiring: &Wiring, look: Look) -> String {
    let hosts = wiring.hosts();
    let (mut text, host_bridges) = match &hosts[..] {
        [] | [_] => {
            let one = OneHost::draw(wiring, look);
            (one.matrix + "\n", one.host_bridges)
        }
        several => host_by_host(wiring, several, look),
    };
    text.push_str(&look.faint(&wrap(LETTERS, "  ", "  ", look.width)));
    if host_bridges {
        let remark = "PHB: the file does not tell host bridges of one PCI domain apart; where there are several, nvidia-smi says NODE.";
        text.push_str(&look.faint(&wrap(remark, "  ", "  ", look.width)));
    }
    if let (Some(names), 0..=1) = (nic_names(wiring), hosts.len()) {
        text.push_str(&look.faint(&wrap(&names, "  ", "  ", look.width)));
    }
    text
}

/// The matrix of each host, equal ones once, and the NVLinks between GPUs of different hosts.
fn host_by_host(wiring: &Wiring, hosts: &[Vec<usize>], look: Look) -> (String, bool) {
    let mut host_bridges = false;
    let drawn = hosts.iter().map(|devices| {
        let own = wiring.only(devices);
        let one = OneHost::draw(&own, look);
        host_bridges |= one.host_bridges;
        let names = nic_names(&own).map(|names| look.faint(&wrap(&names, "  ", "  ", look.width)));
        one.matrix + &names.unwrap_or_default()
    });
    let mut text = names::each_host(drawn.zip(0..), look);
    let mut cells = Vec::new();
    for (host, own) in (0..).zip(hosts) {
        for gpu in own.iter().filter(|device| wiring.devices[**device].is_gpu) {
            let others = hosts.iter().flatten().filter(|other| !own.contains(other));
            let links = others.map(|other| wiring.nvlinks(*gpu, *other)).max();
            let cell = match links.unwrap_or(0) {
                0 => "-".to_owned(),
                links => format!("NV{links}"),
            };
            cells.push((cell, (host, wiring.devices[*gpu].number.to_string())));
        }
    }
    text.push_str(&format!("\n{}\n", names::between_hosts(cells, look)));
    (text, host_bridges)
}

/// The matrix of one host.
struct OneHost {
    matrix: String,
    /// Cells say PHB.
    host_bridges: bool,
}

impl OneHost {
    fn draw(wiring: &Wiring, look: Look) -> Self {
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
        let mut matrix = grid.draw(look);
        if !beside {
            matrix.push_str(&format!("\n{}", affinities_below(wiring, look)));
        }
        let mut cells = grid
            .blocks
            .iter()
            .flatten()
            .flat_map(|column| &column.cells);
        Self {
            host_bridges: cells.any(|cell| cell == "PHB"),
            matrix,
        }
    }
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
    let processors = processors(&device.affinity).unwrap_or_else(unknown);
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
    let mut table = Table::new(["", "CPU Affinity", "NUMA Affinity"]);
    for (numbers, (processors, numa)) in groups {
        table.row(vec![
            format!("GPU{}", ranges(&numbers, ",")),
            processors,
            numa,
        ]);
    }
    table.text(look)
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
