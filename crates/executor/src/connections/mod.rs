//! The connections of a rank: ends of FIFOs and signals, made when a program first needs them.
//!
//! One of the two ranks owns the memory of a connection: it makes and offers it, and the other one
//! fetches the offer. It is the receiver, except that the sender owns the FIFOs of transfers: so it
//! can send a short message before the receiver asks for it. Both do so while they bind the same
//! program, and offer everything before they fetch anything, so no ranks wait in a circle.
//! Connections between hosts are in `remote`.

mod opened;
mod remote;
mod tags;
mod wiring;

use std::sync::Arc;
use std::time::{Duration, Instant};

use program::ConnectionEnd;
use program::Protocol;
use rustc_hash::FxHashMap;
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Simple};
use shared_memory::{Bell, BufferTable, Handle, Item, Segment, Signal, SignalCount};

use crate::bootstrap::{Bootstrap, Offer};
use crate::error::Error;
use crate::network::Progress;
use crate::offered::{BASE, BASE_BELL, BASE_TABLE, OfferedConnection, OfferedSegment};
use crate::transport::Transport;

pub use crate::slot_bytes::SlotBytes;
pub(crate) use crate::slot_bytes::slot_class;
pub use wiring::Wiring;

/// The ends of the FIFOs of one protocol.
#[derive(Debug)]
pub struct Ends<P: FifoProtocol> {
    /// Sending ends.
    pub senders: Vec<P::Sender>,
    /// Receiving ends.
    pub receivers: Vec<P::Receiver>,
}

impl<P: FifoProtocol> Default for Ends<P> {
    fn default() -> Self {
        Self {
            senders: Vec::new(),
            receivers: Vec::new(),
        }
    }
}

/// All connections of a rank.
pub struct Connections {
    /// FIFOs of the Simple protocol.
    pub simple: Ends<Simple>,
    /// FIFOs of the LL protocol.
    pub low_latency: Ends<LowLatency>,
    /// FIFOs of the LL128 protocol.
    pub low_latency_128: Ends<LowLatency128>,
    /// Signals to peers.
    pub signals: Vec<Signal>,
    /// Signals from peers.
    pub signal_counts: Vec<SignalCount>,
    /// By rank: its bell; this rank's own included.
    pub bells: Vec<Bell>,
    /// By rank: whether its bell only wakes this rank's own proxies ([`Self::ring_proxies`]).
    pub wakes_proxies: Vec<bool>,
    /// By rank: its buffer table.
    pub buffer_tables: Vec<BufferTable>,
    /// By rank: its transport.
    pub transports: Vec<Transport>,
    known: FxHashMap<End, usize>,
    tags: tags::Tags,
    /// Segments of peers, kept so that the ranks of this process map each once.
    segments: FxHashMap<Handle, Arc<Segment>>,
    /// FIFOs of this rank whose receivers may not have opened them: the receiver, and the segment
    /// with the FIFO's place in it.
    unreceived: Vec<(u32, usize, Arc<Segment>)>,
    /// The segment with this rank's bell and buffer table, and how others open it.
    base: Option<Arc<Segment>>,
    offered_base: Option<OfferedSegment>,
    /// The bell of this rank's own proxies.
    proxies: Option<Bell>,
    /// Progress in place of the proxies while this rank waits.
    progress: Option<Arc<dyn Progress>>,
    /// By rank of another host: the ranks of this host whose proxies its bell wakes.
    woken: FxHashMap<u32, Vec<u32>>,
    /// The own rank.
    pub rank: u32,
    slot_bytes: SlotBytes,
    longest: Duration,
    made: usize,
}

/// The kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// A FIFO, and data bytes of a slot.
    Slots(Protocol, u32),
    Signals,
}

/// One end of a connection, as this rank names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct End {
    connection: ConnectionEnd,
    kind: Kind,
    incoming: bool,
}

impl End {
    /// Whether this rank makes the memory of the connection.
    const fn is_own(&self) -> bool {
        let by_sender = matches!(self.kind, Kind::Slots(..)) && self.connection.is_transfer();
        self.incoming != by_sender
    }
}

impl Connections {
    /// Makes this rank's bell and buffer table.
    ///
    /// # Errors
    /// There is no memory, or the bootstrap or the network cannot start.
    pub(crate) fn begin(
        bootstrap: &mut dyn Bootstrap,
        slot_bytes: SlotBytes,
        longest: Duration,
    ) -> Result<Self, Error> {
        let rank = bootstrap.rank();
        let mut connections = Self {
            simple: Ends::default(),
            low_latency: Ends::default(),
            low_latency_128: Ends::default(),
            signals: Vec::new(),
            signal_counts: Vec::new(),
            bells: Vec::new(),
            wakes_proxies: Vec::new(),
            buffer_tables: Vec::new(),
            transports: Vec::new(),
            known: FxHashMap::default(),
            tags: tags::Tags::default(),
            segments: FxHashMap::default(),
            unreceived: Vec::new(),
            base: None,
            offered_base: None,
            proxies: None,
            progress: None,
            woken: FxHashMap::default(),
            rank,
            slot_bytes,
            longest,
            made: 0,
        };
        let segment = connections.make(bootstrap, "base", &BASE)?;
        connections.offered_base = connections.offer(bootstrap, &segment, &BASE)?;
        connections.base = Some(Arc::clone(&segment));
        if let Some(network) = bootstrap.network() {
            let bell = segment.bell(BASE_BELL);
            let bell = network.begin(bell.map_err(|source| connections.memory(source))?)?;
            connections.proxies = Some(bell);
            connections.progress = network.progress();
        }
        Ok(connections)
    }

    /// Sets how long a peer may take to make its end.
    pub(crate) const fn set_longest_wait(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// This rank's bell and buffer table: how others open them, and their segment.
    pub(crate) fn base(&self) -> (Option<OfferedSegment>, Option<Arc<Segment>>) {
        (self.offered_base.clone(), self.base.clone())
    }

    /// Opens the bells and buffer tables of the other ranks.
    ///
    /// # Errors
    /// They cannot be opened.
    pub(crate) fn meet(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        bases: Vec<(Option<Arc<Segment>>, Option<OfferedSegment>)>,
    ) -> Result<(), Error> {
        for (peer, (segment, offered)) in (0..bootstrap.ranks()).zip(bases) {
            let transport = bootstrap.transport(peer);
            self.transports.push(transport);
            self.wakes_proxies.push(false);
            if transport == Transport::Net {
                self.meet_remote()?;
                continue;
            }
            let segment = match &self.base {
                Some(own) if peer == self.rank => Arc::clone(own),
                _ => self.open(peer, segment, offered)?,
            };
            let fail = |source| offered_by(self.rank, peer, &source);
            for (index, item) in BASE.into_iter().enumerate() {
                segment.expect(index, item).map_err(fail)?;
            }
            let bell = segment.bell(BASE_BELL).map_err(fail)?;
            let bell = match bootstrap.alarms_of(peer) {
                Some(alarms) => bell.with_alarms_of(alarms),
                None => bell,
            };
            let buffer_table = segment.buffer_table(BASE_TABLE).map_err(fail)?;
            self.bells.push(bell);
            self.buffer_tables.push(buffer_table);
        }
        Ok(())
    }

    /// The buffer tables of the other ranks of the host.
    pub fn tables_of_peers(&self) -> Vec<(u32, BufferTable)> {
        let all = (0..).zip(&self.transports).zip(&self.buffer_tables);
        let peers = all.filter(|((rank, by), _)| *rank != self.rank && **by != Transport::Net);
        peers
            .map(|((rank, _), table)| (rank, table.clone()))
            .collect()
    }

    /// Withdraws this rank's buffers after a failure. When it returns, no peer accesses them,
    /// unless one was suspended in the middle of a copy. `has_ended` tells of a peer whether its
    /// process has ended.
    pub(crate) fn withdraw_buffers(&self, has_ended: impl Fn(u32) -> bool) {
        let Some(own) = self.buffer_tables.get(self.rank as usize) else {
            return;
        };
        own.withdraw();
        let until = Instant::now() + LONGEST_COPY;
        for (peer, table) in self.tables_of_peers() {
            table.await_access(|| {
                std::thread::yield_now();
                Instant::now() < until && !has_ended(peer)
            });
        }
    }

    /// Whether all ranks are reached by this transport.
    pub fn all_by(&self, transport: Transport) -> bool {
        self.transports.iter().all(|it| *it == transport)
    }

    /// Makes and offers the memory of connections.
    fn make_own(&mut self, bootstrap: &mut dyn Bootstrap, new: &[End]) -> Result<(), Error> {
        if new.is_empty() {
            return Ok(());
        }
        let items: Vec<Item> = new.iter().map(|end| Self::item(end.kind)).collect();
        self.made += 1;
        let segment = self.make(bootstrap, &format!("connections {}", self.made), &items)?;
        let offered = self.offer(bootstrap, &segment, &items)?;
        for (place, end) in new.iter().enumerate() {
            let index = self.take(&segment, place, end);
            let index = index.map_err(|source| self.memory(source))?;
            self.known.insert(*end, index);
            if !end.incoming {
                self.unreceived
                    .push((end.connection.peer, place, Arc::clone(&segment)));
            }
            let offer = Offer::of(&OfferedConnection {
                item: place as u32,
                segment: offered.clone(),
            });
            let segment = Some(Arc::clone(&segment));
            bootstrap.publish(&name(self.rank, end), Offer { segment, ..offer })?;
        }
        Ok(())
    }

    /// Opens this rank's end of a connection that the peer made.
    fn fetch_end(&mut self, bootstrap: &mut dyn Bootstrap, end: End) -> Result<(), Error> {
        let peer = end.connection.peer;
        let name = name(self.rank, &end);
        let offer = bootstrap.fetch(peer, &name, self.longest)?;
        let rank = self.rank;
        let offered: OfferedConnection = offer.read(&name, (rank, peer))?;
        let place = offered.item as usize;
        let segment = self.open(peer, offer.segment, offered.segment)?;
        let fail = |source| offered_by(rank, peer, &source);
        segment.expect(place, Self::item(end.kind)).map_err(fail)?;
        let index = self.take(&segment, place, &end).map_err(fail)?;
        self.known.insert(end, index);
        Ok(())
    }

    /// Takes this rank's end of an item. Returns its index.
    fn take(
        &mut self,
        segment: &Segment,
        place: usize,
        end: &End,
    ) -> Result<usize, shared_memory::Error> {
        fn both<P: FifoProtocol>(
            ends: &mut Ends<P>,
            segment: &Segment,
            place: usize,
            incoming: bool,
        ) -> Result<usize, shared_memory::Error> {
            Ok(match incoming {
                true => push(&mut ends.receivers, segment.receiver::<P>(place)?),
                false => push(&mut ends.senders, segment.sender::<P>(place)?),
            })
        }
        let incoming = end.incoming;
        match end.kind {
            Kind::Signals if incoming => {
                Ok(push(&mut self.signal_counts, segment.signal_count(place)?))
            }
            Kind::Signals => Ok(push(&mut self.signals, segment.signal(place)?)),
            Kind::Slots(Protocol::Simple, _) => both(&mut self.simple, segment, place, incoming),
            Kind::Slots(Protocol::Ll, _) => both(&mut self.low_latency, segment, place, incoming),
            Kind::Slots(Protocol::Ll128, _) => {
                both(&mut self.low_latency_128, segment, place, incoming)
            }
        }
    }

    /// Waits until all peers on this host have the memory of what this rank sent them, or leave
    /// too: it is gone with this rank.
    pub(crate) fn leave(&mut self, bootstrap: &mut dyn Bootstrap) {
        let until = Instant::now() + self.longest;
        let mut told = false;
        loop {
            self.unreceived.retain(|(peer, place, segment)| {
                !segment.is_received(*place)
                    && matches!(bootstrap.has_offer(*peer, LEAVES), Ok(false))
            });
            if self.unreceived.is_empty() || Instant::now() >= until {
                return;
            }
            // Two ranks must not wait for each other.
            if !std::mem::replace(&mut told, true)
                && bootstrap.publish(LEAVES, Offer::default()).is_err()
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    const fn item(kind: Kind) -> Item {
        match kind {
            Kind::Signals => Item::Signal,
            Kind::Slots(protocol, slot_bytes) => Item::Fifo {
                protocol,
                slot_bytes: slot_bytes as usize,
            },
        }
    }

    fn make(
        &self,
        bootstrap: &dyn Bootstrap,
        what: &str,
        items: &[Item],
    ) -> Result<Arc<Segment>, Error> {
        let name = format!("{what} of rank {}", self.rank);
        let made = if is_alone(bootstrap) {
            Segment::private(&name, items)
        } else {
            Segment::shared(&name, items)
        };
        let segment = Arc::new(made.map_err(|source| self.memory(source))?);
        opened::keep(&segment).map_err(|source| self.memory(source))?;
        Ok(segment)
    }

    /// The offer of a segment; `None` if no other process opens it.
    fn offer(
        &self,
        bootstrap: &dyn Bootstrap,
        segment: &Segment,
        items: &[Item],
    ) -> Result<Option<OfferedSegment>, Error> {
        match is_alone(bootstrap) {
            true => Ok(None),
            false => OfferedSegment::of(segment, items).map_err(|source| self.memory(source)),
        }
    }

    /// The segment of a peer: of this process, or opened by its offer.
    fn open(
        &mut self,
        peer: u32,
        segment: Option<Arc<Segment>>,
        offered: Option<OfferedSegment>,
    ) -> Result<Arc<Segment>, Error> {
        if let Some(segment) = segment {
            return Ok(segment);
        }
        let offered = offered.ok_or_else(|| offers_none(self.rank, peer))?;
        let segment = opened::open(&offered);
        let segment = segment.map_err(|source| offered_by(self.rank, peer, &source))?;
        self.segments.insert(offered.handle, Arc::clone(&segment));
        Ok(segment)
    }

    fn memory(&self, source: shared_memory::Error) -> Error {
        Error::Memory {
            rank: self.rank,
            cause: Arc::new(source),
        }
    }
}

/// The error for memory of a peer that a rank cannot use.
pub(crate) fn offered_by(rank: u32, peer: u32, source: &shared_memory::Error) -> Error {
    Error::Bootstrap {
        rank,
        why: format!("the memory that rank {peer} offers cannot be used: {source}"),
    }
}

/// The error for a peer of another process that offers no memory.
pub(crate) fn offers_none(rank: u32, peer: u32) -> Error {
    Error::Bootstrap {
        rank,
        why: format!("rank {peer} offers no memory that other processes can open"),
    }
}

/// Whether nobody opens memory of this rank by its offer.
fn is_alone(bootstrap: &dyn Bootstrap) -> bool {
    let own = bootstrap.rank();
    let mut others = (0..bootstrap.ranks()).filter(|peer| *peer != own);
    others.all(|peer| match bootstrap.transport(peer) {
        Transport::P2p => bootstrap.passes_segments(),
        Transport::Shm => false,
        Transport::Net => true,
    })
}

fn push<T>(list: &mut Vec<T>, value: T) -> usize {
    list.push(value);
    list.len() - 1
}

/// The name of what a rank offers when it waits for nobody's messages any more.
const LEAVES: &str = "leaves";

/// Longest wait for a peer that copies from or to buffers of this rank, which failed. A copy takes
/// milliseconds, and longer where many programs share the core; a stopped peer does not end it.
const LONGEST_COPY: Duration = Duration::from_secs(10);

/// The name of the offer of a connection, one end of which is this one of a rank.
fn name(rank: u32, end: &End) -> String {
    let ConnectionEnd {
        channel,
        port,
        peer,
    } = end.connection;
    let (from, to) = if end.incoming {
        (peer, rank)
    } else {
        (rank, peer)
    };
    let kind = match end.kind {
        Kind::Slots(protocol, bytes) => format!("{protocol} {bytes}"),
        Kind::Signals => "signals".to_owned(),
    };
    format!("{from}>{to}/{channel}/{port}/{kind}")
}
