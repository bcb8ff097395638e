//! Short messages that are moved without waiting, and so without an entry in a group.

use super::{Engine, part};
use crate::backend::{Attempt, Backend};
use crate::memory::Memory;
use crate::request::Request;
use crate::transport::Transport;

impl<B: Backend> Engine<B> {
    /// Moves a message between two ranks of this host if its program was prepared, its tag has a
    /// connection, and the message has arrived or there is room for it.
    pub fn try_transfer(&mut self, request: &Request, memory: Memory<'_>) -> Attempt {
        let (rank, connections) = (self.own.bootstrap.rank(), &mut self.own.connections);
        let (incoming, tag) = (request.to == rank, request.tag);
        let peer = if incoming { request.root } else { request.to };
        let transport = connections.transports.get(peer as usize);
        let is_local = transport.is_some_and(|it| *it != Transport::Net);
        if !is_local || self.failure.is_some() {
            return Attempt::Refused;
        }
        if !connections.shares_connections(peer, tag) {
            return self.try_run(request, memory);
        }
        let Some(number) = connections.hold_tag((peer, tag), incoming) else {
            // The sender of a message may give its tag a connection at any time.
            let is_awaited = incoming && connections.knows_tags_of(peer);
            return match is_awaited {
                true => Attempt::NotReady,
                false => Attempt::Refused,
            };
        };
        let request = Request {
            tag: number,
            ..*request
        };
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
        let mut part = part(prepared, (memory, 0), &own.registered);
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
