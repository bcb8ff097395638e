//! Open groups: transfers and collectives that run at the same time. More can be added while they
//! run.
//!
//! A send and a receive that are started one after the other may both wait for their peers. If the
//! first kept the second from starting, two ranks could wait for each other. A collective may wait
//! for a rank that waits for a transfer. A [`Group`](crate::Group) is an open group that runs until
//! all its transfers have ended.

use std::time::{Duration, Instant};

use program::{Collective, ElementType};
use shared_memory::Bell;

use crate::backend::{Attempt, Backend};
use crate::communicator::Communicator;
use crate::error::{Error, Waiting};
use crate::memory::Memory;
use crate::request::{Choice, Request};

/// Most bytes of a message that is moved without an entry: the call that starts it copies it.
pub(crate) const MOST_TRIED: usize = 32 << 10;

/// What has begun or waits for its turn. Transfers between the same two ranks, in one direction and
/// with the same tag, run one after the other, and so do collectives.
#[derive(Debug, Default)]
pub struct OpenGroup<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    /// The rank whose message a receive from any rank prefers, so that each has its turn.
    pub(crate) preferred: u32,
    /// Since when nothing was moved, as the first look after that noticed. What ends soon reads no
    /// clock.
    pub(crate) since: Option<Instant>,
    /// When this rank last looked whether others failed.
    pub(crate) looked: Option<Instant>,
    /// The reason of the wait, if nothing was moved when it last polled.
    pub(crate) unmet: Option<Waiting>,
    /// If peers are not ready: how long to wait between two looks, and when to look next.
    pub(crate) retry: Option<(Duration, Instant)>,
    /// Whether a rank was gone at the last look. What it sent before may have arrived since.
    pub(crate) gone: bool,
}

/// The other end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// This rank sends the memory's input to that rank.
    To(u32),
    /// This rank receives from that rank into the memory's output.
    From(u32),
    /// This rank receives from the other rank whose message arrives first.
    FromAny,
}

impl End {
    /// Whether transfers with these ends and the same tag may take or send the same messages.
    pub const fn shares_messages(self, other: Self) -> bool {
        match (self, other) {
            (Self::To(one), Self::To(other)) | (Self::From(one), Self::From(other)) => one == other,
            (Self::To(_), _) | (_, Self::To(_)) => false,
            (Self::FromAny, _) | (_, Self::FromAny) => true,
        }
    }
}

/// A transfer or a collective that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number with which it was added.
    pub number: u64,
    /// The other rank of a transfer.
    pub peer: Option<u32>,
}

/// A transfer or a collective.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub number: u64,
    pub call: Call,
    pub memory: Memory<'a>,
    /// The factor of a pre-multiplied sum.
    pub scalar: u64,
    /// The elements and the choice of a transfer.
    pub like: (ElementType, Option<Choice>),
    pub state: State,
    /// The connections of its tag, by peer: see [`Connections::begin_tag`].
    ///
    /// [`Connections::begin_tag`]: crate::connections::Connections::begin_tag
    pub connections: Vec<(u32, u32)>,
    /// When a look first found it.
    pub since: Option<Instant>,
    /// Its longest wait for another rank.
    pub longest: Duration,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// With its tag.
    Transfer(End, u32),
    Collective(Request),
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum State {
    /// It was not tried, as it was not its turn. Whether its peers have what they need to begin.
    Waits { offered: bool },
    /// It has its turn, and its peer is not ready.
    Refused,
    /// It looks for a message of these ranks, with the places of their programs.
    Listens(Vec<(u32, usize)>),
    /// It runs the program of this place.
    Runs(usize),
}

impl Entry<'_> {
    /// The request of a transfer with that rank, as both ends see it.
    pub fn transfer(&self, own: u32, peer: u32) -> Request {
        let (root, to, tag) = match self.call {
            Call::Transfer(End::To(_), tag) => (own, peer, tag),
            Call::Transfer(_, tag) => (peer, own, tag),
            Call::Collective(_) => (peer, own, 0),
        };
        let (element, choice) = self.like;
        Request {
            element,
            count: self.transferred() / u64::from(element.bytes()),
            choice,
            ..Request::transfer((root, to), tag, 0)
        }
    }

    /// Whether it is a receive.
    pub const fn receives(&self) -> bool {
        matches!(self.call, Call::Transfer(End::From(_) | End::FromAny, _))
    }

    /// Whether the backend runs it or looks for its message.
    pub const fn has_begun(&self) -> bool {
        !matches!(self.state, State::Waits { .. } | State::Refused)
    }

    /// Bytes of a transfer.
    pub const fn transferred(&self) -> u64 {
        match self.call {
            Call::Transfer(End::To(_), _) => self.memory.input_bytes() as u64,
            _ => self.memory.output_bytes() as u64,
        }
    }

    /// Bytes that decide who drives the connections between hosts.
    pub fn bytes(&self, ranks: u32) -> u64 {
        match &self.call {
            Call::Transfer(..) => self.transferred(),
            Call::Collective(request) => request.bytes(ranks),
        }
    }
}

impl<'a> OpenGroup<'a> {
    pub(crate) fn insert(
        &mut self,
        at: usize,
        number: u64,
        call: Call,
        memory: Memory<'a>,
        longest: Duration,
    ) {
        let entry = Entry {
            number,
            call,
            memory,
            scalar: 0,
            like: (ElementType::U8, None),
            state: State::Waits { offered: false },
            connections: Vec::new(),
            since: None,
            longest,
        };
        self.entries.insert(at, entry);
    }

    /// Notes that something was moved.
    pub(crate) fn moved(&mut self) {
        self.since = None;
        self.gone = false;
    }

    /// Whether messages of such a transfer may be those of a transfer of the group.
    fn precedes(&self, end: End, tag: u32) -> bool {
        let matching = |it: &Entry<'_>| match it.call {
            Call::Transfer(other, its_tag) => tag == its_tag && other.shares_messages(end),
            Call::Collective(_) => false,
        };
        self.entries.iter().any(matching)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether no earlier transfer takes or sends messages that are meant for this one, or this is
    /// the first collective.
    pub(crate) fn is_next(&self, at: usize) -> bool {
        let earlier = self.entries[..at].iter().map(|it| it.call);
        match self.entries[at].call {
            Call::Collective(_) => !earlier.into_iter().any(|it| it.is_collective()),
            Call::Transfer(end, tag) => {
                let receives = !matches!(end, End::To(_));
                let first = |it: Call| it == Call::Transfer(End::FromAny, tag) && receives;
                !earlier
                    .into_iter()
                    .any(|it| it == Call::Transfer(end, tag) || first(it))
            }
        }
    }

    /// The ranks from which the transfer at this place may receive: those from which no earlier one
    /// with its tag does.
    pub(crate) fn sources(&self, at: usize, own: u32, ranks: u32) -> Vec<u32> {
        let earlier = &self.entries[..at];
        let Call::Transfer(_, tag) = self.entries[at].call else {
            return Vec::new();
        };
        let is_free = |rank: &u32| {
            let from = Call::Transfer(End::From(*rank), tag);
            *rank != own && earlier.iter().all(|it| it.call != from)
        };
        (0..ranks).filter(is_free).collect()
    }
}

impl Call {
    /// Whether all ranks call it.
    pub const fn is_collective(&self) -> bool {
        matches!(self, Self::Collective(_))
    }
}

impl<B: Backend> Communicator<B> {
    /// Adds a transfer of bytes with another rank, which gives the same tag. [`Self::advance`]
    /// returns its number. `longest` is its longest wait for another rank.
    ///
    /// # Errors
    /// There is no such rank or tag, or the rank is this one.
    pub fn add_transfer<'a>(
        &self,
        group: &mut OpenGroup<'a>,
        number: u64,
        (end, tag): (End, u32),
        memory: Memory<'a>,
        longest: Duration,
    ) -> Result<(), Error> {
        let at = group.entries.len();
        self.add_transfer_at(at, group, (number, end, tag), memory, longest)
    }

    /// Adds a transfer before all others that have not begun.
    ///
    /// # Errors
    /// As [`Self::add_transfer`].
    pub fn add_transfer_first<'a>(
        &self,
        group: &mut OpenGroup<'a>,
        number: u64,
        (end, tag): (End, u32),
        memory: Memory<'a>,
        longest: Duration,
    ) -> Result<(), Error> {
        self.add_transfer_at(0, group, (number, end, tag), memory, longest)
    }

    fn add_transfer_at<'a>(
        &self,
        at: usize,
        group: &mut OpenGroup<'a>,
        (number, end, tag): (u64, End, u32),
        memory: Memory<'a>,
        longest: Duration,
    ) -> Result<(), Error> {
        let (own, ranks) = (self.rank, self.ranks);
        self.expect_tag(tag)?;
        match end {
            End::To(peer) | End::From(peer) => {
                self.expect_rank(peer)?;
                if peer == own {
                    return Err(Error::NoSuchRank { rank: peer, ranks });
                }
            }
            End::FromAny => {
                let why = match memory.output_bytes() {
                    _ if ranks == 1 => Some("there is no other rank to receive from"),
                    _ if !self.engine.listens() => {
                        Some("the backend receives from one rank at a time; name the sender")
                    }
                    0 => Some("a receive of no bytes from any rank would not know whose they are"),
                    _ => None,
                };
                if let Some(why) = why {
                    return Err(Error::Unsupported {
                        collective: Collective::SendRecv,
                        ranks,
                        why: why.to_owned(),
                    });
                }
            }
        }
        group.insert(at, number, Call::Transfer(end, tag), memory, longest);
        Ok(())
    }

    /// Whether [`Self::try_transfer`] may move a message: it is short, and a transfer with another
    /// rank that can be added to a group.
    pub fn can_try(&self, (end, tag): (End, u32), bytes: usize) -> bool {
        let (own, ranks) = (self.rank, self.ranks);
        let is_other = |peer| peer != own && peer < ranks;
        let is_pair = matches!(end, End::To(peer) | End::From(peer) if is_other(peer));
        is_pair && self.expect_tag(tag).is_ok() && bytes <= MOST_TRIED
    }

    /// Moves a short message if it can be moved without waiting for its peer, and no transfer of
    /// the group precedes it. If it was not moved, the transfer can be added to the group.
    pub fn try_transfer(
        &mut self,
        group: &OpenGroup<'_>,
        (end, tag): (End, u32),
        memory: Memory<'_>,
    ) -> Attempt {
        let (ends, bytes) = match end {
            End::To(peer) => ((self.rank, peer), memory.input_bytes()),
            End::From(peer) => ((peer, self.rank), memory.output_bytes()),
            End::FromAny => return Attempt::Refused,
        };
        if !self.can_try((end, tag), bytes) || group.precedes(end, tag) {
            return Attempt::Refused;
        }
        let request = Request::transfer(ends, tag, bytes as u64);
        self.engine.try_transfer(&request, memory)
    }

    /// How often to poll before waiting, which costs more.
    pub const fn spins(&self) -> u32 {
        self.engine.spins()
    }

    /// Adds a collective. `request`, `scalar` and `memory` are as for [`Self::run`].
    ///
    /// # Errors
    /// The memory is too short, which the other ranks do not learn; or as [`Self::choice`], which
    /// all ranks get alike.
    pub fn add_collective<'a>(
        &mut self,
        group: &mut OpenGroup<'a>,
        number: u64,
        (request, scalar): (&Request, u64),
        memory: Memory<'a>,
        longest: Duration,
    ) -> Result<(), Error> {
        let request = self.with_choice(request);
        self.expect_collective(&request)?;
        memory.expect(&request, request.lengths(self.rank, self.ranks))?;
        self.engine.expect_possible(&request)?;
        let at = group.entries.len();
        group.insert(at, number, Call::Collective(request), memory, longest);
        group.entries[at].scalar = scalar;
        Ok(())
    }

    /// Runs what was added until something is done or `stop` returns `true`, which it asks again
    /// when [`Self::bell`] rings. Returns those that have ended.
    ///
    /// # Errors
    /// A transfer failed or waited too long; then the communicator has failed.
    pub fn advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Ended>, Error> {
        self.engine.advance(group, stop)
    }

    /// What wakes this rank while it waits.
    pub fn bell(&self) -> Bell {
        self.engine.bell()
    }
}
