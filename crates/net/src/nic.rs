//! The interface of a NIC for proxies, whether it is TCP ([`crate::tcp`]) or an NCCL net plug-in
//! ([`crate::plugin`]).

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::Failure;
use executor::Route;
use shared_memory::fifo::relay::{Oversized, SlotsIn, SlotsOut};
use thiserror::Error;

/// A NIC of this host. It makes connections; a proxy thread drives them.
pub(crate) trait Nic: Send + Sync {
    /// Its properties for the proxy.
    fn properties(&self) -> Properties;

    /// How an error mentions it, with a space before; may be empty.
    fn mention(&self) -> String {
        String::new()
    }

    /// Connects a FIFO to its receiver, which listens at `to` (TCP) or publishes a handle.
    ///
    /// # Errors
    /// The receiver cannot be reached, or the slots are where this NIC cannot read them.
    fn connect(
        &self,
        route: &Route,
        to: SocketAddr,
        slots: SlotsOut,
    ) -> Result<Box<dyn Outgoing>, Failure>;

    /// Receives into a FIFO, once its sender connects.
    ///
    /// # Errors
    /// Nothing can connect, or the slots are where this NIC cannot write them; the text says why.
    fn receive(&self, route: &Route, slots: SlotsIn) -> Result<Box<dyn Incoming>, String>;

    /// Becomes readable when a peer connects; `None` if connections are found by polling.
    fn arrivals(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Accepts peers that have connected. Returns when to call it again at the latest.
    fn accept(&self) -> Option<Instant> {
        None
    }
}

/// The NICs of a rank.
pub(crate) type Nics = Arc<[Box<dyn Nic>]>;

/// The properties of a NIC for a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Properties {
    /// Whether it reads and writes memory of GPUs (GPUDirect RDMA).
    pub reaches_devices: bool,
    /// Whether the engine may drive its connections in place of the proxy thread.
    pub inline_progress: bool,
    /// Whether its connections are polled, because it gives nothing to sleep on.
    pub polled: bool,
    /// Whether a connection that failed is closed with all others: a peer whose connection is
    /// closed would blame itself before it hears of the failure.
    pub closes_late: bool,
}

/// The sending end of a FIFO's connection. Nothing in it blocks.
pub trait Outgoing: Send {
    /// Sends what it can, and the end of the stream if this rank is `ending`. `now` is the time
    /// since any fixed moment. Returns `true` if it made progress.
    ///
    /// # Errors
    /// The connection is over.
    fn progress(&mut self, now: Duration, ending: bool) -> Result<bool, ConnectionError>;

    /// Whether everything that was posted, and the end of the stream if it has one, is sent.
    fn is_drained(&mut self) -> bool;

    /// Adds what the connection waits for.
    fn wait_for(&self, awaited: &mut Waits);

    /// Its sockets, if it has any.
    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        Vec::new()
    }

    /// Whether it can make no progress before one of its sockets is ready.
    fn is_blocked(&self) -> bool {
        false
    }
}

/// The receiving end of a FIFO's connection. Nothing in it blocks.
pub trait Incoming: Send {
    /// Posts the slots that have arrived. `now` is the time since any fixed moment. Returns how
    /// many it posted.
    ///
    /// # Errors
    /// The connection is over, stalled, or the data was altered.
    fn progress(&mut self, now: Duration) -> Result<usize, ConnectionError>;

    /// Whether the end of the stream must still arrive before the connection can be closed.
    fn awaits_end(&self) -> bool;

    /// Adds what the connection waits for.
    fn wait_for(&self, awaited: &mut Waits);

    /// As [`Outgoing::sockets`]; none before the sender has connected.
    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        Vec::new()
    }

    /// As [`Outgoing::is_blocked`].
    fn is_blocked(&self) -> bool {
        false
    }
}

/// The waits of connections.
#[derive(Default)]
pub struct Waits {
    /// Sockets to be read.
    pub readable: Vec<Arc<TcpStream>>,
    /// Sockets with data left to write.
    pub writable: Vec<Arc<TcpStream>>,
    /// Whether some must be polled.
    pub polled: bool,
}

/// Why a connection failed.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The peer closed it.
    #[error("was closed by the other side")]
    Ended,
    /// A socket failed.
    #[error("broke: {0}")]
    Broken(io::Error),
    /// The plug-in failed.
    #[error("broke: {0}")]
    Plugin(#[from] net_plugin::Error),
    /// The received data is not what was sent.
    #[error("brought bytes that are not those that were sent ({0})")]
    Altered(&'static str),
    /// A slot is longer than slots of this FIFO.
    #[error("brought a slot of {bytes} bytes, more than the {most} that fit")]
    Oversized {
        /// Its length.
        bytes: usize,
        /// Bytes of a slot of the FIFO.
        most: usize,
    },
    /// The sending rank posted a slot that is longer than slots of this FIFO.
    #[error(transparent)]
    Announced(#[from] Oversized),
    /// Neither slots nor beats arrive.
    #[error("brought nothing for {} s, although its sender says every second that it is there", .0.as_secs_f32())]
    Stalled(Duration),
    /// The receiver published no handle of a plug-in.
    #[error("cannot be made: what the other side offers is no handle of a net plug-in")]
    Handle,
    /// Only one side has slots in place.
    #[error(
        "cannot be made: one side lets NICs reach the slots of its GPU, and the other one copies them; run the same backend on all ranks"
    )]
    Form,
}

impl ConnectionError {
    /// Whether it may follow from a failure or the end of the peer, of which the news may come
    /// later.
    ///
    /// A rank closes its connections when it is done, and when it stops because another one failed.
    /// One that is suspended is silent in the bootstrap ring too, which tells more.
    pub const fn may_follow(&self) -> bool {
        match self {
            Self::Ended | Self::Broken(_) | Self::Stalled(_) => true,
            Self::Plugin(error) => error.is_remote(),
            _ => false,
        }
    }

    /// The rank to blame: `own` drives the connection, and `peer` is at its other end.
    pub const fn culprit(&self, route: &Route, own: u32, peer: u32) -> u32 {
        match self {
            Self::Announced(_) => route.from,
            Self::Plugin(error) if !error.is_remote() => own,
            _ => peer,
        }
    }
}
