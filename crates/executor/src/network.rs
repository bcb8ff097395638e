//! Connections to ranks on other hosts: the engine sends and receives through FIFOs of its own process, and a network
//! carries their slots.

use plan::Protocol;
use shared_memory::Bell;
use shared_memory::fifo::relay::{Inflow, Outflow};

use crate::error::Error;

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

/// Carries FIFOs between hosts. Nothing here waits for the other rank: connections are made in the background, and what is
/// sent before they are there waits in the FIFO.
pub trait Network: Send {
    /// The rank's own bell, to be rung when something came for it. Called once, before anything else.
    fn begin(&mut self, bell: Bell);

    /// The bell of whoever carries what this rank sends.
    fn bell(&self) -> Bell;

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be reached.
    fn send(&mut self, route: &Route, slots: Box<dyn Outflow>) -> Result<(), Error>;

    /// From now on posts to a FIFO what comes by a route.
    ///
    /// # Errors
    /// There is nothing to receive with.
    fn receive(&mut self, route: &Route, slots: Box<dyn Inflow>) -> Result<(), Error>;
}
