//! Closed groups: transfers that run together until all have ended.

use std::cmp::Reverse;

use program::Collective;

use super::{Engine, part};
use crate::backend::{Backend, LaunchContext};
use crate::error::Error;
use crate::memory::Memory;
use crate::open_group::{Call, End, OpenGroup};
use crate::request::Request;
use crate::supervisor::{LOOK, Supervisor};

/// A transfer of a group.
struct Grouped<'a> {
    /// Its sender, receiver and tag.
    pair: (u32, u32, u32),
    /// How many transfers of the group before it have the same.
    round: usize,
    /// The place of its program.
    place: usize,
    memory: Memory<'a>,
}

impl<B: Backend> Engine<B> {
    /// Runs transfers together.
    pub fn launch_group(&mut self, transfers: Vec<(Request, Memory<'_>)>) -> Result<(), Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let own = &self.own;
        let runs_open = !own.backend.wires() && are_unlike(&transfers);
        let place = |(request, _): &(Request, _)| {
            let Request { root, to, tag, .. } = *request;
            let peer = if to == own.bootstrap.rank() { root } else { to };
            let shares = !own.backend.wires() && own.connections.shares_connections(peer, tag);
            self.prepared
                .find(request)
                .filter(|_| !shares && !runs_open)
        };
        let places = match transfers.iter().map(place).collect() {
            Some(places) => places,
            None if own.backend.wires() => self.prepare_all(&transfers)?,
            None => {
                for (request, _) in &transfers {
                    let possible = self.expect_transfer(request);
                    possible.map_err(|error| self.fail_unless_common(error))?;
                }
                // From now on a part of the messages may have been moved.
                let done = self.run_open(transfers);
                return done.map_err(|error| self.fail(error));
            }
        };
        let ranks = self.own.bootstrap.ranks();
        let bytes = transfers.iter().map(|(request, _)| request.bytes(ranks));
        let bytes = bytes.sum();
        let mut left = in_rounds(transfers, places);
        while let Some(next) = left.last().map(|it| it.round) {
            let begin = left.partition_point(|it| it.round > next);
            let round = match begin {
                0 => std::mem::take(&mut left),
                _ => left.split_off(begin),
            };
            self.run_round(round, bytes)?;
        }
        Ok(())
    }

    /// Whether a transfer can be run. It is if it was prepared, for any of the connections that
    /// most tags have.
    fn expect_transfer(&mut self, request: &Request) -> Result<(), Error> {
        let is_prepared = |tag| {
            let request = Request { tag, ..*request };
            self.prepared.find(&request).is_some()
        };
        match (1..=4).any(is_prepared) {
            true => Ok(()),
            false => self.expect_possible(request),
        }
    }

    /// Runs transfers in an open group, where each begins when its peer is ready: tags get their
    /// connections there, and new programs theirs.
    fn run_open(&mut self, transfers: Vec<(Request, Memory<'_>)>) -> Result<(), Error> {
        let (own, longest) = (self.rank(), self.own.longest);
        let mut group = OpenGroup::default();
        for (request, memory) in transfers {
            let end = match request.to == own {
                true => End::From(request.root),
                false => End::To(request.to),
            };
            let call = Call::Transfer(end, request.tag);
            let at = group.entries.len();
            group.insert(at, 0, call, memory, longest);
            group.entries[at].like = (request.element, request.choice);
        }
        while !group.is_empty() {
            self.try_advance(&mut group, &mut || false)?;
        }
        Ok(())
    }

    /// Prepares the programs of transfers and returns their places. Those that receive come first,
    /// because senders wait for the ends that receivers of such a backend make.
    #[cold]
    fn prepare_all(&mut self, transfers: &[(Request, Memory<'_>)]) -> Result<Vec<usize>, Error> {
        let own = self.rank();
        let mut places = vec![0; transfers.len()];
        let mut held = Vec::with_capacity(transfers.len());
        let mut done = Ok(());
        let all = || transfers.iter().zip(0..);
        let receives = all().filter(|((request, _), _)| request.to == own);
        let sends = all().filter(|((request, _), _)| request.to != own);
        for ((request, _), at) in receives.chain(sends) {
            match self.find(request) {
                Ok(place) => {
                    // The others must not replace it.
                    self.prepared.hold(place);
                    held.push(place);
                    places[at] = place;
                }
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        for place in held {
            self.prepared.release(place);
        }
        done.map(|()| places)
    }

    fn run_round(&mut self, round: Vec<Grouped<'_>>, bytes: u64) -> Result<(), Error> {
        let own = &mut self.own;
        let parts = round.into_iter().map(|it| (it.place, it.memory));
        let parts = self.prepared.each(parts);
        let parts = parts.map(|(prepared, memory)| part(prepared, memory, &own.registered));
        let mut parts: Vec<_> = parts.collect();
        let progress = own.connections.progress_of(bytes);
        let mut context = LaunchContext {
            connections: &mut own.connections,
            registered: &own.registered,
            launch: self.launches,
            // Transfers do not access buffers of peers.
            request: 0,
            spins: own.spins,
            supervisor: Supervisor {
                bootstrap: own.bootstrap.as_mut(),
                waiter: &own.waiter,
                collective: Collective::SendRecv,
                longest: own.longest,
                since: None,
                nap: LOOK,
                progress: progress.as_deref(),
                comparison: None,
            },
        };
        let done = own.backend.run(&mut parts, &mut context);
        drop(parts);
        if let Some(progress) = &progress {
            progress.finish();
        }
        done.map_err(|error| self.fail(error))
    }
}

/// Whether transfers between the same ranks with the same tag have different lengths.
fn are_unlike(transfers: &[(Request, Memory<'_>)]) -> bool {
    let pair = |request: &Request| (request.root, request.to, request.tag);
    let lengths = transfers.iter().map(|(request, _)| {
        let bytes = request
            .count
            .saturating_mul(u64::from(request.element.bytes()));
        (pair(request), bytes)
    });
    let mut lengths: Vec<_> = lengths.collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.windows(2).any(|it| it[0].0 == it[1].0)
}

/// The transfers with their places: the first round last, and in a round by their places.
///
/// Transfers between the same ranks with the same tag share FIFOs, so they keep their order: the
/// first of each pair and tag run together, then the second of each, and so on. In a round no place
/// occurs twice.
///
/// Ranks may count from different transfers, since each may have moved the first ones of a pair
/// without waiting. Still they do not wait for each other in a circle: if a rank waits for a
/// transfer that its peer has in a later round, the peer began its current round first. A round has
/// one transfer of a pair, so a receiver got the message of the sender's current round before it
/// began its own round. A sender waits only for room: for the receive that is earlier by the slots
/// of the FIFO. As all messages of a pair have one length ([`are_unlike`]), the sender's message
/// before needed the receive of the receiver's current round. Other lengths have FIFOs of their
/// own: a receiver could be as many messages behind as all FIFOs have slots, in a round that waits
/// for this rank. So such transfers run in an open group, where each pair is by itself.
fn in_rounds<'a>(transfers: Vec<(Request, Memory<'a>)>, places: Vec<usize>) -> Vec<Grouped<'a>> {
    let grouped = transfers.into_iter().zip(places);
    let mut all: Vec<Grouped<'a>> = grouped
        .map(|((request, memory), place)| Grouped {
            pair: (request.root, request.to, request.tag),
            round: 0,
            place,
            memory,
        })
        .collect();
    all.sort_by_key(|it| it.pair);
    for at in 1..all.len() {
        if all[at - 1].pair == all[at].pair {
            all[at].round = all[at - 1].round + 1;
        }
    }
    all.sort_unstable_by_key(|it| (Reverse(it.round), it.place));
    all
}
