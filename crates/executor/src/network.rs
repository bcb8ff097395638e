//! Connections to ranks on other hosts: the engine sends and receives through FIFOs of its own process, and a network
//! carries their slots.
//!
//! Who carries what a rank sends is mostly that rank itself. A plan may name another rank of the host, next to whose GPU
//! the NIC is (NCCL's PXN): then the sender makes the FIFO in memory that the other one opens ([`HandedOver`]).

use plan::Protocol;
use shared_memory::fifo::relay::{Inflow, Outflow};
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};
use shared_memory::{Bell, Segment};

use crate::connections::{CARRIERS_BELL, OWN_BELL};
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

/// What a rank has of bells.
#[derive(Debug)]
pub struct Base {
    /// The rank's own, to be rung when something came for it.
    pub own: Bell,
    /// The one that is rung when there is something to be carried for it.
    pub carriers: Bell,
    /// How another process of the host opens both; empty if none can.
    pub text: String,
}

/// The end of a FIFO that another rank of the host carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// How another process opens its memory.
    pub fifo: String,
}

/// What a rank took over from another one of the host.
pub struct TakenOver {
    /// What is to be carried.
    pub slots: Box<dyn Outflow>,
    /// The sender's bell, to be rung when slots were given back.
    pub sender: Bell,
    /// The bell on which whoever carries announces its sleep.
    pub carriers: Bell,
}

impl TakenOver {
    /// Opens what a rank handed over: its [`Base::text`], and the FIFO. Nothing if the text is of a form that this version
    /// does not know.
    ///
    /// # Errors
    /// The memory cannot be opened, or is none of a FIFO of this protocol.
    pub fn open(
        base: &str,
        handed: &HandedOver,
        protocol: Protocol,
    ) -> Result<Option<Self>, shared_memory::Error> {
        let (Some((base, bells)), Some((fifo, items))) =
            (offered::parse(base), offered::parse(&handed.fifo))
        else {
            return Ok(None);
        };
        let bells = Segment::open(&base, &bells)?;
        let fifo = Segment::open(&fifo, &items)?;
        let slots: Box<dyn Outflow> = match protocol {
            Protocol::Simple => Box::new(fifo.receiver::<Simple>(0)?),
            Protocol::Ll => Box::new(fifo.receiver::<LowLatency>(0)?),
            Protocol::Ll128 => Box::new(fifo.receiver::<LowLatency128>(0)?),
        };
        Ok(Some(Self {
            slots,
            sender: bells.bell(OWN_BELL)?,
            carriers: bells.bell(CARRIERS_BELL)?,
        }))
    }
}

/// Carries FIFOs between hosts. Nothing here waits for the other rank: connections are made in the background, and what is
/// sent before they are there waits in the FIFO.
pub trait Network: Send {
    /// Begins. Called once, before anything else. Gives [`Base::carriers`] back as it is to be rung when something was
    /// posted.
    ///
    /// # Errors
    /// There is no thread, memory or descriptor left.
    fn begin(&mut self, base: Base) -> Result<Bell, Error>;

    /// The other rank of this host that shall carry what is sent by a route, if the plan names one.
    fn carrier(&self, route: &Route) -> Option<u32>;

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be reached.
    fn send(&mut self, route: &Route, slots: Box<dyn Outflow>) -> Result<(), Error>;

    /// Lets another rank of this host carry what is posted to a FIFO; answers whether it will. It will not if it is done
    /// with its own work.
    ///
    /// # Errors
    /// That rank, or through it the other host, cannot be reached.
    fn hand_over(&mut self, route: &Route, carrier: u32, handed: HandedOver)
    -> Result<bool, Error>;

    /// From now on posts to a FIFO what comes by a route.
    ///
    /// # Errors
    /// There is nothing to receive with.
    fn receive(&mut self, route: &Route, slots: Box<dyn Inflow>) -> Result<(), Error>;
}
