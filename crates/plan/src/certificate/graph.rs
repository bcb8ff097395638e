//! The capacity graph of a job: equal hosts once, and the network that joins them.

use crate::JsonSchema;
use program::named;
use serde::{Deserialize, Serialize};

use super::bounded::{MOST, bounded_list};
use super::error::CertificateError;
use crate::error::excerpt;

/// Units of bandwidth per GB/s: capacities count 0.1 MB/s.
pub const UNITS: u32 = 10_000;

/// Most links for each vertex of a graph that is written out.
const MOST_DEGREE: usize = 64;

/// Which links a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSet {
    /// Links, and turns at PCI switches, on paths of NCCL's routing table for the job.
    Rules,
    /// Every link and every turn.
    All,
}

named!(LinkSet, "set of links", |known, text| known.name().eq_ignore_ascii_case(text), {
    Rules = "rules",
    All = "all",
});

/// The links of a job with their bandwidths.
///
/// Vertices of a host have the numbers 0, 1, …; the network's vertices follow them, so vertex
/// `vertices.len() + n` of a host is vertex `n` of the network, which all hosts share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacityGraph {
    /// Names of the network's vertices.
    #[serde(deserialize_with = "bounded_list")]
    pub network: Vec<String>,
    /// The different hosts.
    pub hosts: Vec<HostClass>,
}

/// Equal hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostClass {
    /// Name of the machine.
    pub name: String,
    /// Number of these hosts in the job.
    pub count: u32,
    /// Devices, switches and ports of one host. The job's rank 0 is the first rank of the first
    /// class.
    #[serde(deserialize_with = "bounded_list")]
    pub vertices: Vec<Vertex>,
    /// Links of one host, each direction by itself.
    pub links: Vec<DirectedLink>,
}

/// A device, switch or port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vertex {
    /// Its name, such as `GPU3`.
    pub name: String,
    /// Whether a rank runs here, which computes and stores. Other vertices only forward.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rank: bool,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectedLink {
    /// The vertex where it begins.
    pub from: u32,
    /// The vertex where it ends.
    pub to: u32,
    /// The type of the link, such as `NVL`.
    pub kind: String,
    /// Bandwidth, 0.1 MB/s.
    pub capacity: u64,
}

/// The graph with every host written out. Vertices of the network come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenOut {
    /// Whether a rank runs at each vertex.
    pub ranks: Vec<bool>,
    /// Where each link begins and ends, and its capacity, host after host.
    pub links: Vec<(u32, u32, u64)>,
}

impl HostClass {
    /// Ranks of one host.
    pub fn ranks(&self) -> usize {
        self.vertices.iter().filter(|vertex| vertex.rank).count()
    }
}

impl CapacityGraph {
    /// Ranks of the job.
    pub fn ranks(&self) -> u128 {
        let ranks = |class: &HostClass| class.ranks() as u128 * u128::from(class.count);
        self.hosts.iter().map(ranks).sum()
    }

    /// Hosts of the job.
    pub fn host_count(&self) -> u64 {
        self.hosts.iter().map(|class| u64::from(class.count)).sum()
    }

    /// The class and vertex of the job's rank 0; `None` without ranks.
    pub fn root(&self) -> Option<(u32, u32)> {
        let has_ranks = |class: &HostClass| class.ranks() > 0;
        let class = self.hosts.iter().position(has_ranks)?;
        let vertices = &self.hosts[class].vertices;
        let vertex = vertices.iter().position(|vertex| vertex.rank)?;
        Some((class as u32, vertex as u32))
    }

    /// Checks that all numbers are in range.
    ///
    /// # Errors
    /// A class has no host, a link ends nowhere, or there are fewer than two ranks.
    pub fn validate(&self) -> Result<(), CertificateError> {
        let refuse = |at: String, problem: String| CertificateError::Graph { at, problem };
        if self.hosts.len() > MOST || self.network.len() > MOST {
            return Err(refuse("hosts".into(), format!("more than {MOST} entries")));
        }
        let vertices = self.hosts.iter().flat_map(|class| &class.vertices);
        let mut names = self.network.iter().chain(vertices.map(|it| &it.name));
        if let Some(name) = names.find(|it| it.contains(char::is_control)) {
            let problem = format!(
                "the vertex {} has a control character in its name",
                excerpt(name)
            );
            return Err(refuse("hosts".into(), problem));
        }
        for (at, class) in self.hosts.iter().enumerate() {
            let place = format!("hosts[{at}]");
            if class.count == 0 || class.vertices.is_empty() {
                return Err(refuse(place, "no host of this class, or no vertex".into()));
            }
            if class.vertices.len() > MOST || class.links.len() > MOST {
                return Err(refuse(place, format!("more than {MOST} entries")));
            }
            let vertices = (class.vertices.len() + self.network.len()) as u32;
            for (number, link) in class.links.iter().enumerate() {
                if link.from >= vertices || link.to >= vertices || link.from == link.to {
                    let problem = format!(
                        "a link from vertex {} to vertex {}; expected two of the {vertices} vertices",
                        link.from, link.to
                    );
                    return Err(refuse(format!("{place}.links[{number}]"), problem));
                }
            }
        }
        match self.ranks() {
            0 | 1 => Err(refuse(
                "hosts".into(),
                format!("{} ranks; expected at least 2", self.ranks()),
            )),
            _ => Ok(()),
        }
    }

    /// The graph with every host written out; `None` if it has more than `most` vertices, or more
    /// than 64 links for each of `most` vertices.
    pub fn written_out(&self, most: usize) -> Option<WrittenOut> {
        let mut all = WrittenOut {
            ranks: vec![false; self.network.len()],
            links: Vec::new(),
        };
        for class in &self.hosts {
            let own = class.vertices.len();
            for _ in 0..class.count {
                let first = all.ranks.len();
                let links = all.links.len() + class.links.len();
                if first + own > most || links > most * MOST_DEGREE {
                    return None;
                }
                let number = |vertex: u32| match vertex as usize {
                    vertex if vertex < own => first + vertex,
                    vertex => vertex - own,
                };
                all.ranks
                    .extend(class.vertices.iter().map(|vertex| vertex.rank));
                all.links.extend(class.links.iter().map(|link| {
                    (
                        number(link.from) as u32,
                        number(link.to) as u32,
                        link.capacity,
                    )
                }));
            }
        }
        Some(all)
    }
}
