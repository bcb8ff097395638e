//! NET: connections of which a kernel has one end, and a network the other. The sending kernel says how long each slot is, for
//! the network knows no program.
//!
//! Counts and lengths lie in memory of the host, which each rank has for itself. So do slots, which the network copies; or,
//! where NICs reach the receiver's device (GPUDirect RDMA), NICs read and write slots in place:
//!
//! | slots in place | lie in memory of |
//! |---|---|
//! | at the receiver | the device |
//! | at the sender | the device, if NICs reach that too and the sender carries itself; LL in the host's, as in NCCL |
//!
//! Where the plan names another rank that carries (PXN), the sender's memory is shared with that one.

use std::sync::Arc;

use executor::error::Error;
use executor::network::HandedOver;
use executor::{Network, Route, Transport};
use program::Protocol;
use shared_memory::Mapping;
use shared_memory::fifo::device::{DeviceFifo, DeviceInflow, DeviceOutflow};
use shared_memory::fifo::in_place::{InPlaceInflow, InPlaceOutflow, Owner, SlotMemory};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};

use super::{COUNT_BYTES, Connector, Kind, New, SLOTS, SLOTS_AT};
use crate::machine::DeviceDriver;

/// Bytes of counts and lengths, behind which slots lie that are the host's.
const CONTROL_BYTES: u64 = SLOTS_AT + COUNT_BYTES;

/// How an end is carried.
struct Carried {
    route: Route,
    /// Whether NICs reach its slots themselves.
    in_place: bool,
    /// Whether the slots are memory of the device.
    of_device: bool,
    /// The other rank that carries it.
    carrier: Option<u32>,
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Makes the ends that a network carries, and hands it their other ends.
    pub(super) fn carry(&mut self, new: &mut [New]) -> Result<(), Error> {
        let mut far: Vec<(&mut New, Carried)> = Vec::new();
        for new in new.iter_mut() {
            if self.transport(&new.key) == Transport::Net {
                let carried = self.carried(new)?;
                far.push((new, carried));
            }
        }
        if far.is_empty() {
            return Ok(());
        }
        let bytes = |(new, carried): &(&mut New, Carried)| match carried.of_device {
            true => CONTROL_BYTES,
            false => CONTROL_BYTES + SLOTS * new.end.stride,
        };
        let all = far.iter().map(bytes).sum::<u64>() as usize;
        let name = format!("device connections of rank {} by the network", self.rank());
        let mapping = match far.iter().any(|(_, carried)| carried.carrier.is_some()) {
            true => Mapping::shared(&name, all),
            false => Mapping::private(&name, all),
        };
        let mapping = Arc::new(mapping.map_err(|source| self.memory(source))?);
        let address = self.register(&mapping)?;
        let mut offset = 0;
        for mut it in far {
            let next = offset + bytes(&it);
            let (new, carried) = &mut it;
            new.put(address + offset);
            if !new.key.incoming {
                new.end.lengths = address + offset + SLOTS_AT;
            }
            new.end.slots = address + offset + CONTROL_BYTES;
            let memory = match carried.of_device {
                true => Some(self.slot_memory(new)?),
                false => None,
            };
            self.begin_slots(new)?;
            self.give(new, carried, &mapping, offset, memory)?;
            offset = next;
        }
        Ok(())
    }

    fn network(&mut self, peer: u32) -> Result<&mut dyn Network, Error> {
        let rank = self.rank();
        let network = self.own.bootstrap.network();
        network.ok_or_else(|| Error::Bootstrap {
            rank,
            why: format!("rank {peer} is on another host, and no network leads there"),
        })
    }

    /// Decides how an end is carried. Both ends of a connection come to the same as far as both must.
    fn carried(&mut self, new: &New) -> Result<Carried, Error> {
        let rank = self.rank();
        let peer = new.key.connection.peer;
        let Kind::Slots(protocol) = new.key.kind else {
            return Err(Error::Bootstrap {
                rank,
                why: format!("rank {peer} is on another host, and signals are not carried there"),
            });
        };
        let incoming = new.key.incoming;
        let route = Route::of(rank, &new.key.connection, incoming, protocol);
        let network = self.network(peer)?;
        let (read, written) = network.device_ends(&route);
        let carrier = network.pxn_proxy(&route).filter(|_| !incoming);
        let in_place = self.known.peers.rdma(route.to) && written;
        let of_sender = self.known.peers.rdma(route.from)
            && self.process_ranks.options.rdma_read
            && read
            && carrier.is_none()
            && protocol != Protocol::Ll;
        Ok(Carried {
            route,
            in_place,
            of_device: in_place && (incoming || of_sender),
            carrier,
        })
    }

    /// Slots in memory of the device that NICs reach.
    fn slot_memory(&mut self, new: &mut New) -> Result<SlotMemory, Error> {
        let (machine, device) = (&self.process_ranks.machine, self.device());
        let made = machine.allocate_for_nics(device, SLOTS * new.end.stride);
        let mut made = made.map_err(|why| self.failed(why))?;
        if let Owner::Device { flush, .. } = &mut made.owner {
            *flush |= self.process_ranks.options.force_flush;
        }
        new.end.slots = made.address;
        // A NIC may still know it when the last rank is gone, and a kernel when its connection has ended.
        let kept = Arc::new(made.block);
        self.process_ranks.keep(Arc::clone(&kept), None);
        Ok(SlotMemory {
            address: made.address,
            stride: new.end.stride as usize,
            owner: made.owner,
            kept,
        })
    }

    /// Gives the network, or whoever else carries, the other end.
    fn give(
        &mut self,
        new: &New,
        carried: &Carried,
        mapping: &Arc<Mapping>,
        offset: u64,
        memory: Option<SlotMemory>,
    ) -> Result<(), Error> {
        let (route, at) = (&carried.route, offset as usize);
        let fifo = DeviceFifo {
            protocol: route.protocol,
            tail: at,
            head: at + COUNT_BYTES as usize,
            lengths: at + SLOTS_AT as usize,
            slots: at + CONTROL_BYTES as usize,
            stride: new.end.stride as usize,
            slot_bytes: self.process_ranks.options.slot_bytes.of(route.protocol) as usize,
            first_step: new.end.step,
        };
        let peer = new.key.connection.peer;
        if new.key.incoming {
            let slots = match memory {
                Some(memory) => InPlaceInflow::new(mapping, fifo, memory).map(SlotsIn::InPlace),
                None => DeviceInflow::new(mapping, fifo).map(|it| SlotsIn::Copied(Box::new(it))),
            };
            let slots = slots.map_err(|source| self.memory(source))?;
            return self.network(peer)?.receive(route, slots);
        }
        if let Some(carrier) = carried.carrier {
            let handed = HandedOver::of_device(mapping, &fifo, carried.in_place);
            let (handed, bell) = handed.map_err(|source| self.memory(source))?;
            if let Some(alarms) = self.network(peer)?.hand_over(route, carrier, handed)? {
                self.known.carriers.push(bell.with_alarms(alarms));
                return Ok(());
            }
        }
        let slots = match memory {
            Some(memory) => InPlaceOutflow::new(mapping, fifo, memory).map(SlotsOut::InPlace),
            None if carried.in_place => {
                InPlaceOutflow::within(mapping, fifo).map(SlotsOut::InPlace)
            }
            None => DeviceOutflow::new(mapping, fifo).map(|it| SlotsOut::Copied(Box::new(it))),
        };
        let slots = slots.map_err(|source| self.memory(source))?;
        self.network(peer)?.send(route, slots)
    }
}
