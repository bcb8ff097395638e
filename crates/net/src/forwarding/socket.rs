//! The handover socket: where other ranks of the host hand over FIFOs that this rank forwards.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bootstrap::machine::Ending;
use bootstrap::message::read_whole;
use bootstrap::socket::accept::{Acceptor, Arrived, Until};
use bootstrap::socket::blocking::Connection;
use bootstrap::{Failure, Key, Kind};
use executor::{Route, TakenOver};

use super::forwarded::ForwardedFifo;
use super::request::{Reply, Request};
use crate::accept_thread::AcceptThread;
use crate::tcp::connect::words;

/// How long the answer to a rank may take.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

/// A FIFO that was handed over.
pub(crate) struct HandedOverFifo {
    pub route: Route,
    pub slots: shared_memory::fifo::relay::SlotsOut,
    pub forwarded: ForwardedFifo,
}

/// Why a FIFO is not forwarded.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The proxy threads are about to end.
    Done,
    /// The receiver cannot be reached.
    Failed(Failure),
}

/// Forwards a FIFO from now on. It may wait for the receiver.
pub(crate) type Take =
    dyn Fn(&Request, HandedOverFifo) -> Result<WakeDescriptor, Refusal> + Send + Sync;

/// The descriptor that wakes the proxy thread.
pub(crate) type WakeDescriptor = std::os::fd::RawFd;

struct Inside {
    /// Ranks that may hand FIFOs over.
    near: Vec<u32>,
    /// Ranks of the communicator.
    ranks: u32,
    take: Box<Take>,
}

/// The socket and its thread.
pub(crate) struct HandoverSocket {
    address: SocketAddr,
    _thread: AcceptThread,
}

impl HandoverSocket {
    /// Opens it for the ranks `near` of a communicator of `ranks`.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn open(
        listener: TcpListener,
        key: &Key,
        near: Vec<u32>,
        ranks: u32,
        take: Box<Take>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let acceptor = Acceptor::new(listener, key, &[Kind::Net], Until::Heard)?;
        let inside = Arc::new(Inside { near, ranks, take });
        let answer = move |arrived| {
            let inside = Arc::clone(&inside);
            let thread = std::thread::Builder::new().name("handing over".to_owned());
            // Taking a FIFO may wait for its receiver, so each request has a thread. If there is
            // none, the connection is closed, and the sender reports that.
            let _ = thread.spawn(move || inside.answer(arrived));
        };
        Ok(Self {
            address,
            _thread: AcceptThread::start("handover", acceptor, answer)?,
        })
    }

    /// Its address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Inside {
    fn answer(&self, arrived: Arrived) -> Result<(), Ending> {
        let broken = |error: io::Error| Ending::Broken(error.to_string());
        let request: Request =
            read_whole(&arrived.frame).map_err(|error| Ending::Broken(error.to_string()))?;
        let mut connection = Connection::of(arrived, LONGEST_WRITE)?;
        let sensible = |it: &Route| self.near.contains(&it.from) && it.to < self.ranks;
        let Some(route) = request.route().filter(sensible) else {
            return Err(Ending::Broken(
                "no rank of this host sends such a request".to_owned(),
            ));
        };
        let control = connection.stream().try_clone().map_err(broken)?;
        let reply = match self.take(&request, route, control) {
            Ok(event) => Reply::Taken { event },
            Err(Refusal::Done) => Reply::Done,
            Err(Refusal::Failed(failure)) => Reply::Failed {
                rank: failure.rank,
                what: failure.what,
            },
        };
        connection.send(&postcard::to_allocvec(&reply).unwrap_or_default())
    }

    fn take(
        &self,
        request: &Request,
        route: Route,
        control: TcpStream,
    ) -> Result<WakeDescriptor, Refusal> {
        let failed = |why: String| {
            let what = format!(
                "{} cannot be forwarded for its sender: {why}",
                words(&route)
            );
            Refusal::Failed(Failure::new(route.from, what))
        };
        let taken = TakenOver::open(&request.handed, route.protocol);
        let taken = taken.map_err(|error| failed(error.to_string()))?;
        control
            .set_nonblocking(true)
            .map_err(|error| failed(error.to_string()))?;
        let forwarded = ForwardedFifo::new(control, taken.sender, taken.proxy);
        let slots = taken.slots;
        (self.take)(
            request,
            HandedOverFifo {
                route,
                slots,
                forwarded,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bootstrap::socket::service::loopback_listener;
    use executor::HandedOver;
    use executor::offered::OfferedSegment;
    use program::Protocol;
    use shared_memory::Handle;

    use super::*;
    use crate::tcp::connect::Hello;

    #[test]
    fn strangers_do_not_keep_a_rank_from_handing_over() {
        let (listener, key) = (loopback_listener().unwrap(), Key::of_secret(b"a test"));
        let take = Box::new(|_: &Request, _: HandedOverFifo| Err(Refusal::Done));
        let socket = HandoverSocket::open(listener, &key, vec![1], 3, take).unwrap();
        let held = testkit::network::strangers::hold(&[socket.address()], 5000).unwrap();
        let route = Route {
            from: 1,
            to: 2,
            channel: 0,
            port: 0,
            protocol: Protocol::Simple,
        };
        let nothing = OfferedSegment {
            handle: Handle {
                process: u32::MAX / 2,
                descriptor: 0,
                device: 0,
                inode: 0,
                bytes: 0,
            },
            items: Vec::new(),
        };
        let request = Request {
            hello: Hello::new(&route, 0, 1),
            nic: 0,
            to: socket.address(),
            handed: HandedOver::Host {
                base: nothing.clone(),
                fifo: nothing,
            },
        };
        let (began, long) = (Instant::now(), Duration::from_secs(60));
        let mut connection = Connection::open(socket.address(), &key, Kind::Net, long).unwrap();
        connection
            .send(&postcard::to_allocvec(&request).unwrap())
            .unwrap();
        let reply: Reply = read_whole(&connection.receive(long).unwrap()).unwrap();
        // The request is read, and the rank is told that there is no such memory.
        let Reply::Failed { rank: 1, what } = reply else {
            panic!("{reply:?}");
        };
        assert!(what.contains("cannot be forwarded"), "{what}");
        let took = began.elapsed();
        println!("answered after {took:?}");
        assert!(took < Duration::from_secs(4), "answered after {took:?}");
        drop(held);
    }
}
