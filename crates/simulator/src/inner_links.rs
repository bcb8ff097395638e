//! Links that transfers of several GPUs and ports share inside a machine: uplinks of PCI switches,
//! links to host bridges and between sockets. A plan does not hold them; they come from its
//! topology.

use std::collections::BTreeMap;

use crate::model::{Link, LinkKind};
use crate::units::Rate;

/// An end of a transfer inside a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InnerEnd {
    /// A GPU, by its position in the machine.
    Gpu(u32),
    /// A port, by NCCL's id.
    Port(i64),
}

/// The way between two ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InnerRoute {
    /// The links that other transfers may share, as indices into [`InnerLinks::links`].
    pub links: Vec<u32>,
    /// The most that the whole way carries, GB/s, if it was measured; otherwise the plan's
    /// bandwidth holds.
    pub gbps: Option<f64>,
}

/// The shared links of one kind of machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InnerLinks {
    /// One direction of each link: its name and its capacity, GB/s.
    pub links: Vec<(String, f64)>,
    /// The ways between GPUs, and between GPUs and ports, in each direction.
    pub routes: BTreeMap<(InnerEnd, InnerEnd), InnerRoute>,
    /// Measured capacities of GPUs' own links: what they send and receive, GB/s.
    pub own: BTreeMap<u32, [f64; 2]>,
}

impl InnerLinks {
    /// The links of a host, in the order of [`InnerLinks::links`].
    pub(crate) fn of_host(&self) -> impl Iterator<Item = Link> + '_ {
        self.links.iter().map(|(_, gbps)| Link {
            kind: LinkKind::Pci,
            capacity: match *gbps > 0.0 {
                true => Rate::from_gbps(*gbps),
                false => Rate::UNLIMITED,
            },
        })
    }
}
