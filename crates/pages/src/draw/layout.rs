//! The places of a machine's parts in the picture.
//!
//! Processors, switches and adapters are bars as wide as all that hangs below them, one row per
//! level. The lowest two rows are the network ports and the GPUs. Each GPU shares a column with a
//! port, past which its link runs on the left; a link of its own to the processor runs on the
//! right.

use topology::{NodeId, NodeType, System};

use crate::draw::parts::{Host, Leaf, Part};
use crate::draw::text::CHARACTER;

const BAR: f64 = 26.0;
const CPU: f64 = 34.0;
const LEAF: f64 = 36.0;
const ROW_GAP: f64 = 30.0;
const COLUMN_GAP: f64 = 12.0;
const CPU_GAP: f64 = 64.0;
const HOST_GAP: f64 = 44.0;
const TITLE: f64 = 24.0;
const MARGIN: f64 = 20.0;
/// Room for the link that passes a port.
const PASSAGE: f64 = 30.0;
/// Least width of a column with a GPU.
const COLUMN: f64 = 84.0;
/// Height of a row of arcs between processors that are not neighbors.
const ARC: f64 = 14.0;
/// Most width of hosts beside each other.
const ROW_WIDTH: f64 = 1800.0;

/// A rectangle, pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// The x of its center.
    pub const fn center(self) -> f64 {
        self.x + self.width / 2.0
    }

    /// Its lower edge.
    pub const fn bottom(self) -> f64 {
        self.y + self.height
    }

    /// Its right edge.
    pub const fn right(self) -> f64 {
        self.x + self.width
    }
}

/// The content of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A processor.
    Cpu,
    /// A PCI switch.
    Switch,
    /// An adapter with several ports.
    Adapter,
    /// A GPU.
    Gpu,
    /// A network port.
    Port,
}

/// A box with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineBox {
    /// Its node.
    pub node: NodeId,
    /// Its content.
    pub kind: Kind,
    /// Where it is.
    pub area: Area,
    /// Its text, a line each.
    pub lines: Vec<String>,
    /// The box that it hangs below.
    pub parent: Option<usize>,
}

/// A host's place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedHost {
    /// Its number.
    pub number: u32,
    /// Everything of it, without the room for links between GPUs.
    pub area: Area,
    /// Lower edge of its GPUs.
    pub gpus_end: f64,
    /// Upper edge of its processors.
    pub cpus_begin: f64,
}

/// The whole picture.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// All boxes, each after its parent.
    pub boxes: Vec<MachineBox>,
    /// For each node its box.
    pub box_of: Vec<Option<usize>>,
    /// The hosts.
    pub hosts: Vec<PlacedHost>,
    /// Width and height, pixels.
    pub size: (f64, f64),
}

/// Heights that one host needs above its processors and below its GPUs, pixels.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// For links between processors.
    pub above: f64,
    /// For links between GPUs, or the NVSwitch.
    pub below: f64,
}

impl Layout {
    /// Places all hosts.
    pub fn new(system: &System, hosts: &[Host], room: Room) -> Self {
        let mut layout = Self {
            box_of: vec![None; system.node_count()],
            ..Self::default()
        };
        let (mut x, mut y, mut row_end) = (MARGIN, MARGIN, MARGIN);
        for host in hosts {
            let width = host_width(host);
            if x > MARGIN && x + width > ROW_WIDTH {
                (x, y) = (MARGIN, row_end + HOST_GAP);
            }
            let title = if hosts.len() > 1 { TITLE } else { 0.0 };
            let end = layout.host(host, (x, y), (width, title), room);
            row_end = row_end.max(end);
            layout.size.0 = layout.size.0.max(x + width + MARGIN);
            x += width + HOST_GAP;
        }
        layout.size.1 = row_end + MARGIN;
        // Links of a device lead to the box of its first rank.
        for device in system.nodes(NodeType::Dev) {
            let mut ranks = system.links(device).map(|link| system.target(link));
            let first = ranks.find(|rank| system.kind(*rank) == NodeType::Gpu);
            layout.box_of[device.index()] = first.and_then(|rank| layout.box_of[rank.index()]);
        }
        layout
    }

    fn host(&mut self, host: &Host, at: (f64, f64), size: (f64, f64), room: Room) -> f64 {
        let (width, title) = size;
        let cpus_begin = at.1 + title + room.above;
        let depth = host.cpus.iter().map(depth).max().unwrap_or(0);
        let ports_y = cpus_begin + CPU + ROW_GAP + depth as f64 * (BAR + ROW_GAP);
        let has_ports = host.cpus.iter().any(any_ports);
        let has_gpus = host.cpus.iter().any(any_gpus);
        let gpus_y = ports_y + if has_ports { LEAF + ROW_GAP } else { 0.0 };
        let rows = Rows {
            ports: ports_y,
            gpus: gpus_y,
        };
        let mut x = at.0;
        for cpu in &host.cpus {
            let width = part_width(cpu);
            let area = Area {
                x,
                y: cpus_begin,
                width,
                height: CPU,
            };
            self.part(cpu, Kind::Cpu, area, None, rows);
            x += width + CPU_GAP;
        }
        let gpus_end = match (has_gpus, has_ports) {
            (true, _) => gpus_y + LEAF,
            (false, true) => ports_y + LEAF,
            (false, false) => ports_y - ROW_GAP,
        };
        let height = gpus_end + room.below - at.1;
        self.hosts.push(PlacedHost {
            number: host.number,
            area: Area {
                x: at.0,
                y: at.1,
                width,
                height,
            },
            gpus_end,
            cpus_begin,
        });
        at.1 + height
    }

    fn add(&mut self, placed: MachineBox) -> usize {
        let index = self.boxes.len();
        self.box_of[placed.node.index()] = Some(index);
        self.boxes.push(placed);
        index
    }

    fn part(&mut self, part: &Part, kind: Kind, area: Area, parent: Option<usize>, rows: Rows) {
        let fits = |label: &&String| label.chars().count() as f64 * CHARACTER < area.width - 8.0;
        let label = part.labels.iter().find(fits).or(part.labels.last());
        let own = self.add(MachineBox {
            node: part.node,
            kind,
            area,
            lines: label.cloned().into_iter().collect(),
            parent,
        });
        let (mut x, y) = (area.x, area.bottom() + ROW_GAP);
        for below in &part.parts {
            let width = part_width(below);
            let kind = match below.labels.first() {
                Some(label) if label.starts_with("switch") => Kind::Switch,
                _ => Kind::Adapter,
            };
            let height = BAR;
            let area = Area {
                x,
                y,
                width,
                height,
            };
            self.part(below, kind, area, Some(own), rows);
            x += width + COLUMN_GAP;
        }
        for column in 0..part.gpus.len().max(part.ports.len()) {
            let passage = passage(part, column);
            let width = column_width(part, column);
            if let Some(port) = part.ports.get(column) {
                let area = Area {
                    x: x + passage.0,
                    y: rows.ports,
                    width: width - passage.0 - passage.1,
                    height: LEAF,
                };
                self.leaf(port, Kind::Port, area, own);
            }
            if let Some(gpu) = part.gpus.get(column) {
                let area = Area {
                    x,
                    y: rows.gpus,
                    width,
                    height: LEAF,
                };
                self.leaf(gpu, Kind::Gpu, area, own);
            }
            x += width + COLUMN_GAP;
        }
    }

    fn leaf(&mut self, leaf: &Leaf, kind: Kind, area: Area, parent: usize) {
        let lines = [&leaf.label, &leaf.detail].into_iter();
        self.add(MachineBox {
            node: leaf.node,
            kind,
            area,
            lines: lines.filter(|it| !it.is_empty()).cloned().collect(),
            parent: Some(parent),
        });
    }
}

#[derive(Debug, Clone, Copy)]
struct Rows {
    ports: f64,
    gpus: f64,
}

/// Room for the links of a column's GPU on the left and on the right of its port.
fn passage(part: &Part, column: usize) -> (f64, f64) {
    match part.gpus.get(column) {
        Some(gpu) if gpu.has_own_link => (PASSAGE, PASSAGE),
        Some(_) => (PASSAGE, 0.0),
        None => (0.0, 0.0),
    }
}

fn column_width(part: &Part, column: usize) -> f64 {
    let passage = passage(part, column);
    let text = |leaf: Option<&Leaf>| {
        let lines = leaf.map_or(0, |it| {
            it.label.chars().count().max(it.detail.chars().count())
        });
        lines as f64 * CHARACTER + 12.0
    };
    let port = match part.ports.get(column) {
        Some(port) => text(Some(port)) + passage.0 + passage.1,
        None => 0.0,
    };
    let least = if part.gpus.len() > column {
        COLUMN
    } else {
        0.0
    };
    text(part.gpus.get(column)).max(port).max(least)
}

fn part_width(part: &Part) -> f64 {
    let columns = part.gpus.len().max(part.ports.len());
    let columns = (0..columns).map(|column| column_width(part, column));
    let widths: Vec<f64> = part.parts.iter().map(part_width).chain(columns).collect();
    let gaps = widths.len().saturating_sub(1) as f64 * COLUMN_GAP;
    let label = part.labels.last().map_or(0, |it| it.chars().count());
    (widths.iter().sum::<f64>() + gaps).max(label as f64 * CHARACTER + 16.0)
}

fn host_width(host: &Host) -> f64 {
    let widths: Vec<f64> = host.cpus.iter().map(part_width).collect();
    widths.iter().sum::<f64>() + widths.len().saturating_sub(1) as f64 * CPU_GAP
}

/// Levels of bars below a processor.
fn depth(part: &Part) -> usize {
    part.parts.iter().map(|it| depth(it) + 1).max().unwrap_or(0)
}

fn any_ports(part: &Part) -> bool {
    !part.ports.is_empty() || part.parts.iter().any(any_ports)
}

fn any_gpus(part: &Part) -> bool {
    !part.gpus.is_empty() || part.parts.iter().any(any_gpus)
}

/// Room for arcs between so many processors in a row.
pub fn room_for_arcs(cpus: usize) -> f64 {
    cpus.saturating_sub(2) as f64 * ARC + if cpus > 2 { 12.0 } else { 0.0 }
}

/// The height of an arc between processors with so many steps between them.
pub fn arc_height(steps: usize) -> f64 {
    steps as f64 * ARC
}
