//! Connections to ranks on other hosts. The network has the other end of their FIFOs, which are in
//! memory of this process, or in memory that another rank of the host opens.

use std::sync::Arc;

use program::Protocol;
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Sender, Simple};
use shared_memory::{Bell, Item, Segment};

use super::{Connections, End, Ends, Kind, offers_none, push};
use crate::bootstrap::Bootstrap;
use crate::error::{Error, Waiting};
use crate::network::{HandedOver, Progress, Route};
use crate::offered::{BASE_TABLE, OfferedSegment, PROXY_BELL};
use crate::transport::Transport;

/// Longer messages between hosts are left to proxies that have cores of their own, bytes.
const MOST_INLINE: u64 = 64 << 10;

impl Connections {
    /// Adds a rank of another host. Its bell wakes nobody until there is a connection, then the
    /// proxies that send. Its buffer table is never read.
    pub(super) fn meet_remote(&mut self) -> Result<(), Error> {
        let nobody = Segment::private("a bell that wakes nobody", &[Item::Bell]);
        let nobody = nobody.and_then(|it| it.bell(0));
        self.bells
            .push(nobody.map_err(|source| self.memory(source))?);
        let own = self.base.as_ref();
        let own = own.ok_or_else(|| self.no_network())?;
        let buffer_table = own
            .buffer_table(BASE_TABLE)
            .map_err(|source| self.memory(source))?;
        self.buffer_tables.push(buffer_table);
        Ok(())
    }

    pub(super) fn no_network(&self) -> Error {
        Error::Bootstrap {
            rank: self.rank,
            why: "there is a rank on another host, and no network that leads there".to_owned(),
        }
    }

    /// Inline progress for a launch of `bytes`; `None` if proxies drive the connections while this
    /// rank reduces.
    pub(crate) fn progress_of(&self, bytes: u64) -> Option<Arc<dyn Progress>> {
        let progress = self.progress.as_ref()?;
        if bytes <= MOST_INLINE || progress.shares_cores() {
            return Some(Arc::clone(progress));
        }
        progress.hand_back();
        None
    }

    /// Whether this rank's own connections between hosts end a wait. Slots that another rank's
    /// proxy forwards are released by that rank.
    pub fn ends_remotely(&self, waiting: Waiting) -> bool {
        let own = |by: &Vec<u32>| by.iter().all(|proxy| *proxy == self.rank);
        let Some(peer) = waiting.peer() else {
            return false;
        };
        let remote = self.transports[peer as usize] == Transport::Net;
        let slot = matches!(waiting, Waiting::Slot { .. });
        remote && (!slot || self.woken.get(&peer).is_none_or(own))
    }

    /// Whether every rank of the host can wake this one from a sleep on its network connections.
    pub fn wakes_by_all(&self) -> bool {
        let near = self.transports.iter().filter(|it| **it != Transport::Net);
        let mut forwarded = self.woken.values().flatten();
        // Another rank's proxy cannot.
        let own = forwarded.all(|proxy| *proxy == self.rank);
        own && self.bells[self.rank as usize].wakers() + 1 == near.count() as u64
    }

    /// Wakes this rank's proxies: for backends with their own FIFOs, whose kernels wake nobody.
    pub fn ring_proxies(&self) {
        if let Some(bell) = &self.proxies {
            bell.ring();
        }
    }

    pub(super) fn is_remote(&self, end: &End) -> bool {
        self.transports[end.connection.peer as usize] == Transport::Net
    }

    /// Makes a FIFO whose other end the network has.
    pub(super) fn make_remote(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        end: End,
    ) -> Result<(), Error> {
        let Kind::Slots(protocol, _) = end.kind else {
            // Only direct transfers give signals, and those are refused when a rank is on another
            // host.
            return Err(self.no_network());
        };
        let index = match protocol {
            Protocol::Simple => self.connect::<Simple>(bootstrap, end, protocol)?,
            Protocol::Ll => self.connect::<LowLatency>(bootstrap, end, protocol)?,
            Protocol::Ll128 => self.connect::<LowLatency128>(bootstrap, end, protocol)?,
        };
        self.known.insert(end, index);
        Ok(())
    }

    fn connect<P: Ending>(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        end: End,
        protocol: Protocol,
    ) -> Result<usize, Error> {
        let route = Route::of(self.rank, &end.connection, end.incoming, protocol);
        let (from, to) = (route.from, route.to);
        let fail = |source| Error::Memory {
            rank: self.rank,
            cause: Arc::new(source),
        };
        let name = format!("connection {from} to {to} by the network");
        let network = bootstrap.network().ok_or_else(|| self.no_network())?;
        if end.incoming {
            let segment = Segment::private(&name, &[Self::item(end.kind)]).map_err(fail)?;
            let sender = segment.sender::<P>(0).map_err(fail)?;
            network.receive(&route, SlotsIn::Copied(Box::new(sender)))?;
            let receiver = segment.receiver::<P>(0).map_err(fail)?;
            return Ok(push(&mut P::ends(self).receivers, receiver));
        }
        if let Some(proxy) = network.pxn_proxy(&route) {
            let items = [Self::item(end.kind), Item::Bell];
            let segment = Segment::shared(&name, &items).map_err(fail)?;
            let mut sender = segment.sender::<P>(0).map_err(fail)?;
            sender.announce_lengths();
            let fifo = OfferedSegment::of(&segment, &items).map_err(fail)?;
            let handed = self.offered_base.clone().zip(fifo);
            let handed = handed.map(|(base, fifo)| HandedOver::Host { base, fifo });
            let handed = handed.ok_or_else(|| offers_none(self.rank, self.rank))?;
            if let Some(alarms) = network.hand_over(&route, proxy, handed)? {
                let bell = segment.bell(PROXY_BELL).map_err(fail)?;
                self.also_ring(to, proxy, bell.with_alarms(alarms));
                return Ok(push(&mut P::ends(self).senders, sender));
            }
            // The other rank is done. It may have taken an end of that FIFO, so this rank makes a
            // new one.
        }
        let segment = Segment::private(&name, &[Self::item(end.kind)]).map_err(fail)?;
        let mut sender = segment.sender::<P>(0).map_err(fail)?;
        sender.announce_lengths();
        let receiver = segment.receiver::<P>(0).map_err(fail)?;
        network.send(&route, SlotsOut::Copied(Box::new(receiver)))?;
        let bell = self.proxies.clone().ok_or_else(|| self.no_network())?;
        self.also_ring(to, self.rank, bell);
        Ok(push(&mut P::ends(self).senders, sender))
    }

    /// Adds the proxies of rank `proxy` to those that the bell of `peer` wakes. There is one bell
    /// for this rank's own proxies, and one for each FIFO that was handed over.
    fn also_ring(&mut self, peer: u32, proxy: u32, bell: Bell) {
        let woken = self.woken.entry(peer).or_default();
        if proxy == self.rank && woken.contains(&proxy) {
            return;
        }
        let place = &mut self.bells[peer as usize];
        *place = match woken.is_empty() {
            true => bell,
            false => place.clone().with(Arc::new(bell)),
        };
        woken.push(proxy);
        self.wakes_proxies[peer as usize] = *woken == [self.rank];
    }
}

/// A protocol with its list of ends.
trait Ending: FifoProtocol<Sender: 'static, Receiver: 'static> {
    fn ends(connections: &mut Connections) -> &mut Ends<Self>;
}

impl Ending for Simple {
    fn ends(connections: &mut Connections) -> &mut Ends<Self> {
        &mut connections.simple
    }
}

impl Ending for LowLatency {
    fn ends(connections: &mut Connections) -> &mut Ends<Self> {
        &mut connections.low_latency
    }
}

impl Ending for LowLatency128 {
    fn ends(connections: &mut Connections) -> &mut Ends<Self> {
        &mut connections.low_latency_128
    }
}
