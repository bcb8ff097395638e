//! Short messages that are moved without waiting, and so without an entry in a group.

use super::{Engine, part};
use crate::backend::{Attempt, Backend};
use crate::memory::Memory;
use crate::open_group::End;
use crate::request::Request;
use crate::transport::Transport;

impl<B: Backend> Engine<B> {
    /// Moves a message between two ranks of this host if its program was prepared, its tag has a
    /// connection, and the message has arrived or there is room for it.
    pub fn try_transfer(&mut self, (end, tag): (End, u32), memory: Memory<'_>) -> Attempt {
        let (rank, connections) = (self.own.bootstrap.rank(), &mut self.own.connections);
        let (peer, ends, bytes, incoming) = match end {
            End::To(peer) => (peer, (rank, peer), memory.input_bytes(), false),
            End::From(peer) => (peer, (peer, rank), memory.output_bytes(), true),
            End::FromAny => return Attempt::Refused,
        };
        let transport = connections.transports.get(peer as usize);
        let is_local = transport.is_some_and(|it| *it != Transport::Net);
        if !is_local || self.failure.is_some() {
            return Attempt::Refused;
        }
        let mut request = Request::transfer(ends, tag, bytes as u64);
        if !connections.shares_connections(peer, tag) {
            return self.try_run(&request, memory);
        }
        let Some(number) = connections.hold_tag((peer, tag), incoming) else {
            // The sender of a message may give its tag a connection at any time.
            let is_awaited = incoming && connections.knows_tags_of(peer);
            return match is_awaited {
                true => Attempt::NotReady,
                false => Attempt::Refused,
            };
        };
        request.tag = number;
        let attempt = self.try_run(&request, memory);
        let moved = attempt == Attempt::Moved;
        let connections = &mut self.own.connections;
        connections.release_tag((peer, number), incoming, moved);
        attempt
    }

    fn try_run(&mut self, request: &Request, memory: Memory<'_>) -> Attempt {
        let place = self.prepared.find(request);
        // A program that is held has begun.
        let Some(place) = place.filter(|it| !self.prepared.is_held(*it)) else {
            return Attempt::Refused;
        };
        let (own, prepared) = (&mut self.own, self.prepared.get(place));
        let mut part = part(prepared, memory, &own.registered);
        let attempt = own.backend.try_run(&mut part, &mut own.connections);
        if attempt == Attempt::Moved {
            prepared.note_run(&own.waiter);
        }
        attempt
    }

    /// How often to poll before the rank waits, which costs more.
    pub const fn spins(&self) -> u32 {
        self.own.spins
    }
}
