//! Connections in memory that the machine's kernels reach, made when a program first needs them.
//!
//! A connection's memory holds the count of posted slots (*tail*), the count of slots that were given back (*head*), and the
//! slots. Where it lies depends on the transport ([`peers`] chooses it):
//!
//! | transport | memory | who has the other end |
//! |---|---|---|
//! | P2P | the receiver's device, which the sender accesses | the sender's kernel |
//! | SHM | the host, shared by both processes and known to both devices | the sender's kernel |
//! | NET | the host, at each rank for itself; slots of a device that NICs reach lie there | whatever carries slots between hosts ([`executor::Network`]) |
//!
//! The receiver offers it and waits for nobody; the sender fetches the offer. NCCL has the head with the sender, which polls
//! it; but then each would wait for the other while they bind different programs of a group.

mod buffer_tables;
mod host;
mod multicast;
mod net;
mod p2p;
pub(crate) mod peers;

use executor::Transport;
use executor::backend::OwnWiring;
use executor::connections::SlotBytes;
use executor::error::Error;
use program::ConnectionEnd;
use program::Protocol;
use rustc_hash::FxHashMap;
use shared_memory::Bell;

use self::buffer_tables::Boards;
pub(crate) use self::buffer_tables::shows_buffers;
use self::host::Opened;
use self::multicast::Windows;
use self::peers::Peers;
use crate::flat::Places;
use crate::layout::End;
use crate::machine::DeviceDriver;
use crate::process_ranks::ProcessRanks;

/// Slots of a FIFO.
const SLOTS: u64 = 8;

/// Bytes between two counts, so that they share no cache line.
const COUNT_BYTES: u64 = 128;

/// Where the slots begin, behind tail and head, bytes.
const SLOTS_AT: u64 = 2 * COUNT_BYTES;

/// What flows through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Slots(Protocol),
    /// Of so many blocks, each of which has its own count.
    Signals(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    connection: ConnectionEnd,
    kind: Kind,
    incoming: bool,
}

/// What a rank has, and how it reaches others.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    /// Addresses of its ends.
    ends: FxHashMap<Key, u64>,
    /// How the others are reached.
    pub peers: Peers,
    /// Where buffers are that others access.
    pub buffer_tables: Boards,
    /// The protocol of the program that is resolved.
    pub protocol: Option<Protocol>,
    /// Blocks that carry out each of its lanes together.
    pub shares: u32,
    /// Scratch memory that all ranks reach at once.
    pub windows: Windows,
    /// Memory of other processes of this host.
    opened: Opened,
    /// Bells of those that carry for this rank what it handed over.
    pub carriers: Vec<Bell>,
}

/// Bytes from one slot to the next.
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
    pub process_ranks: &'a ProcessRanks<M>,
    pub own: &'a mut OwnWiring<'b>,
    pub known: &'a mut Connected,
}

/// An end that is being made.
struct New {
    key: Key,
    end: End,
}

impl New {
    /// Bytes of its connection's memory.
    fn bytes(&self) -> u64 {
        match self.key.kind {
            Kind::Slots(_) => SLOTS_AT + SLOTS * self.end.stride,
            Kind::Signals(_) => COUNT_BYTES,
        }
    }

    /// Says where its connection's memory is.
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
        self.process_ranks.device(self.rank())
    }

    fn failed(&self, why: String) -> Error {
        let rank = self.rank();
        Error::Device { rank, why }
    }

    /// Makes what a program needs and is not there.
    pub fn connect(&mut self) -> Result<(), Error> {
        self.known.protocol = Some(self.own.protocol);
        let bound = self.own.bound;
        self.known.shares = self.process_ranks.shares(self.known.peers.blocks, bound);
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
                let mut end = End::default();
                if let Kind::Slots(protocol) = key.kind {
                    end.stride = stride(protocol, &self.process_ranks.options.slot_bytes);
                    end.step = self.process_ranks.options.first_step;
                    end.seen = self.process_ranks.options.first_step;
                }
                new.push(New { key, end });
            }
        }
        self.offer(&mut new, Transport::P2p)?;
        self.offer(&mut new, Transport::Shm)?;
        self.carry(&mut new)?;
        self.fetch(&mut new)?;
        self.place(&new)?;
        self.meet_buffer_tables()?;
        self.meet_window()
    }

    fn transport(&self, key: &Key) -> Transport {
        self.known.peers.transport(key.connection.peer)
    }

    /// Makes the memory of receiving ends that are reached so, and offers it.
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
            let text = match &memory.handle {
                Some(handle) => format!("{handle} {offset}"),
                None => self.word(memory.address + offset, alone)?,
            };
            let peer = new.key.connection.peer;
            let segment = None;
            let offer = executor::bootstrap::Offer { text, segment };
            self.own
                .bootstrap
                .publish(&name(peer, rank, &new.key), offer)?;
            offset += new.bytes();
        }
        Ok(())
    }

    /// Makes counts and slots look as if they had been used before, if the options say so.
    fn begin_slots(&self, new: &New) -> Result<(), Error> {
        let New { key, end } = new;
        let options = &self.process_ranks.options;
        let machine = &self.process_ranks.machine;
        let device = self.device();
        let failed = |why| self.failed(why);
        let Kind::Slots(protocol) = key.kind else {
            return Ok(());
        };
        if options.first_step > 0 {
            let first = options.first_step.to_le_bytes();
            for count in [end.theirs, end.mine] {
                machine.write(device, count, &first).map_err(failed)?;
            }
        }
        if options.stale_flag != 0 && protocol == Protocol::Ll {
            let half_line = [0x5a5a_5a5a_u32, options.stale_flag];
            let lines = half_line.repeat((SLOTS * end.stride / 8) as usize);
            let bytes = bytemuck::cast_slice(&lines);
            machine.write(device, end.slots, bytes).map_err(failed)?;
        }
        Ok(())
    }

    /// Takes what the receivers offer.
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

    /// Puts the ends where kernels find them.
    fn place(&mut self, new: &[New]) -> Result<(), Error> {
        if new.is_empty() {
            return Ok(());
        }
        let mut ends: Vec<End> = Vec::with_capacity(new.len());
        let mut first = Vec::with_capacity(new.len());
        for New { key, end } in new {
            first.push(ends.len() as u64);
            match key.kind {
                Kind::Slots(_) => ends.push(*end),
                // Each block tells its own count, and looks at those of all.
                Kind::Signals(shares) => ends.extend((0..u64::from(shares)).map(|share| End {
                    mine: end.mine + share * size_of::<u64>() as u64,
                    ..*end
                })),
            }
        }
        let bytes: &[u8] = bytemuck::cast_slice(&ends);
        let address = self.allocate(bytes.len() as u64, true)?;
        let wrote = self
            .process_ranks
            .machine
            .write(self.device(), address, bytes);
        wrote.map_err(|why| self.failed(why))?;
        for (new, at) in new.iter().zip(first) {
            let address = address + at * size_of::<End>() as u64;
            self.known.ends.insert(new.key, address);
        }
        Ok(())
    }
}

impl Connected {
    /// Those of some ranks that are in this process.
    pub(crate) fn local(&self, ranks: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut local: Vec<u32> = ranks.filter(|rank| self.peers.is_local(*rank)).collect();
        local.sort_unstable();
        local.dedup();
        local
    }

    /// Those of some ranks that are in other processes.
    pub(crate) fn remote(&self, ranks: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut remote: Vec<u32> = ranks.filter(|rank| !self.peers.is_local(*rank)).collect();
        remote.sort_unstable();
        remote.dedup();
        remote
    }

    fn end(&self, connection: &ConnectionEnd, kind: Option<Kind>, incoming: bool) -> u64 {
        let key = kind.map(|kind| Key {
            connection: *connection,
            kind,
            incoming,
        });
        // Wiring made all ends of the program before it is prepared.
        let end = key.and_then(|key| self.ends.get(&key));
        end.copied().unwrap_or_default()
    }
}

impl Places for Connected {
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

    fn everywhere(&self) -> u64 {
        self.windows.of_program.map_or(0, |window| window.all)
    }

    fn buffer_table(&self, rank: u32) -> u64 {
        let known = self.buffer_tables.of_peers.get(&rank);
        known.copied().unwrap_or_default()
    }

    fn window(&self, rank: u32) -> u64 {
        let known = self.buffer_tables.windows.get(&rank);
        known.copied().unwrap_or_default()
    }
}
