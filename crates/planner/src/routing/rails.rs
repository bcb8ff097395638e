//! The rail and the plane of each port: its own, or from NCCL 2.32 on those that follow from its
//! card and its number.

use topology::{NodeId, NodeType, System};

use super::Routing;
use crate::rules::Rules;

/// The first bits of derived rails and planes.
const DERIVED: i32 = 1 << 16;

/// The rail and the plane of a port; `None` where it has none. Ports of different planes never meet
/// in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortRail {
    /// Ports of one rail reach each other best.
    pub rail: Option<i32>,
    /// A network of its own.
    pub plane: Option<i32>,
}

/// The rails of all ports, in node order.
pub(super) fn of(system: &System, rules: Rules) -> Vec<PortRail> {
    if !rules.reads_rails {
        return vec![PortRail::default(); system.count(NodeType::Net)];
    }
    let host = |node: NodeId| system.node(node).id.system();
    system
        .nets()
        .map(|(node, net)| {
            let derived = |value: i32| rules.derives_rails.then_some(DERIVED + value);
            // Cards of the host whose first port has a lower device number.
            let cards = || {
                let ports = system
                    .nets()
                    .filter(|(other, _)| host(*other) == host(node));
                let mut first: Vec<(u64, i32)> = Vec::new();
                for (_, port) in ports {
                    match first.iter_mut().find(|(asic, _)| *asic == port.asic) {
                        Some((_, dev)) => *dev = port.dev.min(*dev),
                        None => first.push((port.asic, port.dev)),
                    }
                }
                let own = first.iter().find(|(asic, _)| *asic == net.asic);
                let own = own.map_or(net.dev, |(_, dev)| *dev);
                first.iter().filter(|(_, dev)| *dev < own).count() as i32
            };
            PortRail {
                rail: net.rail.or_else(|| derived(cards())),
                plane: net.plane.or_else(|| derived(net.port)),
            }
        })
        .collect()
}

impl Routing {
    /// The rail and the plane of a port.
    pub fn rail(&self, net: NodeId) -> PortRail {
        self.rails[self.system.position(net)]
    }

    /// Ports in the order of their rails' first ports, those of one rail together by plane, with
    /// the index at which each rail begins.
    pub(super) fn by_rail(&self, ports: &[NodeId]) -> (Vec<NodeId>, Vec<usize>) {
        let (mut ordered, mut begins) = (Vec::with_capacity(ports.len()), Vec::new());
        for (index, port) in ports.iter().enumerate() {
            let rail = self.rail(*port).rail;
            let same = |other: &&NodeId| rail.is_some() && self.rail(**other).rail == rail;
            if ports[..index].iter().any(|other| same(&other)) {
                continue;
            }
            let begin = ordered.len();
            begins.push(begin);
            ordered.push(*port);
            ordered.extend(ports[index + 1..].iter().filter(same));
            // Stable: ports of one plane keep their order.
            ordered[begin..].sort_by_key(|port| self.rail(*port).plane);
        }
        (ordered, begins)
    }
}
