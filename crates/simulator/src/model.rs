//! The simulated model: lanes that pass slots over connections, whose routes share links.

use crate::units::{Rate, Time};

/// The kind of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// NVLink of a GPU, or between two GPUs.
    NvLink,
    /// PCI Express, and everything else inside a host.
    Pci,
    /// A port of a NIC.
    Nic,
    /// Between switches of the network.
    Fabric,
    /// The memory and units with which a rank reduces and copies.
    Rank,
}

/// One direction of a link, which all transfers over it share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// Its kind.
    pub kind: LinkKind,
    /// Its capacity.
    pub capacity: Rate,
}

/// How a connection moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The step itself moves the slot to the receiver, and lasts until it has arrived there.
    Direct,
    /// The step fills a slot of the sender; a proxy sends slots one after the other, and the
    /// receiver has room for so many.
    Network {
        /// Slots of the receiver.
        window: u32,
    },
    /// No data: the receiver is told.
    Signal,
    /// The lane's own access to a peer's memory, or its local work. There is no receiver.
    Access,
}

/// From one lane to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The lane that sends, as an index into [`Model::lanes`].
    pub sender: u32,
    /// The connection's index among the sender's ends.
    pub sender_end: u32,
    /// The lane that receives; the sender itself for [`Transport::Access`].
    pub receiver: u32,
    /// The connection's index among the receiver's ends.
    pub receiver_end: u32,
    /// How data moves.
    pub transport: Transport,
    /// The links, as a range of [`Model::routes`].
    pub route: (u32, u32),
    /// The limit of the connection alone, whatever the capacity of its links.
    pub limit: Rate,
    /// The kind of the link that gives `limit`.
    pub limit_kind: LinkKind,
    /// From the end of a transfer until the receiver sees it.
    pub latency: Time,
    /// Slots of the FIFO.
    pub slots: u32,
    /// Bytes on the links for each slot beside its data.
    pub header: u32,
    /// Bytes on the links per byte of data, as a fraction.
    pub expansion: (u32, u32),
}

impl Connection {
    /// Bytes on the links for a slot.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        let (over, under) = (u64::from(self.expansion.0), u64::from(self.expansion.1));
        (bytes * over).div_ceil(under.max(1)) + u64::from(self.header)
    }
}

/// The use of one of a lane's ends by a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// Takes a slot.
    Receive,
    /// Fills a slot.
    Send,
    /// Consumes a signal.
    Wait,
    /// Sends a signal.
    Notify,
    /// Moves data from or to a peer's memory.
    Access,
}

/// A step without addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// Bytes that each FIFO and peer gets or gives.
    pub bytes: u64,
    /// Bytes of local work: those that are reduced or copied, counted once for each operand on the
    /// side that has more.
    pub work: u64,
    /// The step's uses, as a range of [`Shape::uses`].
    pub uses: (u32, u32),
}

/// The steps of a lane, which lanes of several ranks may have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The ends of the lane.
    pub ends: u32,
    /// All steps: before the turns, one full turn, the last turn, after the turns.
    pub steps: Vec<Step>,
    /// Where the full turn begins in `steps`, where it ends, and where the steps after the turns
    /// begin.
    pub marks: [u32; 3],
    /// Full turns.
    pub turns: u64,
    /// The uses of all steps: what, and the end's index.
    pub uses: Vec<(Use, u32)>,
}

impl Shape {
    /// Steps that a lane executes.
    pub fn executed(&self) -> u64 {
        let body = u64::from(self.marks[1] - self.marks[0]);
        self.steps.len() as u64 - body + body * self.turns
    }
}

/// A lane of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// The rank.
    pub rank: u32,
    /// The channel.
    pub channel: u16,
    /// Its steps, as an index into [`Model::shapes`].
    pub shape: u32,
    /// Its first end in [`Model::ends`]; the shape says how many there are.
    pub ends: u32,
    /// The connection of its local work; `None` if work takes no time.
    pub work: Option<u32>,
    /// When it begins.
    pub start: Time,
}

/// A job for the simulator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The links.
    pub links: Vec<Link>,
    /// The lanes, by rank.
    pub lanes: Vec<Lane>,
    /// Their steps.
    pub shapes: Vec<Shape>,
    /// The connections of all lanes' ends, as indices into `connections`.
    pub ends: Vec<u32>,
    /// The connections.
    pub connections: Vec<Connection>,
    /// Links of routes, each with the number of transfers that it carries for one of the
    /// connection: 1, and more where equal connections are simulated once.
    pub routes: Vec<(u32, u32)>,
}

impl Model {
    /// The links of a connection.
    pub fn route(&self, connection: &Connection) -> &[(u32, u32)] {
        &self.routes[connection.route.0 as usize..connection.route.1 as usize]
    }

    /// The ends of a lane, as indices into `connections`.
    pub fn ends_of(&self, lane: &Lane) -> &[u32] {
        let count = self.shapes[lane.shape as usize].ends;
        &self.ends[lane.ends as usize..(lane.ends + count) as usize]
    }

    /// The steps that all lanes execute.
    pub fn executed(&self) -> u64 {
        let shapes = self.lanes.iter().map(|lane| lane.shape as usize);
        shapes.map(|shape| self.shapes[shape].executed()).sum()
    }

    /// The rate of a connection when nothing else is transferred, and the kind of link that limits
    /// it.
    pub fn alone(&self, connection: &Connection) -> (Rate, LinkKind) {
        let links = self.route(connection).iter();
        let links = links.map(|(link, _)| self.links[*link as usize]);
        links.fold(
            (connection.limit, connection.limit_kind),
            |(least, kind), link| {
                if link.capacity < least {
                    (link.capacity, link.kind)
                } else {
                    (least, kind)
                }
            },
        )
    }
}
