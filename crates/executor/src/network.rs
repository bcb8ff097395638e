//! Connections to ranks on other hosts: the engine uses FIFOs of its own process, and a network
//! moves their slots.
//!
//! A rank mostly uses its own proxies. A plan may name another rank of the host, whose GPU is next
//! to the NIC (NCCL's PXN): then the sender makes the FIFO in memory that the other rank opens
//! ([`HandedOver`]).

use std::sync::Arc;
use std::time::Duration;

use program::ConnectionEnd;
use program::Protocol;
use shared_memory::fifo::device::{DeviceFifo, DeviceOutflow};
use shared_memory::fifo::in_place::InPlaceOutflow;
use shared_memory::fifo::relay::{Outflow, SlotsIn, SlotsOut};
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};
use shared_memory::{Alarms, Bell, Handle, Item, Mapping, Segment};

use crate::error::Error;
use crate::offered::{self, BASE_BELL, PROXY_BELL};

/// A FIFO between hosts, as both ends name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The sending rank.
    pub from: u32,
    /// The receiving rank.
    pub to: u32,
    /// The channel.
    pub channel: u16,
    /// Its number among those between the same ranks in one channel.
    pub port: u32,
    /// The protocol of the FIFO.
    pub protocol: Protocol,
}

impl Route {
    /// The route of a rank's connection.
    pub const fn of(
        rank: u32,
        connection: &ConnectionEnd,
        incoming: bool,
        protocol: Protocol,
    ) -> Self {
        let ConnectionEnd {
            peer,
            channel,
            port,
        } = *connection;
        let (from, to) = if incoming { (peer, rank) } else { (rank, peer) };
        Self {
            from,
            to,
            channel,
            port,
            protocol,
        }
    }
}

/// The end of a FIFO that another rank of the host forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// How another process opens the sender's bells.
    pub base: String,
    /// How it opens the FIFO and the bell that the sender rings.
    pub fifo: String,
}

/// The prefix in the text of a device's FIFO.
const OF_DEVICE: &str = "device";

/// The bells of a device's FIFO that is handed over: the sender's, which wakes no kernel, and the
/// proxy's.
const DEVICE_BELLS: [Item; 2] = [Item::Bell; 2];

impl HandedOver {
    /// A FIFO that kernels fill, in memory that other processes open; and the bell to ring when
    /// something may have been posted. `in_place`: a NIC reads its slots where they are.
    ///
    /// # Errors
    /// There is no memory for bells, or other processes cannot open the memory of the FIFO.
    pub fn of_device(
        mapping: &Mapping,
        fifo: &DeviceFifo,
        in_place: bool,
    ) -> Result<(Self, Bell), shared_memory::Error> {
        let bells = Segment::shared("bells of a device's FIFO", &DEVICE_BELLS)?;
        let handle = mapping.handle()?.map(|handle| handle.to_string());
        let handle = handle.unwrap_or_default();
        let how = if in_place { "in-place" } else { "copied" };
        let handed = Self {
            base: offered::text(&bells, &DEVICE_BELLS)?,
            fifo: format!("{OF_DEVICE} {how} {handle} {fifo}"),
        };
        Ok((handed, bells.bell(PROXY_BELL)?))
    }
}

/// A FIFO that another rank of the host handed over.
pub struct TakenOver {
    /// Its slots.
    pub slots: SlotsOut,
    /// The sender's bell, to ring when slots were released.
    pub sender: Bell,
    /// The bell that the sender rings when it posted something. The proxy announces its sleep on
    /// it.
    pub proxy: Bell,
}

impl TakenOver {
    /// Opens a FIFO that was handed over. Returns `None` if this version does not know its form.
    ///
    /// # Errors
    /// The memory cannot be opened, or holds no FIFO of this protocol.
    pub fn open(
        handed: &HandedOver,
        protocol: Protocol,
    ) -> Result<Option<Self>, shared_memory::Error> {
        let Some((base, bells)) = offered::parse(&handed.base) else {
            return Ok(None);
        };
        if let Some(text) = handed.fifo.strip_prefix(OF_DEVICE) {
            let Some(slots) = of_device(text, protocol)? else {
                return Ok(None);
            };
            let bells = Segment::open(&base, &bells)?;
            return Ok(Some(Self {
                slots,
                sender: bells.bell(BASE_BELL)?,
                proxy: bells.bell(PROXY_BELL)?,
            }));
        }
        let Some((fifo, items)) = offered::parse(&handed.fifo) else {
            return Ok(None);
        };
        let base = Segment::open(&base, &bells)?;
        let fifo = Segment::open(&fifo, &items)?;
        let slots: Box<dyn Outflow> = match protocol {
            Protocol::Simple => Box::new(fifo.receiver::<Simple>(0)?),
            Protocol::Ll => Box::new(fifo.receiver::<LowLatency>(0)?),
            Protocol::Ll128 => Box::new(fifo.receiver::<LowLatency128>(0)?),
        };
        Ok(Some(Self {
            slots: SlotsOut::Copied(slots),
            sender: base.bell(BASE_BELL)?,
            proxy: fifo.bell(PROXY_BELL)?,
        }))
    }
}

/// Opens a device's FIFO that was handed over.
fn of_device(text: &str, protocol: Protocol) -> Result<Option<SlotsOut>, shared_memory::Error> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [how, handle, fifo] = words[..] else {
        return Ok(None);
    };
    let (handle, fifo): (Handle, DeviceFifo) = (handle.parse()?, fifo.parse()?);
    if fifo.protocol != protocol {
        return Ok(None);
    }
    let mapping = Arc::new(Mapping::open(&handle)?);
    Ok(match how {
        "in-place" => Some(SlotsOut::InPlace(InPlaceOutflow::within(&mapping, fifo)?)),
        "copied" => {
            let slots = DeviceOutflow::new(&mapping, fifo)?;
            Some(SlotsOut::Copied(Box::new(slots)))
        }
        _ => None,
    })
}

/// Inline progress: an engine that waits drives the network in place of the proxy threads, so that
/// neither must wake the other.
pub trait Progress: Send + Sync {
    /// Drives all connections. Returns `true` if any made progress. From then on the threads leave
    /// them to the caller, as long as it does not pause for longer than a moment.
    fn make_progress(&self) -> bool;

    /// As [`Self::make_progress`], and from then on [`Self::sleep`] notices everything new. Returns
    /// `None` if the caller cannot sleep on the connections.
    fn prepare_sleep(&self) -> Option<bool>;

    /// Sleeps until something arrives, can be sent again, or the rank's bell is rung by a thread of
    /// this process, for at most `longest`. To be called after [`Self::prepare_sleep`], and after
    /// the sleep was announced on the bell.
    fn sleep(&self, longest: Duration);

    /// Hands the connections back to the threads. To be called before the caller sleeps elsewhere.
    fn hand_back(&self);

    /// Sends what was posted; the threads send what is left.
    fn finish(&self);

    /// Whether the threads have no cores of their own, so that leaving long messages to them gains
    /// nothing.
    fn shares_cores(&self) -> bool;

    /// Whether there are so many ranks on a core that a rank that polls keeps others from sending
    /// what it waits for.
    fn is_crowded(&self) -> bool;
}

/// Moves FIFOs between hosts. Slots that are sent before their connection is made wait in the FIFO.
pub trait Network: Send {
    /// Starts the proxies. Called once, before anything else. `bell` is the rank's own, which
    /// proxies ring when something arrived. Returns the bell that the rank rings when it posted
    /// something.
    ///
    /// # Errors
    /// The system has no thread, memory or descriptor left.
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error>;

    /// Inline progress, or `None` if only the proxy threads can make progress.
    fn progress(&self) -> Option<Arc<dyn Progress>> {
        None
    }

    /// The other rank of this host that forwards this route, if the plan names one.
    fn pxn_proxy(&self, route: &Route) -> Option<u32>;

    /// Whether its NICs can access memory of devices (GPUDirect RDMA), so that it takes slots in
    /// place.
    fn reaches_devices(&self) -> bool {
        false
    }

    /// Whether the plan lets NICs read the sender's and write the receiver's device memory on a
    /// route. Both ends return the same.
    fn device_ends(&self, route: &Route) -> (bool, bool) {
        let _ = route;
        (true, true)
    }

    /// Sends from now on what is posted to a FIFO.
    ///
    /// # Errors
    /// The receiver cannot be reached, or slots are in place and no NIC reaches them.
    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error>;

    /// Lets rank `proxy` of this host forward what is posted to a FIFO. Returns what wakes its
    /// proxy, or `None` if that rank is done with its own work.
    ///
    /// # Errors
    /// That rank, or the receiver, cannot be reached.
    fn hand_over(
        &mut self,
        route: &Route,
        proxy: u32,
        handed: HandedOver,
    ) -> Result<Option<Alarms>, Error>;

    /// Posts from now on to a FIFO what arrives by a route.
    ///
    /// # Errors
    /// Nothing can connect, or slots are in place and no NIC reaches them.
    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error>;
}
