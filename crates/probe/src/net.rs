//! The network devices that NCCL's own transports would list, in their order.

use crate::JsonSchema;
use serde::Serialize;
use topology::NameList;

use crate::ProbeOptions;
use crate::machine::bus_id::first_function;
use crate::machine::{Adapter, Machine, RdmaPort};

/// Most queue pairs of recent ConnectX adapters, assumed because sysfs does not tell the number.
const RDMA_CONNECTIONS: i32 = 131_072;

/// Most connections of a socket device in NCCL.
const SOCKET_CONNECTIONS: i32 = 65_536;

/// Speed that NCCL assumes for a socket device of unknown speed, Mb/s.
const SOCKET_SPEED: i32 = 10_000;

/// Most socket devices that NCCL lists.
const MOST_SOCKETS: usize = 16;

/// A network device as NCCL lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProbedNet {
    /// Name.
    pub name: String,
    /// Device number.
    pub dev: usize,
    /// The PCI function; `None` for virtual devices.
    pub bus_id: Option<String>,
    /// Speed, Mb/s.
    pub speed: i32,
    /// RdmaPort number.
    pub port: i32,
    /// Guid.
    pub guid: u64,
    /// Most connections.
    pub connections: i32,
    /// Whether it can access GPU memory.
    pub direct_access: bool,
    /// Whether it supports RDMA.
    pub rdma: bool,
}

/// Lists active RDMA ports, or interfaces if there are none.
pub fn list(machine: &Machine, options: &ProbeOptions) -> Vec<ProbedNet> {
    let mut nets = Vec::new();
    if !options.ib_disable {
        nets = rdma(machine, options, RdmaPort::is_verbs);
        if nets.is_empty() {
            // Adapters that need a vendor's plug-in (EFA) have an unspecified link layer.
            nets = rdma(machine, options, |port| !port.is_verbs());
        }
    }
    if nets.is_empty() {
        nets = sockets(machine, options);
    }
    for (dev, net) in nets.iter_mut().enumerate() {
        net.dev = dev;
        if !net.rdma {
            net.guid = dev as u64;
        }
    }
    nets
}

fn rdma(
    machine: &Machine,
    options: &ProbeOptions,
    speaks: impl Fn(&RdmaPort) -> bool,
) -> Vec<ProbedNet> {
    let filter = NameList::new(options.ib_hca.as_deref().unwrap_or_default());
    let mut nets: Vec<ProbedNet> = Vec::new();
    for adapter in &machine.adapters {
        for port in adapter
            .ports
            .iter()
            .filter(|port| port.is_active() && speaks(port))
        {
            if !filter.takes(&adapter.name, Some(port.number)) {
                continue;
            }
            let bus_id = merged_function(machine, adapter);
            // Functions of one board count as its ports.
            let before = match &bus_id {
                Some(bus_id) => nets
                    .iter()
                    .filter(|net| net.bus_id.as_ref() == Some(bus_id))
                    .count(),
                None => 0,
            };
            nets.push(ProbedNet {
                name: adapter.name.clone(),
                dev: 0,
                speed: port.rate.unwrap_or(0),
                port: port.number.saturating_add(before as i32),
                guid: adapter.guid.unwrap_or(0),
                connections: RDMA_CONNECTIONS,
                direct_access: machine.direct.is_possible(),
                rdma: true,
                bus_id,
            });
        }
    }
    nets
}

/// The function that represents all ports of a board: its first.
fn merged_function(machine: &Machine, adapter: &Adapter) -> Option<String> {
    let own = adapter.bus_id.as_ref()?;
    let first = first_function(own);
    // Guests see functions without the first one.
    let is_right = machine.pci.get(&first).is_some() || machine.pci.get(own).is_none();
    Some(if is_right { first } else { own.clone() })
}

fn sockets(machine: &Machine, options: &ProbeOptions) -> Vec<ProbedNet> {
    let filter = options.socket_ifname.as_deref().map(NameList::new);
    let usable = machine.interfaces.iter().filter(|interface| {
        interface.is_up()
            && match &filter {
                Some(filter) => filter.takes(&interface.name, None),
                None => {
                    !interface.is_loopback
                        && !["docker", "virbr"]
                            .iter()
                            .any(|prefix| interface.name.starts_with(prefix))
                }
            }
    });
    let nets = usable.take(MOST_SOCKETS).map(|interface| ProbedNet {
        name: interface.name.clone(),
        dev: 0,
        bus_id: interface.bus_id.clone(),
        speed: interface.speed.unwrap_or(SOCKET_SPEED),
        port: 0,
        guid: 0,
        connections: SOCKET_CONNECTIONS,
        direct_access: false,
        rdma: false,
    });
    nets.collect()
}
