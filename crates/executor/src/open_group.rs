//! Transfers that run beside each other, and to which others are added while they run.
//!
//! A send and a receive that are started one after the other may both wait for their peers. In a
//! group that was closed ([`Group`](crate::Group)) the first would keep the second from starting,
//! and two ranks could wait for each other.

use std::time::Instant;

use program::{Collective, ElementType, Reduction};
use shared_memory::Bell;

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::memory::Memory;
use crate::request::Request;

/// Transfers with other ranks that have begun or wait for their turn. Those between the same two
/// ranks, in one direction, run one after the other.
#[derive(Debug, Default)]
pub struct OpenGroup<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
}

/// A transfer.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub number: u64,
    pub request: Request,
    pub memory: Memory<'a>,
    /// The place of its program, once it has begun.
    pub place: Option<usize>,
    pub since: Instant,
}

impl<'a> OpenGroup<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether no earlier transfer has the same ends.
    pub(crate) fn is_next(&self, at: usize) -> bool {
        let ends = |entry: &Entry<'_>| (entry.request.root, entry.request.to);
        let own = ends(&self.entries[at]);
        self.entries[..at].iter().all(|it| ends(it) != own)
    }

    fn add(&mut self, number: u64, (from, to): (u32, u32), bytes: usize, memory: Memory<'a>) {
        let request = Request {
            collective: Collective::SendRecv,
            element: ElementType::U8,
            reduction: Reduction::Sum,
            root: from,
            to,
            in_place: false,
            count: bytes as u64,
            choice: None,
        };
        self.entries.push(Entry {
            number,
            request,
            memory,
            place: None,
            since: Instant::now(),
        });
    }
}

impl<B: Backend> Communicator<B> {
    /// Adds a transfer of bytes with another rank: of the memory's input to that rank if this rank
    /// `sends`, else of that rank into the memory's output. [`Self::advance`] returns its number.
    ///
    /// # Errors
    /// There is no such rank, or it is this one.
    pub fn add_transfer<'a>(
        &self,
        group: &mut OpenGroup<'a>,
        number: u64,
        peer: u32,
        sends: bool,
        memory: Memory<'a>,
    ) -> Result<(), Error> {
        self.expect_rank(peer)?;
        let rank = self.rank;
        if peer == rank {
            return Err(Error::NoSuchRank {
                rank: peer,
                ranks: self.ranks,
            });
        }
        match sends {
            true => group.add(number, (rank, peer), memory.input_bytes(), memory),
            false => group.add(number, (peer, rank), memory.output_bytes(), memory),
        }
        Ok(())
    }

    /// Runs the transfers until one is done or `stop` returns `true`, which it asks again when
    /// [`Self::bell`] rings. Returns the numbers of those that are done.
    ///
    /// # Errors
    /// A transfer failed or waited too long; then the communicator has failed.
    pub fn advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u64>, Error> {
        self.home.engine()?.advance(group, stop)
    }

    /// What wakes this rank while it waits.
    ///
    /// # Errors
    /// The background thread is gone.
    pub fn bell(&mut self) -> Result<Bell, Error> {
        Ok(self.home.engine()?.bell())
    }
}
