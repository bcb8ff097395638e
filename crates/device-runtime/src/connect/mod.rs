//! Connections in memory that kernels can access, made when a program first needs them.
//!
//! A connection holds the count of posted slots (*tail*), the count of freed slots (*head*), and
//! the slots. The transport ([`peers`] chooses it) decides where they are:
//!
//! | transport | memory | other end |
//! |---|---|---|
//! | P2P | the receiver's device | the sender's kernel |
//! | SHM | host memory shared by both processes and mapped by both devices | the sender's kernel |
//! | NET | each rank's own host memory, or a device that NICs access | a proxy ([`Network`]) |
//!
//! The receiver publishes an offer without waiting, and the sender fetches it. NCCL keeps the head
//! on the sender's side, where it is cheaper to poll. That would make both sides wait for each
//! other while they bind different programs of a group.
//!
//! [`Network`]: executor::Network

mod buffer_tables;
mod device_info;
mod host;
mod known_regions;
mod known_windows;
mod multicast;
mod net;
mod p2p;
pub(crate) mod peers;
mod trial;

use std::collections::BTreeSet;

use executor::Transport;
use executor::backend::OwnWiring;
use executor::connections::SlotBytes;
use executor::error::Error;
use program::ConnectionEnd;
use program::Protocol;
use rustc_hash::FxHashMap;
use shared_memory::Bell;

use self::buffer_tables::BufferTables;
pub(crate) use self::buffer_tables::{MOST_REGIONS, region_place, shows_buffers};
use self::host::OpenedMemory;
pub(crate) use self::known_regions::{OwnRegion, Regions, Stage};
pub(crate) use self::known_windows::{CallersWindow, CallersWindows, VECTOR_BYTES};
use self::multicast::ScratchWindows;
pub(crate) use self::multicast::{Meeting, NotMade, ScratchWindow};
use self::peers::Peers;
use crate::driver::DeviceDriver;
use crate::entry::Kernel;
use crate::flat::Places;
use crate::layout::{DeviceEnd, DevicePeer};
use crate::process_ranks::ProcessRanks;

/// Slots per FIFO.
const SLOTS: u64 = 8;

/// Distance between two counts, so that they share no cache line, bytes.
const COUNT_BYTES: u64 = 128;

/// Offset of the slots, after tail and head, bytes.
const SLOTS_AT: u64 = 2 * COUNT_BYTES;

/// The content of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Slots(Protocol),
    /// One signal counter per thread block.
    Signals(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    connection: ConnectionEnd,
    kind: Kind,
    incoming: bool,
}

/// The connections of a rank.
#[derive(Default)]
pub(crate) struct RankConnections {
    /// Addresses of the ends.
    ends: FxHashMap<Key, u64>,
    /// Transports to the peers.
    pub peers: Peers,
    /// Buffer tables and windows.
    pub buffer_tables: BufferTables,
    /// The protocol of the program that is being wired.
    pub protocol: Option<Protocol>,
    /// Blocks per lane of that program.
    pub shares: u32,
    /// Multicast windows of scratch memory.
    pub windows: ScratchWindows,
    /// Address of the table of where each window of callers begins in multicast addresses.
    pub callers_windows: Option<u64>,
    /// Memory of other processes of this host.
    opened: OpenedMemory,
    /// Bells of the PXN proxies that forward for this rank.
    pub proxy_bells: Vec<Bell>,
}

/// Distance between two slots, bytes.
fn stride(protocol: Protocol, slot_bytes: &SlotBytes) -> u64 {
    let data = u64::from(slot_bytes.of(protocol));
    let wire = match protocol {
        Protocol::Simple => data,
        // 8 data bytes in a line of 16.
        Protocol::Ll => data.div_ceil(8) * 16,
        // 120 data bytes in a line of 128.
        Protocol::Ll128 => data.div_ceil(120) * 128,
    };
    wire.next_multiple_of(COUNT_BYTES)
}

fn name(from: u32, to: u32, key: &Key) -> String {
    let ConnectionEnd { channel, port, .. } = key.connection;
    let kind = match key.kind {
        Kind::Slots(protocol) => protocol.name(),
        Kind::Signals(shares) => &format!("signals-{shares}"),
    };
    format!("device/{from}>{to}/{channel}/{port}/{kind}")
}

/// Makes the connections of a rank.
pub(crate) struct Connector<'a, 'b, M: DeviceDriver> {
    pub shared: &'a ProcessRanks<M>,
    pub own: &'a mut OwnWiring<'b>,
    pub known: &'a mut RankConnections,
}

/// A new end.
struct New {
    key: Key,
    end: DeviceEnd,
}

impl New {
    /// Bytes of the connection's memory.
    fn bytes(&self) -> u64 {
        match self.key.kind {
            Kind::Slots(_) => SLOTS_AT + SLOTS * self.end.stride,
            Kind::Signals(_) => COUNT_BYTES,
        }
    }

    /// Sets the addresses of a connection at `address`.
    fn put(&mut self, address: u64) {
        let (tail, head) = (address, address + COUNT_BYTES);
        match (self.key.kind, self.key.incoming) {
            (Kind::Signals(_), true) => self.end.theirs = address,
            (Kind::Signals(_), false) => self.end.mine = address,
            (Kind::Slots(_), incoming) => {
                self.end.slots = address + SLOTS_AT;
                (self.end.theirs, self.end.mine) =
                    if incoming { (tail, head) } else { (head, tail) };
            }
        }
    }
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    fn rank(&self) -> u32 {
        self.own.bootstrap.rank()
    }

    fn device(&self) -> u32 {
        self.shared.device(self.rank())
    }

    fn failed(&self, why: String) -> Error {
        let rank = self.rank();
        Error::Device { rank, why }
    }

    /// Makes the connections that a program needs and that do not exist yet.
    pub fn connect(&mut self) -> Result<(), Error> {
        self.known.protocol = Some(self.own.protocol);
        let bound = self.own.bound;
        let blocks = self.known.peers.blocks.of(Kernel::of(self.own.reduces));
        self.known.shares = self.shared.shares(blocks, bound);
        let slots = Kind::Slots(self.own.protocol);
        let signals = Kind::Signals(self.known.shares);
        let key = |kind, incoming| {
            move |connection: &ConnectionEnd| Key {
                connection: *connection,
                kind,
                incoming,
            }
        };
        let keys = bound.receives.iter().map(key(slots, true));
        let keys = keys.chain(bound.waits.iter().map(key(signals, true)));
        let keys = keys.chain(bound.sends.iter().map(key(slots, false)));
        let keys = keys.chain(bound.notifies.iter().map(key(signals, false)));
        let mut new: Vec<New> = Vec::new();
        for key in keys {
            if !self.known.ends.contains_key(&key) && new.iter().all(|other| other.key != key) {
                let mut end = DeviceEnd::default();
                if let Kind::Slots(protocol) = key.kind {
                    end.stride = stride(protocol, &self.shared.options.slot_bytes);
                    end.step = self.shared.options.first_step;
                    end.seen = self.shared.options.first_step;
                }
                new.push(New { key, end });
            }
        }
        self.offer(&mut new, Transport::P2p)?;
        self.offer(&mut new, Transport::Shm)?;
        self.connect_net(&mut new)?;
        self.fetch(&mut new)?;
        self.place(&new)?;
        self.meet_buffer_tables()?;
        self.meet_window()
    }

    fn transport(&self, key: &Key) -> Transport {
        self.known.peers.transport(key.connection.peer)
    }

    /// Allocates the receiving ends of one transport and publishes offers for them.
    fn offer(&mut self, new: &mut [New], transport: Transport) -> Result<(), Error> {
        let mut own: Vec<&mut New> = new
            .iter_mut()
            .filter(|new| new.key.incoming && self.transport(&new.key) == transport)
            .collect();
        let all: u64 = own.iter().map(|new| new.bytes()).sum();
        if all == 0 {
            return Ok(());
        }
        let alone = self.known.peers.is_alone();
        let memory = match transport {
            Transport::Shm => self.share(all)?,
            _ => self.device_memory(all, alone)?,
        };
        let rank = self.rank();
        let mut offset = 0;
        for new in &mut own {
            new.put(memory.address + offset);
            self.begin_slots(new)?;
            let name = name(new.key.connection.peer, rank, &new.key);
            match memory.handle {
                Some(handle) => self.say(&name, &(handle, offset))?,
                None => {
                    let offered = self.offered(memory.address + offset, alone)?;
                    self.say(&name, &offered)?;
                }
            }
            offset += new.bytes();
        }
        Ok(())
    }

    /// Gives counts and slots the initial values that the options ask for.
    fn begin_slots(&self, new: &New) -> Result<(), Error> {
        let New { key, end } = new;
        let options = &self.shared.options;
        let driver = &self.shared.driver;
        let device = self.device();
        let failed = |why| self.failed(why);
        let Kind::Slots(protocol) = key.kind else {
            return Ok(());
        };
        if options.first_step > 0 {
            let first = options.first_step.to_le_bytes();
            for count in [end.theirs, end.mine] {
                driver.write(device, count, &first).map_err(failed)?;
            }
        }
        if options.stale_flag != 0 && protocol == Protocol::Ll {
            let half_line = [0x5a5a_5a5a_u32, options.stale_flag];
            let lines = half_line.repeat((SLOTS * end.stride / 8) as usize);
            let bytes = bytemuck::cast_slice(&lines);
            driver.write(device, end.slots, bytes).map_err(failed)?;
        }
        Ok(())
    }

    /// Fetches the receivers' offers.
    fn fetch(&mut self, new: &mut [New]) -> Result<(), Error> {
        let rank = self.rank();
        for new in new.iter_mut().filter(|new| !new.key.incoming) {
            let peer = new.key.connection.peer;
            let name = name(rank, peer, &new.key);
            match self.transport(&new.key) {
                Transport::P2p => new.put(self.fetch_address(peer, &name, new.bytes())?),
                Transport::Shm => new.put(self.open_shared(peer, &name, new.bytes())?),
                Transport::Net => {}
            }
        }
        Ok(())
    }

    /// Writes the ends to device memory.
    fn place(&mut self, new: &[New]) -> Result<(), Error> {
        if new.is_empty() {
            return Ok(());
        }
        let mut ends: Vec<DeviceEnd> = Vec::with_capacity(new.len());
        let mut first = Vec::with_capacity(new.len());
        for New { key, end } in new {
            first.push(ends.len() as u64);
            match key.kind {
                Kind::Slots(_) => ends.push(*end),
                // Each block increments its own counter. Waiting blocks check the counters of all.
                Kind::Signals(shares) => {
                    ends.extend((0..u64::from(shares)).map(|share| DeviceEnd {
                        mine: end.mine + share * size_of::<u64>() as u64,
                        ..*end
                    }))
                }
            }
        }
        let bytes: &[u8] = bytemuck::cast_slice(&ends);
        let address = self.allocate(bytes.len() as u64, true)?;
        let wrote = self.shared.driver.write(self.device(), address, bytes);
        wrote.map_err(|why| self.failed(why))?;
        for (new, at) in new.iter().zip(first) {
            let address = address + at * size_of::<DeviceEnd>() as u64;
            self.known.ends.insert(new.key, address);
        }
        Ok(())
    }
}

impl RankConnections {
    /// The ranks among `ranks` that are in this process (`local`) or in others, sorted.
    pub(crate) fn ranks(&self, ranks: impl Iterator<Item = u32>, local: bool) -> Vec<u32> {
        let found = ranks.filter(|rank| self.peers.is_local(*rank) == local);
        found.collect::<BTreeSet<u32>>().into_iter().collect()
    }

    fn end(&self, connection: &ConnectionEnd, kind: Option<Kind>, incoming: bool) -> u64 {
        let key = kind.map(|kind| Key {
            connection: *connection,
            kind,
            incoming,
        });
        // All ends exist: wiring comes before preparing.
        let end = key.and_then(|key| self.ends.get(&key));
        end.copied().unwrap_or_default()
    }
}

impl Places for RankConnections {
    fn receiver(&self, connection: &ConnectionEnd) -> u64 {
        self.end(connection, self.protocol.map(Kind::Slots), true)
    }

    fn sender(&self, connection: &ConnectionEnd) -> u64 {
        self.end(connection, self.protocol.map(Kind::Slots), false)
    }

    fn awaited(&self, connection: &ConnectionEnd) -> u64 {
        self.end(connection, Some(Kind::Signals(self.shares)), true)
    }

    fn given(&self, connection: &ConnectionEnd) -> u64 {
        self.end(connection, Some(Kind::Signals(self.shares)), false)
    }

    fn multicast(&self) -> u64 {
        let window = self.windows.of_program.as_ref();
        window.map_or(0, |it| it.addresses.all)
    }

    fn registered_windows(&self) -> DevicePeer {
        DevicePeer {
            table: self.buffer_tables.own.unwrap_or_default(),
            regions: self.callers_windows.unwrap_or_default(),
        }
    }

    fn peer(&self, rank: u32) -> DevicePeer {
        let table = self.buffer_tables.of_peers.get(&rank);
        let regions = self.buffer_tables.regions;
        DevicePeer {
            table: table.copied().unwrap_or_default(),
            regions: regions.map_or(0, |address| region_place(address, rank, 0)),
        }
    }
}
