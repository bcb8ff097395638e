//! The meeting of the ranks of a communicator, and the news that one of them failed.
//!
//! Before ranks are connected they exchange little: how to open the memory of their connections. A
//! [`Bootstrap`] transports it. [`local`] is the one for ranks that are threads; the crate `net`
//! has the one for processes, of one host or several.

pub mod local;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use shared_memory::{Alarms, Segment};

use crate::error::{Error, Failure};
use crate::network::Network;
use crate::transport::Transport;

/// Longest delay of the news that another rank failed.
const NEWS_TIME: Duration = Duration::from_secs(2);

/// Between two checks for such news.
const LOOK: Duration = Duration::from_millis(5);

/// A named offer of a rank to the others.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// A message, whose type depends on the name.
    pub message: Vec<u8>,
    /// For ranks of the same process.
    pub segment: Option<Arc<Segment>>,
}

impl Offer {
    /// The offer of a message.
    pub fn of<T: Serialize>(message: &T) -> Self {
        Self {
            // Everything that is offered can be written.
            message: postcard::to_allocvec(message).unwrap_or_default(),
            segment: None,
        }
    }

    /// The message that rank `peer` offers to rank `rank`.
    ///
    /// # Errors
    /// It is not of this type, or something follows it.
    pub fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        (rank, peer): (u32, u32),
    ) -> Result<T, Error> {
        match postcard::take_from_bytes(&self.message) {
            Ok((message, [])) => Ok(message),
            _ => Err(Error::Bootstrap {
                rank,
                why: format!(
                    "rank {peer} offers `{name}` in a form that this version does not know; give all ranks the same \
                     version"
                ),
            }),
        }
    }
}

/// Ranks of one machine, which share its cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// How many ranks.
    pub ranks: u32,
    /// Cores that they may use.
    pub cores: u32,
}

/// How ranks find each other. Used to make connections, and when a rank waits for long; never in
/// between.
pub trait Bootstrap: Send {
    /// The own rank.
    fn rank(&self) -> u32;

    /// Ranks of the communicator.
    fn ranks(&self) -> u32;

    /// Whether a rank is a thread of this process.
    fn shares_memory(&self, peer: u32) -> bool;

    /// Whether offers reach ranks of this process with their segment, so that they open none.
    fn passes_segments(&self) -> bool {
        false
    }

    /// How a rank is reached. Both ends return the same.
    fn transport(&self, peer: u32) -> Transport {
        if self.shares_memory(peer) {
            Transport::P2p
        } else {
            Transport::Shm
        }
    }

    /// Whether a rank is on this host, even if it cannot share memory.
    fn same_host(&self, peer: u32) -> bool {
        self.transport(peer) != Transport::Net
    }

    /// The host of a rank, as a number: ranks with one number share memory with each other. Equal
    /// on all ranks.
    fn host(&self, peer: u32) -> u32 {
        let _ = peer;
        0
    }

    /// Ranks that share cores with this one, itself included.
    fn sharing_cores(&self) -> u32 {
        self.ranks()
    }

    /// The machine on which most ranks share a core. Equal on all ranks.
    fn crowd(&self) -> Crowd;

    /// What wakes another rank of this host that sleeps on its connections to other hosts, or
    /// `None` if this rank cannot wake it.
    fn alarms_of(&mut self, peer: u32) -> Option<Alarms> {
        let _ = peer;
        None
    }

    /// The network to ranks that are reached by [`Transport::Net`]; `None` if there are none.
    fn network(&mut self) -> Option<&mut dyn Network> {
        None
    }

    /// Offers something under a name to all other ranks.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error>;

    /// Waits for an offer of rank `from`.
    ///
    /// # Errors
    /// It times out, or a rank failed or left.
    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error>;

    /// Asks for offers of ranks, which [`Self::fetch`] takes next: so a rank that needs many does
    /// not wait for each in turn.
    fn prefetch(&mut self, offers: &[(u32, String)]) {
        let _ = offers;
    }

    /// Whether [`Self::fetch`] would not wait for this offer.
    ///
    /// # Errors
    /// A rank failed or left.
    fn has_offer(&mut self, from: u32, name: &str) -> Result<bool, Error>;

    /// The offers of all ranks under one name, in rank order. All ranks call it together, after
    /// they published `own` under that name.
    ///
    /// # Errors
    /// It times out, or a rank failed or left.
    fn gather(&mut self, name: &str, own: &Offer, longest: Duration) -> Result<Vec<Offer>, Error> {
        let rank = self.rank();
        let ranks = 0..self.ranks();
        let fetch = |peer| match peer == rank {
            true => Ok(own.clone()),
            false => self.fetch(peer, name, longest),
        };
        ranks.map(fetch).collect()
    }

    /// Tells all others of a failure, so that they stop waiting.
    fn fail(&mut self, failure: &Failure);

    /// The failure of the communicator, if there is one. That the rank `waiting_for` has left
    /// counts as one too.
    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure>;
}

/// Exchanges a message with all ranks; returns them in rank order. All ranks call it together, in
/// the same order of names.
///
/// # Errors
/// It times out, a rank failed or left, or its message is not of this type.
pub fn exchange<T: Serialize + DeserializeOwned>(
    bootstrap: &mut dyn Bootstrap,
    name: &str,
    own: &T,
    longest: Duration,
) -> Result<Vec<T>, Error> {
    let (rank, own) = (bootstrap.rank(), Offer::of(own));
    bootstrap.publish(name, own.clone())?;
    let all = bootstrap.gather(name, &own, longest)?;
    let all = all.iter().zip(0..);
    all.map(|(offer, peer)| offer.read(name, (rank, peer)))
        .collect()
}

/// Tells the others of an error. Returns the failure of another rank in its place if it may be a
/// consequence of that failure.
#[cold]
pub(crate) fn give_up(bootstrap: &mut dyn Bootstrap, error: Error) -> Error {
    let rank = bootstrap.rank();
    let mut error = error;
    if error.may_be_an_echo() {
        let until = Instant::now() + NEWS_TIME;
        while Instant::now() < until {
            if let Some(failure) = bootstrap.failure(None) {
                error = Error::Aborted { rank, failure };
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    bootstrap.fail(&error.failure(rank));
    error
}
