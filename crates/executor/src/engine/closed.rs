//! Closed groups: transfers of an open group that run until all have ended.

use super::Engine;
use crate::backend::{Attempt, Backend};
use crate::error::Error;
use crate::open_group::{Call, End, MOST_TRIED, OpenGroup};
use crate::request::Request;

/// Most messages that are moved without waiting: each is compared with all before it.
const MOST_COMPARED: usize = 16;

/// The first connections that tags share; most programs need no others.
const SHARED: [u32; 4] = [1, 2, 3, 4];

impl<B: Backend> Engine<B> {
    /// Runs all transfers of a group, which are with other ranks.
    pub fn run_all(&mut self, group: &mut OpenGroup<'_>) -> Result<(), Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        // Senders wait for the ends that receivers make.
        if self.own.backend.wires() {
            group.entries.sort_by_key(|it| !it.receives());
        }
        // A group of which nothing was moved is refused as a whole.
        if !self.try_all(group) {
            for at in 0..group.entries.len() {
                let possible = match self.request(group, at) {
                    Some(request) => self.expect_transfer(&request),
                    None => Ok(()),
                };
                possible.map_err(|error| self.fail_unless_common(error))?;
            }
        }
        while !group.is_empty() {
            self.advance(group, &mut || false)?;
        }
        Ok(())
    }

    /// The request of a transfer with a rank.
    fn request(&self, group: &OpenGroup<'_>, at: usize) -> Option<Request> {
        let entry = &group.entries[at];
        match entry.call {
            Call::Transfer(End::To(peer) | End::From(peer), _) => {
                Some(entry.transfer(self.rank(), peer))
            }
            Call::Transfer(End::FromAny, _) | Call::Collective(_) => None,
        }
    }

    /// Moves the messages of a group of short ones, and polls a while for them. Returns `true` if
    /// one was moved.
    fn try_all(&mut self, group: &mut OpenGroup<'_>) -> bool {
        let is_long = |bytes| bytes > MOST_TRIED as u64;
        let mut all = group.entries.iter();
        if group.entries.len() > MOST_COMPARED || all.any(|it| is_long(it.transferred())) {
            return false;
        }
        let (mut polls, mut moved) = (self.spins(), false);
        // Sends first: other ranks wait for them.
        let mut only_sends = true;
        while polls > 0 && !group.is_empty() {
            polls -= 1;
            let mut at = 0;
            while at < group.entries.len() {
                let is_due = !(only_sends && group.entries[at].receives()) && group.is_next(at);
                let request = self.request(group, at).filter(|_| is_due);
                let memory = group.entries[at].memory.lend();
                match request.map(|it| self.try_transfer(&it, memory)) {
                    Some(Attempt::Moved) => {
                        group.entries.remove(at);
                        moved = true;
                        continue;
                    }
                    Some(Attempt::Refused) => polls = polls.min(1),
                    Some(Attempt::NotReady) | None => {}
                }
                at += 1;
            }
            only_sends = false;
        }
        moved
    }

    /// Whether a transfer can be run. It is if it was prepared, also for one of the connections
    /// that tags share.
    fn expect_transfer(&mut self, request: &Request) -> Result<(), Error> {
        let mut is_prepared = |tag| {
            let request = Request { tag, ..*request };
            self.prepared.find(&request).is_some()
        };
        match is_prepared(request.tag) || SHARED.into_iter().any(is_prepared) {
            true => Ok(()),
            false => self.expect_possible(request),
        }
    }
}
