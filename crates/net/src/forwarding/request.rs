//! What a rank says that hands a connection over, and what it hears.

use std::net::SocketAddr;

use executor::Route;
use serde::{Deserialize, Serialize};

use crate::tcp::connect::Hello;

/// What is to be carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The route, as the other side hears of it.
    pub hello: Hello,
    /// The number of the NIC by which it leaves.
    pub nic: u32,
    /// Where the receiver listens; for sockets.
    pub to: SocketAddr,
    /// How the sender's bells are opened.
    pub base: String,
    /// How the FIFO is opened.
    pub fifo: String,
}

impl Request {
    /// The route, if the request is sensible.
    pub fn route(&self) -> Option<Route> {
        self.hello.route(self.hello.to())
    }
}

/// What the sender hears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is carried from now on.
    Taken {
        /// The number of the `eventfd` in that process by which it is woken.
        event: i32,
    },
    /// It is not: the rank is done with its own work.
    Done,
    /// It cannot be carried.
    Failed {
        /// Whose fault it is.
        rank: u32,
        /// What happened.
        what: String,
    },
}
