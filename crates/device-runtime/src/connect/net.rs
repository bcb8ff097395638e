//! NET: connections between a kernel and a network. The sending kernel writes the length of each
//! slot, because the network does not know the program.
//!
//! Counts and lengths are in the rank's own host memory. So are the slots, from which the network
//! copies; or, if NICs can access the receiver's device (GPUDirect RDMA), NICs use them in place:
//!
//! | slots in place | memory |
//! |---|---|
//! | at the receiver | the device |
//! | at the sender | the device if NICs access it and there is no PXN proxy; for LL the host |
//!
//! If the plan names a PXN proxy, the sender shares its memory with that rank.

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
use crate::driver::DeviceDriver;

/// Bytes of counts and lengths, before slots in host memory.
const CONTROL_BYTES: u64 = SLOTS_AT + COUNT_BYTES;

/// How an end is connected to the network.
struct NetEnd {
    route: Route,
    /// Whether NICs access the slots in place.
    in_place: bool,
    /// Whether the slots are in device memory.
    of_device: bool,
    /// The rank of the PXN proxy.
    carrier: Option<u32>,
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Makes the ends of NET connections and hands their other ends to the network.
    pub(super) fn connect_net(&mut self, new: &mut [New]) -> Result<(), Error> {
        let mut remote: Vec<(&mut New, NetEnd)> = Vec::new();
        for new in new.iter_mut() {
            if self.transport(&new.key) == Transport::Net {
                let net = self.net_end(new)?;
                remote.push((new, net));
            }
        }
        if remote.is_empty() {
            return Ok(());
        }
        let bytes = |(new, net): &(&mut New, NetEnd)| match net.of_device {
            true => CONTROL_BYTES,
            false => CONTROL_BYTES + SLOTS * new.end.stride,
        };
        let all = remote.iter().map(bytes).sum::<u64>() as usize;
        let name = format!("device connections of rank {} by the network", self.rank());
        let mapping = match remote.iter().any(|(_, net)| net.carrier.is_some()) {
            true => Mapping::shared(&name, all),
            false => Mapping::private(&name, all),
        };
        let mapping = Arc::new(mapping.map_err(|source| self.memory(source))?);
        let address = self.register(&mapping)?;
        let mut offset = 0;
        for mut it in remote {
            let next = offset + bytes(&it);
            let (new, net) = &mut it;
            new.put(address + offset);
            if !new.key.incoming {
                new.end.lengths = address + offset + SLOTS_AT;
            }
            new.end.slots = address + offset + CONTROL_BYTES;
            let memory = match net.of_device {
                true => Some(self.slot_memory(new)?),
                false => None,
            };
            self.begin_slots(new)?;
            self.give(new, net, &mapping, offset, memory)?;
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

    /// Decides how an end is connected. Both ends decide `in_place` alike.
    fn net_end(&mut self, new: &New) -> Result<NetEnd, Error> {
        let rank = self.rank();
        let peer = new.key.connection.peer;
        let Kind::Slots(protocol) = new.key.kind else {
            return Err(Error::Bootstrap {
                rank,
                why: format!("rank {peer} is on another host, and signals are not net there"),
            });
        };
        let incoming = new.key.incoming;
        let route = Route::of(rank, &new.key.connection, incoming, protocol);
        let network = self.network(peer)?;
        let (read, written) = network.device_ends(&route);
        let carrier = network.pxn_proxy(&route).filter(|_| !incoming);
        let in_place = self.known.peers.rdma(route.to) && written;
        let of_sender = self.known.peers.rdma(route.from)
            && self.shared.options.rdma_read
            && read
            && carrier.is_none()
            && protocol != Protocol::Ll;
        Ok(NetEnd {
            route,
            in_place,
            of_device: in_place && (incoming || of_sender),
            carrier,
        })
    }

    /// Allocates slots in device memory that NICs can access.
    fn slot_memory(&mut self, new: &mut New) -> Result<SlotMemory, Error> {
        let (driver, device) = (&self.shared.driver, self.device());
        let made = driver.allocate_for_nics(device, SLOTS * new.end.stride);
        let mut made = made.map_err(|why| self.failed(why))?;
        if let Owner::Device { flush, .. } = &mut made.owner {
            *flush |= self.shared.options.force_flush;
        }
        new.end.slots = made.address;
        // A NIC may use it after the last rank is gone, a kernel after its connection has ended.
        let kept = Arc::new(made.block);
        self.shared.keep(Arc::clone(&kept), None);
        Ok(SlotMemory {
            address: made.address,
            stride: new.end.stride as usize,
            owner: made.owner,
            kept,
        })
    }

    /// Gives the other end to the network or to the PXN proxy.
    fn give(
        &mut self,
        new: &New,
        net: &NetEnd,
        mapping: &Arc<Mapping>,
        offset: u64,
        memory: Option<SlotMemory>,
    ) -> Result<(), Error> {
        let (route, at) = (&net.route, offset as usize);
        let fifo = DeviceFifo {
            protocol: route.protocol,
            tail: at,
            head: at + COUNT_BYTES as usize,
            lengths: at + SLOTS_AT as usize,
            slots: at + CONTROL_BYTES as usize,
            stride: new.end.stride as usize,
            slot_bytes: self.shared.options.slot_bytes.of(route.protocol) as usize,
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
        if let Some(carrier) = net.carrier {
            let handed = HandedOver::of_device(mapping, fifo, net.in_place);
            let handed = handed.map_err(|source| self.memory(source))?;
            let (handed, bell) = handed.ok_or_else(|| {
                self.failed("its FIFOs are in memory that no other process opens".to_owned())
            })?;
            if let Some(alarms) = self.network(peer)?.hand_over(route, carrier, handed)? {
                self.known.proxy_bells.push(bell.with_alarms(alarms));
                return Ok(());
            }
        }
        let slots = match memory {
            Some(memory) => InPlaceOutflow::new(mapping, fifo, memory).map(SlotsOut::InPlace),
            None if net.in_place => InPlaceOutflow::within(mapping, fifo).map(SlotsOut::InPlace),
            None => DeviceOutflow::new(mapping, fifo).map(|it| SlotsOut::Copied(Box::new(it))),
        };
        let slots = slots.map_err(|source| self.memory(source))?;
        self.network(peer)?.send(route, slots)
    }
}
