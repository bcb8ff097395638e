//! The messages with which a FIFO is handed over.

use std::net::SocketAddr;

use executor::{HandedOver, Route};
use serde::{Deserialize, Serialize};

use crate::tcp::connect::Hello;

/// A FIFO to be forwarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Its route.
    pub hello: Hello,
    /// The number of the NIC.
    pub nic: u32,
    /// Where the receiver listens, if it uses TCP.
    pub to: SocketAddr,
    /// How to open it.
    pub handed: HandedOver,
}

impl Request {
    /// The route, if the request is valid.
    pub(crate) fn route(&self) -> Option<Route> {
        self.hello.route(self.hello.to())
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It is forwarded from now on.
    Taken {
        /// The descriptor of the `eventfd`, in that process, that wakes the proxy.
        event: i32,
    },
    /// The rank is done with its own work, and does not forward it.
    Done,
    /// It cannot be forwarded.
    Failed {
        /// The rank to blame.
        rank: u32,
        /// The event.
        what: String,
    },
}
