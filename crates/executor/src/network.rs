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
use serde::{Deserialize, Serialize};
use shared_memory::fifo::device::{DeviceFifo, DeviceOutflow};
use shared_memory::fifo::in_place::InPlaceOutflow;
use shared_memory::fifo::relay::{Outflow, SlotsIn, SlotsOut};
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};
use shared_memory::{Alarms, Bell, Handle, Item, Mapping, Segment};

use crate::error::Error;
use crate::offered::{BASE_BELL, OfferedSegment, PROXY_BELL};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedOver {
    /// A FIFO in memory of the sender's process.
    Host {
        /// The sender's bells.
        base: OfferedSegment,
        /// The FIFO and the bell that the sender rings.
        fifo: OfferedSegment,
    },
    /// A FIFO that kernels fill.
    Device {
        /// The sender's bell, which wakes no kernel, and the proxy's.
        bells: OfferedSegment,
        /// The memory of the FIFO.
        memory: Handle,
        /// Its layout there.
        fifo: DeviceFifo,
        /// Whether a NIC reads its slots where they are.
        in_place: bool,
    },
}

/// The bells of a device's FIFO that is handed over.
const DEVICE_BELLS: [Item; 2] = [Item::Bell; 2];

impl HandedOver {
    /// A FIFO that kernels fill; and the bell to ring when something may have been posted.
    /// `in_place`: a NIC reads its slots where they are. `None` if other processes cannot open its
    /// memory.
    ///
    /// # Errors
    /// There is no memory for bells, or the kernel gives no handle.
    pub fn of_device(
        mapping: &Mapping,
        fifo: DeviceFifo,
        in_place: bool,
    ) -> Result<Option<(Self, Bell)>, shared_memory::Error> {
        let segment = Segment::shared("bells of a device's FIFO", &DEVICE_BELLS)?;
        let bells = OfferedSegment::of(&segment, &DEVICE_BELLS)?;
        let Some((bells, memory)) = bells.zip(mapping.handle()?) else {
            return Ok(None);
        };
        let handed = Self::Device {
            bells,
            memory,
            fifo,
            in_place,
        };
        Ok(Some((handed, segment.bell(PROXY_BELL)?)))
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
    /// Opens a FIFO that was handed over.
    ///
    /// # Errors
    /// The memory cannot be opened, or holds no FIFO of this protocol.
    pub fn open(handed: &HandedOver, protocol: Protocol) -> Result<Self, shared_memory::Error> {
        match handed {
            HandedOver::Host { base, fifo } => {
                let (base, fifo) = (base.open()?, fifo.open()?);
                let slots: Box<dyn Outflow> = match protocol {
                    Protocol::Simple => Box::new(fifo.receiver::<Simple>(0)?),
                    Protocol::Ll => Box::new(fifo.receiver::<LowLatency>(0)?),
                    Protocol::Ll128 => Box::new(fifo.receiver::<LowLatency128>(0)?),
                };
                Ok(Self {
                    slots: SlotsOut::Copied(slots),
                    sender: base.bell(BASE_BELL)?,
                    proxy: fifo.bell(PROXY_BELL)?,
                })
            }
            HandedOver::Device {
                bells,
                memory,
                fifo,
                in_place,
            } => {
                if fifo.protocol != protocol {
                    return Err(shared_memory::Error::Device {
                        fifo: format!("{fifo:?}"),
                    });
                }
                let mapping = Arc::new(Mapping::open(memory)?);
                let slots = match in_place {
                    true => SlotsOut::InPlace(InPlaceOutflow::within(&mapping, *fifo)?),
                    false => SlotsOut::Copied(Box::new(DeviceOutflow::new(&mapping, *fifo)?)),
                };
                let bells = bells.open()?;
                Ok(Self {
                    slots,
                    sender: bells.bell(BASE_BELL)?,
                    proxy: bells.bell(PROXY_BELL)?,
                })
            }
        }
    }
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
