//! Connections to ranks on other hosts: the engine sends and receives through FIFOs of its own process, and a network
//! carries their slots.
//!
//! Who carries what a rank sends is mostly that rank itself. A plan may name another rank of the host, next to whose GPU
//! the NIC is (NCCL's PXN): then the sender makes the FIFO in memory that the other one opens ([`HandedOver`]).

use std::sync::Arc;

use program::ConnectionEnd;
use program::Protocol;
use shared_memory::fifo::device::{DeviceFifo, DeviceOutflow};
use shared_memory::fifo::in_place::InPlaceOutflow;
use shared_memory::fifo::relay::{Outflow, SlotsIn, SlotsOut};
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};
use shared_memory::{Alarms, Bell, Handle, Item, Mapping, Segment};

use crate::connections::{BASE_BELL, CARRIER_BELL};
use crate::error::Error;
use crate::offered;

/// Which FIFO is carried: both ends name it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The sending rank.
    pub from: u32,
    /// The receiving rank.
    pub to: u32,
    /// The channel.
    pub channel: u16,
    /// Which of several between the same ranks in one channel.
    pub port: u8,
    /// The protocol of the FIFO.
    pub protocol: Protocol,
}

impl Route {
    /// That of a rank's connection.
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

/// The end of a FIFO that another rank of the host carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// How another process opens the sender's bell.
    pub base: String,
    /// How it opens the FIFO, and the bell that the sender rings.
    pub fifo: String,
}

/// What the text of a device's FIFO begins with.
const OF_DEVICE: &str = "device";

/// The bells of a device's FIFO that is handed over: the sender's, which no kernel hears, and the carrier's.
const DEVICE_BELLS: [Item; 2] = [Item::Bell; 2];

impl HandedOver {
    /// A FIFO that kernels fill, in memory that other processes open; and the bell that is rung when something may have been
    /// posted. `in_place` says that a NIC is to read its slots itself.
    ///
    /// # Errors
    /// There is no memory for bells, or no other process can open the FIFO's.
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
        Ok((handed, bells.bell(CARRIER_BELL)?))
    }
}

/// What a rank took over from another one of the host.
pub struct TakenOver {
    /// What is to be carried.
    pub slots: SlotsOut,
    /// The sender's bell, to be rung when slots were given back.
    pub sender: Bell,
    /// The bell that the sender rings when it posted something; whoever carries announces its sleep on it.
    pub carrier: Bell,
}

impl TakenOver {
    /// Opens what a rank handed over. Nothing if it is of a form that this version does not know.
    ///
    /// # Errors
    /// The memory cannot be opened, or is none of a FIFO of this protocol.
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
                carrier: bells.bell(CARRIER_BELL)?,
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
            carrier: fifo.bell(CARRIER_BELL)?,
        }))
    }
}

/// The end of a device's FIFO that was handed over, by its text.
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

/// Carrying in the place of a network's threads, for an engine that waits anyway: it need not wake them then, nor they it.
pub trait Progress: Send + Sync {
    /// Carries what can be carried now; answers whether anything went on. From then on the threads leave it to the caller,
    /// as long as that does not pause for longer than a moment.
    fn go_on(&self) -> bool;

    /// Leaves it to the threads again. To be called before the caller sleeps.
    fn let_go(&self);

    /// Sends what was posted; what cannot be sent at once is left to the threads.
    fn finish(&self);

    /// Whether the threads have no cores of their own, so that nothing is won by leaving long messages to them.
    fn is_alone(&self) -> bool;
}

/// Carries FIFOs between hosts. Nothing here waits for the other rank: connections are made in the background, and what is
/// sent before they are there waits in the FIFO.
pub trait Network: Send {
    /// Begins. Called once, before anything else, with the rank's own bell, to be rung when something came for it. Gives
    /// the bell that is to be rung when something was posted that this rank carries itself.
    ///
    /// # Errors
    /// There is no thread, memory or descriptor left.
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error>;

    /// By which the engine carries itself what its rank sends and receives; none if only the network's threads can.
    fn progress(&self) -> Option<Arc<dyn Progress>> {
        None
    }

    /// The other rank of this host that shall carry what is sent by a route, if the plan names one.
    fn carrier(&self, route: &Route) -> Option<u32>;

    /// Whether its NICs can read and write memory of devices (GPUDirect RDMA), so that slots may be given to it in place.
    fn reaches_devices(&self) -> bool {
        false
    }

    /// Where the plan lets NICs do so on a route: read the sender's memory, write the receiver's. Both ends answer alike.
    fn device_ends(&self, route: &Route) -> (bool, bool) {
        let _ = route;
        (true, true)
    }

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be reached, or slots are in place and no NIC reaches them.
    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error>;

    /// Lets another rank of this host carry what is posted to a FIFO. Gives what wakes it; nothing if it will not, because
    /// it is done with its own work.
    ///
    /// # Errors
    /// That rank, or through it the other host, cannot be reached.
    fn hand_over(
        &mut self,
        route: &Route,
        carrier: u32,
        handed: HandedOver,
    ) -> Result<Option<Alarms>, Error>;

    /// From now on posts to a FIFO what comes by a route.
    ///
    /// # Errors
    /// There is nothing to receive with, or slots are in place and no NIC reaches them.
    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error>;
}
