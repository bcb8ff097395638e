//! Connecting sockets: the sender connects, both prove that they know the key, and the sender names
//! the FIFO.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bootstrap::machine::Ending;
use bootstrap::message::read_whole;
use bootstrap::socket::accept::Arrived;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Key, Kind};
use executor::Route;
use program::Protocol;
use serde::{Deserialize, Serialize};

/// The first message of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    from: u32,
    to: u32,
    channel: u16,
    port: u32,
    protocol: u8,
    /// The number of the socket.
    pub socket: u16,
    /// Sockets of the connection.
    pub sockets: u16,
}

impl Hello {
    /// For one socket of a route.
    pub const fn new(route: &Route, socket: u16, sockets: u16) -> Self {
        Self {
            from: route.from,
            to: route.to,
            channel: route.channel,
            port: route.port,
            protocol: match route.protocol {
                Protocol::Ll => 0,
                Protocol::Ll128 => 1,
                Protocol::Simple => 2,
            },
            socket,
            sockets,
        }
    }

    /// The receiving rank.
    pub const fn to(&self) -> u32 {
        self.to
    }

    /// The route, if this is a valid hello to rank `own`.
    pub fn route(&self, own: u32) -> Option<Route> {
        let sensible = self.to == own && self.socket < self.sockets && self.sockets <= MOST_SOCKETS;
        let protocol = match self.protocol {
            0 => Protocol::Ll,
            1 => Protocol::Ll128,
            2 => Protocol::Simple,
            _ => return None,
        };
        sensible.then_some(Route {
            from: self.from,
            to: self.to,
            channel: self.channel,
            port: self.port,
            protocol,
        })
    }
}

/// Most sockets of one connection, as in NCCL.
pub const MOST_SOCKETS: u16 = 64;

/// How messages name a connection.
pub fn words(route: &Route) -> String {
    format!(
        "the connection from rank {} to rank {} (channel {}, {})",
        route.from, route.to, route.channel, route.protocol
    )
}

/// Connects all sockets of a route.
///
/// # Errors
/// The receiver does not listen, or has another key.
pub fn connect(
    route: &Route,
    to: SocketAddr,
    key: &Key,
    sockets: u16,
    longest: Duration,
) -> Result<Vec<TcpStream>, Ending> {
    let one = |socket| {
        let mut connection = Connection::open(to, key, Kind::Net, longest)?;
        let hello = postcard::to_allocvec(&Hello::new(route, socket, sockets)).unwrap_or_default();
        connection.send(&hello)?;
        let stream = connection.into_stream();
        let nonblocking = stream.set_nonblocking(true);
        nonblocking.map_err(|error| Ending::Broken(error.to_string()))?;
        Ok(stream)
    };
    (0..sockets).map(one).collect()
}

/// The hello of an accepted connection, and its socket.
///
/// # Errors
/// The peer sent no hello.
pub fn accepted(arrived: Arrived) -> Result<(Hello, TcpStream), Ending> {
    let broken = |error: std::io::Error| Ending::Broken(error.to_string());
    let hello: Hello =
        read_whole(&arrived.frame).map_err(|error| Ending::Broken(error.to_string()))?;
    let stream = arrived.into_stream();
    stream.set_nonblocking(true).map_err(broken)?;
    Ok((hello, stream))
}
