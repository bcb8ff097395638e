//! A machine as a picture: its parts, its links, and the channels on them.

use planner::explain::NodeNames;
use topology::{Link, LinkId, LinkType, NodeId, NodeType, System};

use crate::draw::layout::{self, Area, Kind, Layout, MachineBox, Room};
use crate::draw::parts;
use crate::draw::svg::{COLORS, Curve, Elements};
use crate::draw::text::{SMALL_CHARACTER, gbps};
use crate::draw::traffic::Hop;

/// Height of an NVSwitch, and of the room between it and the GPUs, pixels.
const SWITCH: f64 = 26.0;
const SWITCH_GAP: f64 = 26.0;
/// Most height of curves between GPUs.
const DEEPEST: f64 = 130.0;
/// Width of a line of 1 GB/s; wider ones grow with the logarithm.
const NARROWEST: f64 = 0.8;
const WIDEST: f64 = 7.0;
/// From these shares of a link's bandwidth on, it has the next color.
const SHARES: [f32; 4] = [0.01, 0.5, 0.85, 1.001];

/// A channel to draw over a machine.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its name, such as `ring 3`.
    pub name: String,
    /// The number of its color.
    pub color: usize,
    /// Its hops in order.
    pub hops: Vec<Hop>,
}

/// Nodes and links that another machine lacks, or that have another bandwidth there.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    /// The class with which they are drawn: `gone` or `new`.
    pub class: &'static str,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// The links.
    pub links: Vec<LinkId>,
}

/// Content of a picture besides the machine.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// The load of each link, GB/s; empty without a plan.
    pub loads: Vec<f32>,
    /// Channels over the machine.
    pub routes: Vec<Route>,
    /// Differences from another machine.
    pub marks: Marks,
}

/// Draws a machine. Returns the elements with the width and height, pixels.
pub fn machine(names: &NodeNames<'_>, shown: &Overlay) -> (Elements, (f64, f64)) {
    let system = names.system();
    let hosts = parts::hosts(system, names);
    let most_cpus = hosts.iter().map(|host| host.cpus.len()).max().unwrap_or(0);
    let switches = (SWITCH_GAP + SWITCH) * system.count(NodeType::Nvs) as f64;
    let has_nvlinks = gpu_links(system).next().is_some();
    let room = Room {
        above: layout::room_for_arcs(most_cpus),
        below: match has_nvlinks || !shown.routes.is_empty() {
            true => DEEPEST.max(switches),
            false => switches,
        },
    };
    let layout = Layout::new(system, &hosts, room);
    let mut painter = Painter {
        system,
        names,
        layout: &layout,
        shown,
        elements: Elements::default(),
    };
    painter.links();
    painter.boxes();
    painter.routes();
    (painter.elements, layout.size)
}

/// NVLinks between two GPUs, each pair once.
fn gpu_links(system: &System) -> impl Iterator<Item = LinkId> {
    let links = (0..system.link_count() as u32).map(LinkId);
    links.filter(|link| {
        let (from, to) = system.ends(*link);
        let is_gpu = |node| matches!(system.kind(node), NodeType::Gpu | NodeType::Dev);
        system.link(*link).kind == LinkType::Nvl && is_gpu(from) && is_gpu(to) && from < to
    })
}

/// The meaning of the colors and widths of links, as one line.
pub fn legend() -> (Elements, (f64, f64)) {
    let mut elements = Elements::default();
    let mut x = 20.0;
    for (level, words) in [
        "idle",
        "below 50 %",
        "below 85 %",
        "to 100 % of its bandwidth",
        "more",
    ]
    .iter()
    .enumerate()
    {
        let ends = [(x, 14.0), (x + 26.0, 14.0)];
        let class = format!("l l{level}");
        elements.line(&class, ends, 5.0, words);
        elements.text("b", (x + 32.0, 18.0), words);
        x += 46.0 + words.chars().count() as f64 * SMALL_CHARACTER;
    }
    (elements, (x, 30.0))
}

/// The width of a line for a bandwidth, pixels.
fn width(bw: f32) -> f64 {
    let wide = NARROWEST + f64::from(bw.max(1.0)).log2() * 0.7;
    wide.min(WIDEST)
}

struct Painter<'a> {
    system: &'a System,
    names: &'a NodeNames<'a>,
    layout: &'a Layout,
    shown: &'a Overlay,
    elements: Elements,
}

impl Painter<'_> {
    fn placed(&self, node: NodeId) -> Option<&MachineBox> {
        let index = self.layout.box_of[node.index()]?;
        self.layout.boxes.get(index)
    }

    /// The box of a node, or of what it is folded into.
    fn area(&self, node: NodeId) -> Option<Area> {
        self.placed(node).map(|placed| placed.area)
    }

    /// The class of a link by its load in the busier direction, and its hint.
    fn look(&self, link: LinkId) -> (String, String) {
        let system = self.system;
        let (from, to) = system.ends(link);
        let Link { kind, bw } = system.link(link);
        let (from_name, to_name) = (self.names.label(from), self.names.label(to));
        let mut hint = format!("{from_name} – {to_name}: {kind} {} GB/s", gbps(bw));
        let back = system.link_between(to, from, kind);
        if let Some(back) = back.map(|back| system.link(back).bw).filter(|it| *it != bw) {
            hint.push_str(&format!(", back {}", gbps(back)));
        }
        let load = |link: LinkId| {
            let load = self.shown.loads.get(link.index()).copied().unwrap_or(0.0);
            (load, load / system.link(link).bw.max(f32::MIN_POSITIVE))
        };
        let (there, back) = (load(link), back.map_or((0.0, 0.0), load));
        let share = there.1.max(back.1);
        if share > 0.0 {
            let loads = [there.0, back.0].map(gbps);
            hint.push_str(&format!("; loaded {} there, {} back", loads[0], loads[1]));
        }
        let level = SHARES.iter().filter(|limit| share >= **limit).count();
        let mut class = "l".to_owned();
        if level > 0 {
            class.push_str(&format!(" l{level}"));
        }
        if matches!(kind, LinkType::C2c) {
            class.push_str(" o");
        }
        let marks = &self.shown.marks;
        let both = [Some(link), system.link_between(to, from, kind)];
        if both
            .into_iter()
            .flatten()
            .any(|it| marks.links.contains(&it))
        {
            class.push(' ');
            class.push_str(marks.class);
        }
        (class, hint)
    }

    fn links(&mut self) {
        for index in 0..self.layout.boxes.len() {
            let layout = self.layout;
            let placed = &layout.boxes[index];
            if let Some(parent) = placed.parent {
                self.up(placed, &layout.boxes[parent]);
            }
        }
        self.between_cpus();
        self.switches();
        self.between_gpus();
        self.others();
    }

    /// The links from a box to the bar above: PCI Express, and a GPU's own to the processor.
    fn up(&mut self, placed: &MachineBox, parent: &MachineBox) {
        let system = self.system;
        let from = parent.area.bottom();
        let x = match placed.kind {
            Kind::Gpu => placed.area.x + 8.0,
            _ => placed.area.center(),
        };
        if let Some(link) = self.link_up(placed, parent) {
            let (class, hint) = self.look(link);
            let bw = system.link(link).bw;
            let ends = [(x, from), (x, placed.area.y)];
            self.elements.line(&class, ends, width(bw), &hint);
            if bw < topology::bandwidth::LOCAL {
                self.elements.text("b", (x + 5.0, from + 12.0), &gbps(bw));
            }
        }
        let own = match placed.kind {
            Kind::Gpu => parts::own_link(system, placed.node),
            _ => None,
        };
        let cpu = own.and_then(|link| self.area(system.target(link)));
        let (Some(link), Some(cpu)) = (own, cpu) else {
            return;
        };
        let x = placed.area.right() - 8.0;
        if x > cpu.x && x < cpu.right() {
            let (class, hint) = self.look(link);
            let bw = system.link(link).bw;
            let ends = [(x, cpu.bottom()), (x, placed.area.y)];
            self.elements.line(&class, ends, width(bw), &hint);
            let at = (x - 5.0, placed.area.y - 8.0);
            self.elements.text("b e", at, &gbps(bw));
        }
    }

    /// The PCI or port link from a box to the bar above. Devices and adapters may be folded away
    /// between them.
    fn link_up(&self, placed: &MachineBox, parent: &MachineBox) -> Option<LinkId> {
        let system = self.system;
        let wanted = |link: &LinkId| {
            matches!(
                system.link(*link).kind,
                LinkType::Pci | LinkType::Loc | LinkType::Net
            )
        };
        let up = |node: NodeId| system.links(node).filter(wanted);
        let direct = up(placed.node).find(|link| system.target(*link) == parent.node);
        let through = || {
            let folded = up(placed.node).map(|link| system.target(link));
            let is_folded =
                |node: &NodeId| matches!(system.kind(*node), NodeType::Dev | NodeType::Nic);
            let mut folded = folded.filter(is_folded);
            folded.find_map(|node| up(node).find(|link| system.target(*link) == parent.node))
        };
        direct.or_else(through)
    }

    fn between_cpus(&mut self) {
        let system = self.system;
        let cpus: Vec<NodeId> = system.nodes(NodeType::Cpu).collect();
        for (index, from) in cpus.iter().enumerate() {
            for to in &cpus[index + 1..] {
                let Some(link) = system.link_between(*from, *to, LinkType::Sys) else {
                    continue;
                };
                let (Some(left), Some(right)) = (self.area(*from), self.area(*to)) else {
                    continue;
                };
                if left.y != right.y
                    || system.node(*from).id.system() != system.node(*to).id.system()
                {
                    continue;
                }
                let (left, right) = if left.x < right.x {
                    (left, right)
                } else {
                    (right, left)
                };
                let between = self.layout.boxes.iter().filter(|it| {
                    it.kind == Kind::Cpu
                        && it.area.y == left.y
                        && it.area.x > left.x
                        && it.area.x < right.x
                });
                let steps = between.count();
                let (class, hint) = self.look(link);
                let bw = system.link(link).bw;
                if steps == 0 {
                    let y = left.y + left.height / 2.0;
                    let ends = [(left.right(), y), (right.x, y)];
                    self.elements.line(&class, ends, width(bw), &hint);
                    let x = (left.right() + right.x) / 2.0;
                    self.elements.text("d", (x, y - 6.0), &gbps(bw));
                    continue;
                }
                let y = left.y;
                let top = y - layout::arc_height(steps) * 4.0 / 3.0;
                let curve = Curve {
                    from: (left.center(), y),
                    by: [(left.center(), top), (right.center(), top)],
                    to: (right.center(), y),
                };
                self.elements
                    .curve(&class, curve, Some(width(bw)), ("", &hint));
            }
        }
    }

    /// The NVSwitches: a bar below the GPUs of each host.
    fn switches(&mut self) {
        let system = self.system;
        for (row, switch) in system.nodes(NodeType::Nvs).enumerate() {
            for host in &self.layout.hosts {
                let y = host.gpus_end + SWITCH_GAP + row as f64 * (SWITCH_GAP + SWITCH);
                let mut own: Vec<(Area, LinkId)> = Vec::new();
                for link in system.links(switch) {
                    let to = system.target(link);
                    let is_here = system.node(to).id.system() == host.number;
                    if let Some(area) = self.area(to).filter(|_| is_here) {
                        own.push((area, link));
                    }
                }
                let (Some(first), Some(last)) = (
                    own.iter().map(|it| it.0.x).min_by(f64::total_cmp),
                    own.iter().map(|it| it.0.right()).max_by(f64::total_cmp),
                ) else {
                    continue;
                };
                for (area, link) in &own {
                    let (class, hint) = self.look(*link);
                    let x = area.center() + row as f64 * 8.0;
                    let ends = [(x, area.bottom()), (x, y)];
                    let bw = system.link(*link).bw;
                    self.elements.line(&class, ends, width(bw), &hint);
                }
                let bw = own.iter().map(|it| system.link(it.1).bw);
                let label = match bw.reduce(f32::min) {
                    Some(bw) if system.hosts().len() > 1 => {
                        format!("NVSwitch of all hosts  {} GB/s each", gbps(bw))
                    }
                    Some(bw) => format!("NVSwitch  {} GB/s each", gbps(bw)),
                    None => "NVSwitch".to_owned(),
                };
                let area = Area {
                    x: first,
                    y,
                    width: last - first,
                    height: SWITCH,
                };
                self.elements.area("nvs", area, &label);
                let fits = label.len() as f64 * 7.25 < area.width;
                let label = if fits { &label } else { "NVSwitch" };
                self.elements.text("", (area.center(), y + 17.0), label);
            }
        }
    }

    /// NVLinks between GPUs: curves below them, deeper for GPUs that are farther apart.
    fn between_gpus(&mut self) {
        for link in gpu_links(self.system) {
            let (from, to) = self.system.ends(link);
            let (Some(from), Some(to)) = (self.area(from), self.area(to)) else {
                continue;
            };
            let (class, hint) = self.look(link);
            let bw = self.system.link(link).bw;
            let curve = self.below(from, to, 0.0);
            self.elements
                .curve(&class, curve, Some(width(bw)), ("", &hint));
        }
    }

    /// A curve from the lower edge of a box to that of another one.
    fn below(&self, from: Area, to: Area, shift: f64) -> Curve {
        let across = (from.center() - to.center()).abs() / self.layout.size.0.max(1.0);
        let depth = 24.0 + across * (DEEPEST - 24.0) * 4.0 / 3.0;
        let [begin, end] = [from, to].map(|it| (it.center() + shift, it.bottom()));
        let deep = |(x, y): (f64, f64)| (x, y + depth.min(DEEPEST * 4.0 / 3.0 - 8.0));
        Curve {
            from: begin,
            by: [deep(begin), deep(end)],
            to: end,
        }
    }

    /// Links between PCI switches, beside the tree.
    fn others(&mut self) {
        let system = self.system;
        for from in system.nodes(NodeType::Pci) {
            for link in system.links(from) {
                let to = system.target(link);
                let kind = system.link(link).kind;
                if from >= to || system.kind(to) != NodeType::Pci || kind != LinkType::Loc {
                    continue;
                }
                let (Some(from), Some(to)) = (self.area(from), self.area(to)) else {
                    continue;
                };
                let (class, hint) = self.look(link);
                let bw = system.link(link).bw;
                let curve = self.below(from, to, 0.0);
                let class = format!("{class} o");
                self.elements
                    .curve(&class, curve, Some(width(bw)), ("", &hint));
            }
        }
    }

    fn boxes(&mut self) {
        for host in self
            .layout
            .hosts
            .iter()
            .filter(|_| self.layout.hosts.len() > 1)
        {
            let at = (host.area.x, host.area.y + 12.0);
            self.elements.text("t", at, &format!("host{}", host.number));
        }
        for placed in &self.layout.boxes {
            let class = match placed.kind {
                Kind::Cpu => "cpu",
                Kind::Switch => "switch",
                Kind::Adapter => "adapter",
                Kind::Gpu => "gpu",
                Kind::Port => "port",
            };
            let marks = &self.shown.marks;
            let class = match marks.nodes.contains(&placed.node) {
                true => format!("{class} {}", marks.class),
                false => class.to_owned(),
            };
            let Area { y, height, .. } = placed.area;
            let hint = self.names.full(placed.node);
            self.elements.area(&class, placed.area, &hint);
            let x = placed.area.center();
            match &placed.lines[..] {
                [label, detail] => {
                    self.elements.text("", (x, y + 15.0), label);
                    let fits = detail.chars().count() as f64 * SMALL_CHARACTER < placed.area.width;
                    if fits {
                        self.elements.text("d", (x, y + 29.0), detail);
                    }
                }
                [label, ..] => self.elements.text("", (x, y + height / 2.0 + 4.0), label),
                [] => {}
            }
        }
    }

    fn routes(&mut self) {
        let count = self.shown.routes.len();
        for (number, route) in self.shown.routes.iter().enumerate() {
            let color = route.color % COLORS;
            let id = route.name.replace(' ', "-");
            self.elements.begin("route", &id);
            let shift = (number as f64 - (count as f64 - 1.0) / 2.0) * 40.0 / count.max(8) as f64;
            for hop in &route.hops {
                let (Some(from), Some(to)) = (self.area(hop.from), self.area(hop.to)) else {
                    continue;
                };
                let names = [hop.from, hop.to].map(|node| self.names.label(node));
                let hint = format!("{}: {} → {}", route.name, names[0], names[1]);
                let class = format!("hop c{color}");
                let curve = self.hop(from, to, shift);
                self.elements
                    .curve(&class, curve, None, (&format!("a{color}"), &hint));
            }
            self.elements.end();
        }
    }

    /// The arrow of a hop: below the GPUs, or between rows.
    fn hop(&self, from: Area, to: Area, shift: f64) -> Curve {
        if (from.y - to.y).abs() < 1.0 {
            return self.below(from, to, shift);
        }
        let (begin, end) = if from.y < to.y {
            (from.bottom(), to.y)
        } else {
            (from.y, to.bottom())
        };
        let middle = (begin + end) / 2.0;
        let [from_x, to_x] = [from, to].map(|it| it.center() + shift);
        Curve {
            from: (from_x, begin),
            by: [(from_x, middle), (to_x, middle)],
            to: (to_x, end),
        }
    }
}
