//! Connections to ranks on other hosts: the engine sends and receives through FIFOs of its own process, and a network
//! carries their slots.
//!
//! Who carries what a rank sends is mostly that rank itself. A plan may name another rank of the host, next to whose GPU
//! the NIC is (NCCL's PXN): then the sender makes the FIFO in memory that the other one opens ([`HandedOver`]).

use std::sync::Arc;

use plan::Protocol;
use shared_memory::fifo::relay::{Inflow, Outflow};
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};
use shared_memory::{Alarms, Bell, Segment};

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

/// The end of a FIFO that another rank of the host carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// How another process opens the sender's bell.
    pub base: String,
    /// How it opens the FIFO, and the bell that the sender rings.
    pub fifo: String,
}

/// What a rank took over from another one of the host.
pub struct TakenOver {
    /// What is to be carried.
    pub slots: Box<dyn Outflow>,
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
        let (Some((base, bells)), Some((fifo, items))) =
            (offered::parse(&handed.base), offered::parse(&handed.fifo))
        else {
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
            slots,
            sender: base.bell(BASE_BELL)?,
            carrier: fifo.bell(CARRIER_BELL)?,
        }))
    }
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

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be reached.
    fn send(&mut self, route: &Route, slots: Box<dyn Outflow>) -> Result<(), Error>;

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
    /// There is nothing to receive with.
    fn receive(&mut self, route: &Route, slots: Box<dyn Inflow>) -> Result<(), Error>;
}
