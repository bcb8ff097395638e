//! The check that the ranks of a host run the same collective.
//!
//! A rank that runs a request for the first time publishes it in its buffer table, and compares it
//! with what its peers published when it has ended. Others cost nothing. All ranks count
//! requests alike, so where one publishes and another does not, they do not run the same.

use std::hash::{Hash, Hasher};

use program::{Collective, Transfer};
use rustc_hash::{FxHashSet, FxHasher};
use shared_memory::BufferTable;

use crate::error::Error;
use crate::request::{Choice, Request};

/// Most requests that are remembered. Then all are published and compared again.
const MOST_KNOWN: usize = 4096;

/// The requests that this rank ran, and the tables of its peers.
#[derive(Debug)]
pub struct Known {
    requests: FxHashSet<u64>,
    /// How often they were forgotten, and 1.
    age: u64,
    launch: Launch,
    peers: Vec<(u32, BufferTable)>,
}

/// The last launch.
#[derive(Debug, Default, Clone, Copy)]
struct Launch {
    /// Counted by all ranks from 1.
    number: u64,
    request: u64,
    /// The request of the launch before it.
    before: u64,
    /// Whether the request is new to this rank.
    is_new: bool,
}

impl Known {
    /// With the peers of the host.
    pub fn new(peers: Vec<(u32, BufferTable)>) -> Self {
        Self {
            requests: FxHashSet::default(),
            age: 1,
            launch: Launch::default(),
            peers,
        }
    }

    /// Notes a launch of a request, which may have been noted when it was prepared. Returns whether
    /// it is new to this rank. `age` is of the last launch of its program, and is set to that of
    /// this one.
    #[inline]
    pub fn note(&mut self, number: u64, request: u64, age: &mut u64) -> bool {
        let last = self.launch;
        if (last.number, last.request) != (number, request) {
            self.launch = Launch {
                number,
                request,
                before: last.request,
                is_new: *age != self.age && self.insert(request),
            };
        }
        *age = self.age;
        self.launch.is_new
    }

    #[cold]
    fn insert(&mut self, request: u64) -> bool {
        // Ranks do not ask alike: one may have to prepare a program again.
        if self.requests.contains(&request) {
            return false;
        }
        if self.requests.len() >= MOST_KNOWN {
            self.requests.clear();
            self.age += 1;
        }
        self.requests.insert(request)
    }

    /// The last launch, of this collective.
    #[inline]
    pub fn launch(&self, collective: Collective) -> Comparison<'_> {
        Comparison {
            peers: &self.peers,
            launch: self.launch,
            collective,
        }
    }

    /// Compares the last launch, which has ended, with those of peers, if it was published.
    ///
    /// # Errors
    /// [`Error::Differs`].
    #[inline]
    pub fn end(&self, rank: u32, request: &Request) -> Result<(), Error> {
        match self.launch.is_new {
            true => self.launch(request.collective).end(rank, request.count),
            false => Ok(()),
        }
    }
}

/// A launch, to be compared with those of peers.
#[derive(Debug, Clone, Copy)]
pub struct Comparison<'a> {
    peers: &'a [(u32, BufferTable)],
    launch: Launch,
    collective: Collective,
}

impl Comparison<'_> {
    /// Compares with what peers have published, while this rank waits.
    ///
    /// # Errors
    /// [`Error::Differs`].
    #[cold]
    pub fn look(&self, rank: u32) -> Result<(), Error> {
        let number = self.launch.number;
        for (peer, table) in self.peers {
            let differs = |runs| Err(self.differs(rank, *peer, runs));
            // First, because a peer publishes in order.
            let is_ahead = table.last(number + 1) > number;
            if self.launch.is_new && is_ahead && table.last(number) < number {
                return differs(REPEATS.to_owned());
            }
            let before = (self.launch.before, number - 1, "the one before it");
            for (own, number, which) in [(self.launch.request, number, "it"), before] {
                if let Some((request, [input, output, _])) = table.read(number)
                    && request != own
                {
                    return differs(format!(
                        "{which} has an input of {} bytes and an output of {}",
                        input.bytes, output.bytes
                    ));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn end(&self, rank: u32, count: u64) -> Result<(), Error> {
        self.look(rank)?;
        // It could not end before all had begun.
        let met = count > 0 && !self.collective.has_root();
        let number = self.launch.number;
        let mut peers = self.peers.iter();
        match peers.find(|(_, table)| table.last(number) < number) {
            Some((peer, _)) if met => Err(self.differs(rank, *peer, REPEATS.to_owned())),
            _ => Ok(()),
        }
    }

    fn differs(&self, rank: u32, peer: u32, runs: String) -> Error {
        Error::Differs {
            rank,
            peer,
            collective: self.collective,
            runs,
        }
    }
}

/// What a peer runs that publishes nothing.
const REPEATS: &str = "it repeats an earlier call of both";

/// A hash of what is run and how, the same in all processes of one program.
pub fn hash(request: &Request, choice: &Choice) -> u64 {
    let mut hasher = FxHasher::default();
    Request {
        choice: Some(*choice),
        // Each rank may receive where it likes, unless others look there.
        in_place: request.in_place && request.count > 0 && choice.transfer != Transfer::Fifo,
        ..*request
    }
    .hash(&mut hasher);
    hasher.finish()
}
