//! Connections in the machine's memory, made when a program first needs them.
//!
//! A connection's memory lies with the receiver: the count of posted slots (*tail*), the count of slots that were given back
//! (*head*), the slots. The receiver offers it and waits for nobody; the sender fetches the offer. NCCL has the head with the
//! sender, which polls it; but then each would wait for the other while they bind different programs of a group.

use executor::backend::OwnWiring;
use executor::bootstrap::Offer;
use executor::connections::SlotBytes;
use executor::error::Error;
use plan::Protocol;
use plan::program::Connection;
use rustc_hash::FxHashMap;

use crate::flat::Places;
use crate::fleet::Fleet;
use crate::layout::{Board, End};
use crate::machine::Machine;

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
    connection: Connection,
    kind: Kind,
    incoming: bool,
}

/// Addresses of the ends that a rank has.
#[derive(Debug, Default)]
pub struct Connected {
    ends: FxHashMap<Key, u64>,
    boards: FxHashMap<u32, u64>,
    own_board: Option<u64>,
    protocol: Option<Protocol>,
    /// Blocks that carry out each lane together.
    shares: u32,
    /// The address that stands for the scratch memory of all ranks, of the program that is resolved.
    pub(crate) everywhere: u64,
    /// Ranks of this process.
    local: Vec<u32>,
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
    let Connection { channel, port, .. } = key.connection;
    let kind = match key.kind {
        Kind::Slots(protocol) => protocol.name(),
        Kind::Signals(shares) => &format!("signals-{shares}"),
    };
    format!("device/{from}>{to}/{channel}/{port}/{kind}")
}

/// Makes the connections of a rank.
pub(crate) struct Connector<'a, 'b, M: Machine> {
    pub fleet: &'a Fleet<M>,
    pub own: &'a mut OwnWiring<'b>,
    pub known: &'a mut Connected,
}

/// An end that is being made.
struct New {
    key: Key,
    end: End,
}

impl<M: Machine> Connector<'_, '_, M> {
    fn rank(&self) -> u32 {
        self.own.bootstrap.rank()
    }

    fn device(&self) -> u32 {
        self.fleet.device(self.rank())
    }

    fn failed(&self, why: String) -> Error {
        let rank = self.rank();
        Error::Machine { rank, why }
    }

    /// Makes what a program needs and is not there.
    pub fn connect(&mut self) -> Result<(), Error> {
        self.known.protocol = Some(self.own.protocol);
        if self.known.local.is_empty() {
            let all = 0..self.own.bootstrap.ranks();
            let local = all.filter(|peer| self.own.bootstrap.shares_memory(*peer));
            self.known.local = local.collect();
        }
        let bound = self.own.bound;
        if bound.multicasts && self.known.local.len() < self.own.bootstrap.ranks() as usize {
            return Err(self.failed(
                "ranks that are processes share no multicast (NVLS); run them as threads of one process, or take another \
                 algorithm"
                    .to_owned(),
            ));
        }
        self.known.shares = self.fleet.shares(self.rank(), bound);
        let slots = Kind::Slots(self.own.protocol);
        let signals = Kind::Signals(self.known.shares);
        let key = |kind, incoming| {
            move |connection: &Connection| Key {
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
                let end = End::default();
                new.push(New { key, end });
            }
        }
        self.offer(&mut new)?;
        self.fetch(&mut new)?;
        self.place(&new)?;
        self.meet_boards()
    }

    /// Makes the memory of receiving ends and offers it.
    fn offer(&mut self, new: &mut [New]) -> Result<(), Error> {
        let options = &self.fleet.options;
        let bytes = |key: &Key| match key.kind {
            Kind::Slots(protocol) => SLOTS_AT + SLOTS * stride(protocol, &options.slot_bytes),
            Kind::Signals(_) => COUNT_BYTES,
        };
        for New { key, end } in new.iter_mut() {
            if let Kind::Slots(protocol) = key.kind {
                end.stride = stride(protocol, &options.slot_bytes);
                end.step = options.first_step;
                end.seen = options.first_step;
            }
        }
        let incoming = || new.iter().filter(|new| new.key.incoming);
        let all: u64 = incoming().map(|new| bytes(&new.key)).sum();
        if all == 0 {
            return Ok(());
        }
        let device = self.device();
        let allocated = self.fleet.machine.allocate(device, all);
        let (block, mut address) = allocated.map_err(|why| self.failed(why))?;
        self.fleet.keep(block);
        let rank = self.rank();
        for New { key, end } in new.iter_mut().filter(|new| new.key.incoming) {
            end.theirs = address;
            if matches!(key.kind, Kind::Slots(_)) {
                end.mine = address + COUNT_BYTES;
                end.slots = address + SLOTS_AT;
                self.begin_slots(key, end)?;
            }
            let peer = key.connection.peer;
            self.publish(peer, &name(peer, rank, key), address)?;
            address += bytes(key);
        }
        Ok(())
    }

    /// Makes counts and slots look as if they had been used before, if the options say so.
    fn begin_slots(&self, key: &Key, end: &End) -> Result<(), Error> {
        let options = &self.fleet.options;
        let machine = &self.fleet.machine;
        let device = self.device();
        let failed = |why| self.failed(why);
        if options.first_step > 0 {
            let first = options.first_step.to_le_bytes();
            for count in [end.theirs, end.mine] {
                machine.write(device, count, &first).map_err(failed)?;
            }
        }
        if options.stale_flag != 0 && key.kind == Kind::Slots(Protocol::Ll) {
            let half_line = [0x5a5a_5a5a_u32, options.stale_flag];
            let lines = half_line.repeat((SLOTS * end.stride / 8) as usize);
            let bytes = bytemuck::cast_slice(&lines);
            machine.write(device, end.slots, bytes).map_err(failed)?;
        }
        Ok(())
    }

    fn publish(&mut self, peer: u32, name: &str, address: u64) -> Result<(), Error> {
        let text = if self.own.bootstrap.shares_memory(peer) {
            format!("{address:x}")
        } else {
            let exported = self.fleet.machine.export(self.device(), address);
            exported.map_err(|why| self.failed(why))?
        };
        let segment = None;
        self.own.bootstrap.publish(name, Offer { text, segment })
    }

    fn fetch_address(&mut self, peer: u32, name: &str) -> Result<u64, Error> {
        let offer = self.own.bootstrap.fetch(peer, name, self.own.longest)?;
        if self.own.bootstrap.shares_memory(peer) {
            let address = u64::from_str_radix(&offer.text, 16);
            return address.map_err(|_| {
                self.failed(format!("rank {peer} offers `{name}` in an unknown form"))
            });
        }
        let imported = self.fleet.machine.import(self.device(), &offer.text);
        imported.map_err(|why| self.failed(why))
    }

    /// Takes what the receivers offer.
    fn fetch(&mut self, new: &mut [New]) -> Result<(), Error> {
        let rank = self.rank();
        for New { key, end } in new.iter_mut().filter(|new| !new.key.incoming) {
            let peer = key.connection.peer;
            let receiver = self.fetch_address(peer, &name(rank, peer, key))?;
            end.mine = receiver;
            if matches!(key.kind, Kind::Slots(_)) {
                end.theirs = receiver + COUNT_BYTES;
                end.slots = receiver + SLOTS_AT;
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
        let device = self.device();
        let allocated = self.fleet.machine.allocate(device, bytes.len() as u64);
        let (block, address) = allocated.map_err(|why| self.failed(why))?;
        self.fleet.keep(block);
        let wrote = self.fleet.machine.write(device, address, bytes);
        wrote.map_err(|why| self.failed(why))?;
        for (new, at) in new.iter().zip(first) {
            let address = address + at * size_of::<End>() as u64;
            self.known.ends.insert(new.key, address);
        }
        Ok(())
    }

    /// Offers the own board and takes those of the peers whose memory the program accesses.
    fn meet_boards(&mut self) -> Result<(), Error> {
        let bound = self.own.bound;
        // Whoever touches no peer's memory may be touched: signals without FIFOs say that direct transfers are on.
        if bound.peers.is_empty() && bound.waits.is_empty() && bound.notifies.is_empty() {
            return Ok(());
        }
        let rank = self.rank();
        if self.known.own_board.is_none() {
            let device = self.device();
            let allocated = self
                .fleet
                .machine
                .allocate(device, size_of::<Board>() as u64);
            let (block, address) = allocated.map_err(|why| self.failed(why))?;
            self.fleet.keep(block);
            self.known.own_board = Some(address);
            for peer in (0..self.own.bootstrap.ranks()).filter(|peer| *peer != rank) {
                if self.own.bootstrap.shares_memory(peer) {
                    self.publish(peer, "device/board", address)?;
                    break;
                }
            }
        }
        for peer in &bound.peers {
            if !self.own.bootstrap.shares_memory(*peer) {
                return Err(self.failed(
                    "ranks that are processes do not access each other's device buffers; take the transfer `fifo`"
                        .to_owned(),
                ));
            }
            if !self.known.boards.contains_key(peer) {
                let address = self.fetch_address(*peer, "device/board")?;
                self.known.boards.insert(*peer, address);
            }
        }
        Ok(())
    }
}

impl Connected {
    /// The own board, if peers may access this rank's buffers.
    pub(crate) fn own_board(&self) -> Option<u64> {
        self.own_board
    }

    /// Those of some ranks that are in this process.
    pub(crate) fn local(&self, ranks: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut local: Vec<u32> = ranks.filter(|rank| self.local.contains(rank)).collect();
        local.sort_unstable();
        local.dedup();
        local
    }

    fn end(&self, connection: &Connection, kind: Option<Kind>, incoming: bool) -> u64 {
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
    fn receiver(&self, connection: &Connection) -> u64 {
        self.end(connection, self.protocol.map(Kind::Slots), true)
    }

    fn sender(&self, connection: &Connection) -> u64 {
        self.end(connection, self.protocol.map(Kind::Slots), false)
    }

    fn awaited(&self, connection: &Connection) -> u64 {
        self.end(connection, Some(Kind::Signals(self.shares)), true)
    }

    fn given(&self, connection: &Connection) -> u64 {
        self.end(connection, Some(Kind::Signals(self.shares)), false)
    }

    fn everywhere(&self) -> u64 {
        self.everywhere
    }

    fn board(&self, rank: u32) -> u64 {
        self.boards.get(&rank).copied().unwrap_or_default()
    }
}
