//! The limit of an operation, by the names of the links.

use plan::certificate::{CapacityGraph, Cut, Direction, Lengths, Operation, Proof, UNITS};

use plan::ranges;

/// Most sets of a partition that are listed.
const LISTED: usize = 6;

/// Links that count for more than this share of the one that counts most are listed.
const LONG: f64 = 0.3;

/// The limit of an operation.
#[derive(Debug)]
pub struct Limit {
    /// The border that data must cross, such as `into GPU0-3`, or the sets of a partition.
    pub border: String,
    /// The links over it, equal ones of equal hosts once; none for a partition.
    pub links: Vec<LimitLink>,
}

/// A link over a tight border.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitLink {
    /// The device where it begins.
    pub from: String,
    /// The device where it ends.
    pub to: String,
    /// The type of the link.
    pub kind: String,
    /// GB/s.
    pub bandwidth: f64,
    /// Number of hosts that have it.
    pub hosts: u32,
}

impl Limit {
    /// The limit of an operation by a proof.
    pub fn of(graph: &CapacityGraph, operation: Operation, proof: &Proof) -> Result<Self, String> {
        match proof {
            Proof::Cut(cut) => Self::of_cut(graph, operation, cut),
            Proof::Lengths(classes) => Ok(Self {
                border: "on links that routes share".to_owned(),
                links: long_links(graph, classes),
            }),
            Proof::Partition { parts, .. } => {
                let sets = parts.iter().map(|part| names_in(graph, &part.set, false));
                let sets: Vec<String> = sets.collect();
                let count: u64 = parts.iter().map(|part| u64::from(part.times)).sum();
                let single = u128::from(count) == graph.ranks();
                Ok(Self {
                    border: match (single, sets.len() > LISTED) {
                        (true, _) => "between all ranks".to_owned(),
                        (false, true) => format!("between {count} sets of ranks"),
                        (false, false) => format!("between {}", sets.join(" | ")),
                    },
                    links: Vec::new(),
                })
            }
        }
    }

    fn of_cut(graph: &CapacityGraph, operation: Operation, cut: &Cut) -> Result<Self, String> {
        let crossing = cut.measure(graph)?;
        let out = match operation {
            Operation::AllGather | Operation::Broadcast | Operation::AllToAll => true,
            Operation::ReduceScatter | Operation::Reduce => false,
            Operation::AllReduce | Operation::AllReduceInNetwork => crossing.out <= crossing.into,
        };
        // The side with fewer ranks has the shorter name.
        let inside = 2 * crossing.ranks <= graph.ranks();
        let direction = match out == inside {
            true => Direction::Out,
            false => Direction::In,
        };
        let names = names_in(graph, cut, !inside);
        Ok(Self {
            border: match direction {
                Direction::Out => format!("out of {names}"),
                Direction::In => format!("into {names}"),
            },
            links: links(graph, cut, out),
        })
    }

    /// The links in short: by name if they are few, else by type.
    pub fn summary(&self) -> String {
        if let [link] = &self.links[..]
            && link.hosts == 1
        {
            return format!(
                "{} {}→{} {}",
                link.kind,
                link.from,
                link.to,
                gbps(link.bandwidth)
            );
        }
        let mut kinds: Vec<(&str, u32, f64)> = Vec::new();
        for link in &self.links {
            let total = link.bandwidth * f64::from(link.hosts);
            match kinds.iter_mut().find(|(kind, ..)| *kind == link.kind) {
                Some((_, count, sum)) => {
                    *count += link.hosts;
                    *sum += total;
                }
                None => kinds.push((&link.kind, link.hosts, total)),
            }
        }
        let texts = kinds.iter().map(|(kind, count, sum)| match count {
            1 => format!("{kind} {}", gbps(*sum)),
            _ => format!("{count} {kind} {}", gbps(*sum)),
        });
        texts.collect::<Vec<_>>().join(" + ")
    }
}

/// GB/s with one decimal where it says something.
pub fn gbps(bandwidth: f64) -> String {
    let text = format!("{bandwidth:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The ranks in a set, or outside of it.
fn names_in(graph: &CapacityGraph, cut: &Cut, complement: bool) -> String {
    let mut texts = Vec::new();
    let alone = graph.host_count() == 1;
    for side in &cut.sides {
        let class = &graph.hosts[side.class as usize];
        let all = (0..).zip(&class.vertices).filter(|(_, vertex)| vertex.rank);
        let chosen = all.filter(|(at, _)| side.inside.binary_search(at).is_ok() != complement);
        let names: Vec<&str> = chosen.map(|(_, vertex)| vertex.name.as_str()).collect();
        if names.is_empty() || side.count == 0 {
            continue;
        }
        let hosts = match (side.count, graph.hosts.len()) {
            (1, 1) => "a host".to_owned(),
            (1, _) => format!("a host of {}", class.name),
            (count, 1) => format!("{count} hosts"),
            (count, _) => format!("{count} hosts of {}", class.name),
        };
        texts.push(match (names.len() == class.ranks(), alone) {
            (_, true) => gpus(&names),
            (true, false) => hosts,
            (false, false) => format!("{} of {hosts}", gpus(&names)),
        });
    }
    texts.join(", ")
}

/// `GPU0-3`, or the names one by one.
fn gpus(names: &[&str]) -> String {
    let number = |name: &&str| name.strip_prefix("GPU")?.parse::<i32>().ok();
    let numbers: Option<Vec<i32>> = names.iter().map(number).collect();
    match numbers {
        Some(numbers) => format!("GPU{}", ranges(&numbers, ",")),
        None => names.join(" "),
    }
}

/// The links that make up most of what lengths count.
fn long_links(graph: &CapacityGraph, classes: &[Lengths]) -> Vec<LimitLink> {
    let mut found: Vec<(f64, LimitLink)> = Vec::new();
    for (class, lengths) in graph.hosts.iter().zip(classes) {
        let name = |vertex: u32| match class.vertices.get(vertex as usize) {
            Some(vertex) => vertex.name.clone(),
            None => graph.network[vertex as usize - class.vertices.len()].clone(),
        };
        let links = class.links.iter().zip(&lengths.lengths);
        found.extend(links.map(|(link, length)| {
            let weight = *length as f64 * link.capacity as f64 * f64::from(class.count);
            let link = LimitLink {
                from: name(link.from),
                to: name(link.to),
                kind: link.kind.clone(),
                bandwidth: link.capacity as f64 / f64::from(UNITS),
                hosts: class.count,
            };
            (weight, link)
        }));
    }
    let most = found.iter().map(|(weight, _)| *weight).fold(0.0, f64::max);
    found.retain(|(weight, _)| *weight > most * LONG);
    found.into_iter().map(|(_, link)| link).collect()
}

/// The links that leave a set, or enter it.
fn links(graph: &CapacityGraph, cut: &Cut, out: bool) -> Vec<LimitLink> {
    let mut found: Vec<LimitLink> = Vec::new();
    for side in &cut.sides {
        let class = &graph.hosts[side.class as usize];
        let own = class.vertices.len();
        let inside = |vertex: u32| match (vertex as usize).checked_sub(own) {
            None => side.inside.binary_search(&vertex).is_ok(),
            Some(network) => cut.network.contains(&(network as u32)),
        };
        let name = |vertex: u32| match class.vertices.get(vertex as usize) {
            Some(vertex) => vertex.name.clone(),
            None => graph.network[vertex as usize - own].clone(),
        };
        for link in &class.links {
            let ends = (inside(link.from), inside(link.to));
            if ends == (out, !out) {
                found.push(LimitLink {
                    from: name(link.from),
                    to: name(link.to),
                    kind: link.kind.clone(),
                    bandwidth: link.capacity as f64 / f64::from(UNITS),
                    hosts: side.count,
                });
            }
        }
    }
    found
}
