//! How the ranks of a communicator find each other, and how they hear that one of them failed.
//!
//! What ranks tell each other before they are connected is little: where the memory is through which they will talk. A
//! [`Bootstrap`] carries that: [`local`] for ranks that are threads. The crate `net`
//! has one for processes, of one host or several.

pub mod local;

use std::sync::Arc;
use std::time::{Duration, Instant};

use shared_memory::Segment;

use crate::error::{Error, Failure};
use crate::network::Network;
use crate::transport::Transport;

/// Longest delay of the news that another rank failed.
const NEWS_TIME: Duration = Duration::from_secs(2);

/// Between two checks for such news.
const LOOK: Duration = Duration::from_millis(5);

/// What a rank offers to others under a name.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// What other processes need to know. No line breaks.
    pub text: String,
    /// The memory itself, for ranks of the same process.
    pub segment: Option<Arc<Segment>>,
}

/// How ranks find each other. Used only when something is made or when a rank waits for long.
pub trait Bootstrap: Send {
    /// The own rank.
    fn rank(&self) -> u32;

    /// Ranks of the communicator.
    fn ranks(&self) -> u32;

    /// Whether a rank shares this process's memory.
    fn shares_memory(&self, peer: u32) -> bool;

    /// How a rank is reached. Both ends say the same.
    fn transport(&self, peer: u32) -> Transport {
        if self.shares_memory(peer) {
            Transport::P2p
        } else {
            Transport::Shm
        }
    }

    /// Whether a rank is on this host, also if no memory can be shared with it.
    fn same_host(&self, peer: u32) -> bool {
        self.transport(peer) != Transport::Net
    }

    /// Ranks that may want the same cores as this one, itself among them.
    fn sharing_cores(&self) -> u32 {
        self.ranks()
    }

    /// What carries FIFOs to ranks that are reached by [`Transport::Net`]; there is one if there are such.
    fn network(&mut self) -> Option<&mut dyn Network> {
        None
    }

    /// Offers something to whoever asks for the name.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error>;

    /// What `from` offers under a name, waiting until it does.
    ///
    /// # Errors
    /// It does not within the time, or it failed or left.
    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error>;

    /// What all ranks say under a name, in rank order, when all have said it. All call it together, in the same order of names.
    ///
    /// # Errors
    /// Some do not within the time, or failed or left.
    fn exchange(
        &mut self,
        name: &str,
        text: String,
        longest: Duration,
    ) -> Result<Vec<String>, Error> {
        let segment = None;
        self.publish(name, Offer { text, segment })?;
        (0..self.ranks())
            .map(|peer| Ok(self.fetch(peer, name, longest)?.text))
            .collect()
    }

    /// Tells all others that this rank failed, so that they give up.
    fn fail(&mut self, failure: &Failure);

    /// What made the communicator fail, if anything did. `waiting_for` is the rank that is waited for now: it counts as
    /// a failure too if that one has left.
    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure>;
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
