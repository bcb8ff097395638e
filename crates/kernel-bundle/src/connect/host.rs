//! SHM and NET: connections in memory of the host that devices access.
//!
//! With SHM the receiver makes memory that other processes map, and each side tells its device of it. With NET each rank
//! has such memory for itself; a kernel has one end, and a network the other. The sending kernel says how long each slot
//! is, for the network knows no program.

use std::sync::Arc;

use executor::error::Error;
use executor::{Route, Transport};
use plan::Protocol;
use plan::program::Connection;
use rustc_hash::FxHashMap;
use shared_memory::fifo::device::{DeviceFifo, DeviceInflow, DeviceOutflow};
use shared_memory::{Handle, Mapping};

use super::p2p::Made;
use super::{COUNT_BYTES, Connector, Kind, New, SLOTS_AT};
use crate::machine::Machine;

/// Memory of other processes, and where the own device has it.
pub(super) type Opened = FxHashMap<Handle, u64>;

impl<M: Machine> Connector<'_, '_, M> {
    fn memory(&self, source: shared_memory::Error) -> Error {
        Error::Memory {
            rank: self.rank(),
            source: Arc::new(source),
        }
    }

    /// Tells the own device of memory of the host, which stays as long as the machine. Answers its address there.
    fn register(&self, mapping: &Arc<Mapping>) -> Result<u64, Error> {
        let registered = self.fleet.machine.register_host(self.device(), mapping);
        let (block, address) = registered.map_err(|why| self.failed(why))?;
        self.fleet.keep(block, Some(Arc::clone(mapping)));
        Ok(address)
    }

    /// Memory that other processes of this host map.
    pub(super) fn share(&mut self, bytes: u64) -> Result<Made, Error> {
        let name = format!("device connections of rank {}", self.rank());
        let mapping = Mapping::shared(&name, bytes as usize);
        let mapping = Arc::new(mapping.map_err(|source| self.memory(source))?);
        let handle = mapping.handle().map_err(|source| self.memory(source))?;
        Ok(Made {
            address: self.register(&mapping)?,
            handle: handle.map(|handle| handle.to_string()),
        })
    }

    /// Opens memory that a peer shares; answers where it is for the own device.
    pub(super) fn open_shared(&mut self, peer: u32, name: &str) -> Result<u64, Error> {
        let offer = self.own.bootstrap.fetch(peer, name, self.own.longest)?;
        let wrong = || self.failed(format!("rank {peer} offers `{name}` in an unknown form"));
        let (handle, offset) = offer.text.split_once(' ').ok_or_else(wrong)?;
        let handle: Handle = handle.parse().map_err(|source| self.memory(source))?;
        let offset: u64 = offset.parse().map_err(|_| wrong())?;
        if let Some(address) = self.known.opened.get(&handle) {
            return Ok(address + offset);
        }
        let mapping = Mapping::open(&handle).map_err(|source| self.memory(source))?;
        let address = self.register(&Arc::new(mapping))?;
        self.known.opened.insert(handle, address);
        Ok(address + offset)
    }

    /// Makes the ends that a network carries, and hands it their other ends.
    pub(super) fn carry(&mut self, new: &mut [New]) -> Result<(), Error> {
        let mut far: Vec<&mut New> = new
            .iter_mut()
            .filter(|new| self.transport(&new.key) == Transport::Net)
            .collect();
        let all: u64 = far.iter().map(|new| carried_bytes(new)).sum();
        if all == 0 {
            return Ok(());
        }
        let name = format!("device connections of rank {} by the network", self.rank());
        let mapping = Mapping::private(&name, all as usize);
        let mapping = Arc::new(mapping.map_err(|source| self.memory(source))?);
        let address = self.register(&mapping)?;
        let mut offset = 0;
        for new in &mut far {
            new.put(address + offset);
            if !new.key.incoming {
                new.end.lengths = address + offset + SLOTS_AT;
            }
            // The lengths lie where slots would begin otherwise.
            new.end.slots += COUNT_BYTES;
            self.begin_slots(new)?;
            self.hand_over(new, &mapping, offset)?;
            offset += carried_bytes(new);
        }
        Ok(())
    }

    fn hand_over(&mut self, new: &New, mapping: &Arc<Mapping>, offset: u64) -> Result<(), Error> {
        let rank = self.rank();
        let Connection {
            peer,
            channel,
            port,
        } = new.key.connection;
        let no_network = |what: &str| Error::Bootstrap {
            rank,
            why: format!("rank {peer} is on another host, and {what}"),
        };
        let Kind::Slots(protocol) = new.key.kind else {
            return Err(no_network("signals are not carried there"));
        };
        let incoming = new.key.incoming;
        let (from, to) = if incoming { (peer, rank) } else { (rank, peer) };
        let route = Route {
            from,
            to,
            channel,
            port,
            protocol,
        };
        let at = offset as usize;
        let fifo = DeviceFifo {
            protocol: match protocol {
                Protocol::Simple => shared_memory::Protocol::Simple,
                Protocol::Ll => shared_memory::Protocol::LowLatency,
                Protocol::Ll128 => shared_memory::Protocol::LowLatency128,
            },
            tail: at,
            head: at + COUNT_BYTES as usize,
            lengths: at + SLOTS_AT as usize,
            slots: at + (SLOTS_AT + COUNT_BYTES) as usize,
            stride: new.end.stride as usize,
            slot_bytes: self.fleet.options.slot_bytes.of(protocol) as usize,
            first_step: new.end.step,
        };
        let network = self.own.bootstrap.network();
        let network = network.ok_or_else(|| no_network("no network leads there"))?;
        if incoming {
            network.receive(&route, Box::new(DeviceInflow::new(mapping, fifo)))
        } else {
            network.send(&route, Box::new(DeviceOutflow::new(mapping, fifo)))
        }
    }
}

/// Bytes of a connection with lengths.
fn carried_bytes(new: &New) -> u64 {
    new.bytes() + COUNT_BYTES
}
