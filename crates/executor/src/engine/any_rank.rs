//! Receives from any rank: they look for messages of all ranks, and take the first.

use super::Engine;
use crate::backend::Backend;
use crate::error::Error;
use crate::open_group::{Call, End, OpenGroup, State};

impl<B: Backend> Engine<B> {
    /// Looks for messages of all ranks from which a receive may take one. Returns `false` if some
    /// of them have sent none yet.
    pub(super) fn listen(&mut self, group: &mut OpenGroup<'_>, at: usize) -> Result<bool, Error> {
        let own = &self.own.bootstrap;
        let (rank, ranks) = (own.rank(), own.ranks());
        let sources = group.sources(at, rank, ranks);
        let entry = &mut group.entries[at];
        let mut found = match &mut entry.state {
            State::Listens(found) => std::mem::take(found),
            _ => Vec::new(),
        };
        for peer in sources {
            if found.iter().any(|(it, _)| *it == peer) {
                continue;
            }
            let Some(request) = can_hear(self.connection(entry, peer))? else {
                continue;
            };
            if !can_hear(self.is_ready(&request))? {
                continue;
            }
            let place = self.find(&request)?;
            self.prepared.hold(place);
            let program = &mut self.prepared.get(place).program;
            self.own.backend.listen(program);
            found.push((peer, place));
        }
        let is_all = found.len() + 1 == ranks as usize;
        if !found.is_empty() {
            entry.state = State::Listens(found);
        }
        Ok(is_all)
    }

    /// Lets go of the programs with which a receive looked for messages.
    fn release_sources(&mut self, state: &State) {
        if let State::Listens(sources) = state {
            for (_, place) in sources {
                self.prepared.release(*place);
            }
        }
    }

    /// Begins receives from any rank for which a message has come.
    pub(super) fn take_messages(&mut self, group: &mut OpenGroup<'_>) {
        let ranks = self.own.bootstrap.ranks();
        let preferred = group.preferred;
        for entry in &mut group.entries {
            let State::Listens(sources) = &entry.state else {
                continue;
            };
            let (prepared, backend) = (&mut self.prepared, &self.own.backend);
            let mut has_message = |place| backend.has_ended(&prepared.get(place).program);
            let come = sources.iter().filter(|(_, place)| has_message(*place));
            let turn = |peer: u32| (peer + ranks - preferred) % ranks;
            if let Some((peer, place)) = come.min_by_key(|(peer, _)| turn(*peer)).copied() {
                self.release_sources(&entry.state);
                group.preferred = (peer + 1) % ranks;
                group.since = None;
                if let Call::Transfer(end, _) = &mut entry.call {
                    *end = End::From(peer);
                }
                // The next receive of the tag may wait there from now on.
                let connections = &mut self.own.connections;
                entry.connections.retain(|(source, number)| {
                    let is_taken = *source == peer;
                    if !is_taken {
                        connections.end_tag(*source, *number, false);
                    }
                    is_taken
                });
                self.run_from_start(entry, place);
            }
        }
    }

    /// Fails if all ranks have left from which a receive could take a message.
    pub(super) fn expect_sources(&mut self, group: &OpenGroup<'_>, at: usize) -> Result<(), Error> {
        let bootstrap = &mut self.own.bootstrap;
        let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
        if !matches!(group.entries[at].call, Call::Transfer(End::FromAny, _)) {
            return Ok(());
        }
        let sources = group.sources(at, rank, ranks);
        // An earlier receive takes the message of another rank first.
        if sources.len() + 1 < ranks as usize {
            return Ok(());
        }
        let failures = sources.iter().map(|peer| bootstrap.failure(Some(*peer)));
        let failures: Option<Vec<_>> = failures.collect();
        match failures.and_then(|all| all.into_iter().next()) {
            Some(failure) => Err(Error::Aborted { rank, failure }),
            None => Ok(()),
        }
    }
}

/// What was found of a peer, or nothing if it left: others may send.
pub(super) fn can_hear<T: Default>(found: Result<T, Error>) -> Result<T, Error> {
    match found {
        Err(Error::Aborted { .. }) => Ok(T::default()),
        found => found,
    }
}
