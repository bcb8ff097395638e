//! Sockets of senders that have connected before this rank receives from them.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use executor::Route;

use super::connect::Hello;
use super::pipe::Pipe;

/// A socket of a connection that nothing has received from yet.
struct Socket {
    route: Route,
    socket: u16,
    sockets: u16,
    stream: TcpStream,
}

/// The sockets that a NIC accepted.
#[derive(Default)]
pub(super) struct ArrivedSockets(Arc<Mutex<Vec<Socket>>>);

impl ArrivedSockets {
    /// Adds an accepted socket.
    pub(super) fn add(&self, route: Route, hello: &Hello, stream: TcpStream) {
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.push(Socket {
            route,
            socket: hello.socket,
            sockets: hello.sockets,
            stream,
        });
    }

    /// The sockets of one connection, now or later.
    pub(super) fn of(&self, route: &Route) -> Arrivals {
        Arrivals {
            route: *route,
            arrived: Arc::clone(&self.0),
        }
    }
}

/// The sockets of one connection.
pub(super) struct Arrivals {
    route: Route,
    arrived: Arc<Mutex<Vec<Socket>>>,
}

impl Arrivals {
    /// The sockets, once all have arrived.
    pub(super) fn take(&self) -> Option<Vec<Box<dyn Pipe>>> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |it: &Socket| it.route == self.route;
        let sockets = arrived.iter().find(|it| own(it))?.sockets;
        if arrived.iter().filter(|it| own(it)).count() < usize::from(sockets) {
            return None;
        }
        let mut own: Vec<Socket> = arrived.extract_if(.., |it| own(it)).collect();
        drop(arrived);
        own.sort_by_key(|it| it.socket);
        Some(own.into_iter().map(|it| pipe(it.stream)).collect())
    }
}

/// A socket as a pipe.
pub(super) fn pipe(stream: TcpStream) -> Box<dyn Pipe> {
    Box::new(Arc::new(stream))
}
