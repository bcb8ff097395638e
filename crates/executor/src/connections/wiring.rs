//! The connections of a program: this rank's are made and offered, then those of peers fetched.

use program::{BoundProgram, ConnectionEnd, Protocol};

use super::{Connections, End, Kind, name};
use crate::bootstrap::Bootstrap;
use crate::error::Error;
use crate::transport::Transport;

/// Indices of a bound program's connections in [`Connections`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wiring {
    /// Receiving ends.
    pub receives: Vec<usize>,
    /// Sending ends.
    pub sends: Vec<usize>,
    /// Signals to wait for.
    pub waits: Vec<usize>,
    /// Signals to give.
    pub notifies: Vec<usize>,
}

/// Most connections of transfers with tags between hosts: each keeps its memory, and a descriptor
/// or a socket. Between ranks of a host, tags share connections, which are not counted.
const MOST_TAGGED: usize = 1024;

/// Most memory of their slots, bytes.
const MOST_TAGGED_BYTES: u64 = 1 << 30;

/// The ends of a program's connections, as in [`Wiring`].
struct ProgramEnds {
    receives: Vec<End>,
    sends: Vec<End>,
    waits: Vec<End>,
    notifies: Vec<End>,
}

impl ProgramEnds {
    fn all(&self) -> impl Iterator<Item = &End> {
        let receiving = self.receives.iter().chain(&self.waits);
        receiving.chain(&self.sends).chain(&self.notifies)
    }
}

impl Connections {
    /// The connections of a program, with slots of `slot_bytes` on this host; new ones are made.
    ///
    /// # Errors
    /// There is no memory, or a peer does not make its end.
    pub fn wire(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        protocol: Protocol,
        slot_bytes: u32,
        bound: &BoundProgram,
    ) -> Result<Wiring, Error> {
        let ends = self.ends_of(protocol, slot_bytes, bound);
        self.expect_room(&ends)?;
        self.make_all_own(bootstrap, &ends)?;
        let offers = self.offers_of(&ends);
        bootstrap.prefetch(&offers);
        for end in ends.all() {
            if self.known.contains_key(end) {
                continue;
            }
            if self.is_remote(end) {
                self.make_remote(bootstrap, *end)?;
            } else {
                self.fetch_end(bootstrap, *end)?;
            }
        }
        let places = |ends: &[End]| ends.iter().map(|end| self.known[end]).collect();
        Ok(Wiring {
            receives: places(&ends.receives),
            sends: places(&ends.sends),
            waits: places(&ends.waits),
            notifies: places(&ends.notifies),
        })
    }

    /// Makes what peers need for a program, and returns whether [`Self::wire`] would not wait for a
    /// peer.
    ///
    /// # Errors
    /// There is no memory, or a peer failed or left.
    pub fn can_wire(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        protocol: Protocol,
        slot_bytes: u32,
        bound: &BoundProgram,
    ) -> Result<bool, Error> {
        let ends = self.ends_of(protocol, slot_bytes, bound);
        self.expect_room(&ends)?;
        self.make_all_own(bootstrap, &ends)?;
        let mut all = true;
        // All are asked for at once.
        for (peer, offer) in self.offers_of(&ends) {
            all &= bootstrap.has_offer(peer, &offer)?;
        }
        Ok(all)
    }

    fn ends_of(&self, protocol: Protocol, slot_bytes: u32, bound: &BoundProgram) -> ProgramEnds {
        let end = |connection: &ConnectionEnd, kind, incoming| End {
            connection: *connection,
            kind,
            incoming,
        };
        let full = self.slot_bytes.of(protocol);
        let slots = |connections: &[ConnectionEnd], incoming| -> Vec<End> {
            let slots = connections.iter().map(|connection| {
                // Between hosts memory grows with the number of connections only.
                let remote = self.transports[connection.peer as usize] == Transport::Net;
                let bytes = if remote { full } else { slot_bytes };
                end(connection, Kind::Slots(protocol, bytes), incoming)
            });
            slots.collect()
        };
        let signals = |connections: &[ConnectionEnd], incoming| -> Vec<End> {
            let signals = connections.iter();
            let signals = signals.map(|it| end(it, Kind::Signals, incoming));
            signals.collect()
        };
        ProgramEnds {
            receives: slots(&bound.receives, true),
            sends: slots(&bound.sends, false),
            waits: signals(&bound.waits, true),
            notifies: signals(&bound.notifies, false),
        }
    }

    /// # Errors
    /// There would be too many connections of tags between hosts.
    fn expect_room(&self, ends: &ProgramEnds) -> Result<(), Error> {
        let counts = |end: &&End| end.connection.is_tagged() && self.is_remote(end);
        let new = ends.all().filter(counts);
        let new: Vec<&End> = new.filter(|end| !self.known.contains_key(end)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let tagged = self.known.keys().filter(counts);
        let (mut count, mut bytes) = (0, 0);
        for end in tagged.chain(new) {
            count += 1;
            if let Kind::Slots(_, slot_bytes) = end.kind {
                bytes += shared_memory::fifo::SLOTS * u64::from(slot_bytes);
            }
        }
        if count <= MOST_TAGGED && bytes <= MOST_TAGGED_BYTES {
            return Ok(());
        }
        Err(Error::Bootstrap {
            rank: self.rank,
            why: format!(
                "transfers with tags between hosts need {count} connections of {} MiB together, \
                 expected at most {MOST_TAGGED} of {} MiB: each tag, pair of ranks and class of \
                 lengths has its own; use fewer tags again and again",
                bytes >> 20,
                MOST_TAGGED_BYTES >> 20
            ),
        })
    }

    /// Makes the new connections that this rank owns, and what it receives from other hosts.
    fn make_all_own(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        ends: &ProgramEnds,
    ) -> Result<(), Error> {
        let mut new: Vec<End> = Vec::new();
        for end in ends.all() {
            let makes = if self.is_remote(end) {
                end.incoming
            } else {
                end.is_own()
            };
            if makes && !self.known.contains_key(end) && !new.contains(end) {
                new.push(*end);
            }
        }
        let (remote, new): (Vec<End>, Vec<End>) =
            new.into_iter().partition(|end| self.is_remote(end));
        self.make_own(bootstrap, &new)?;
        for end in remote {
            self.make_remote(bootstrap, end)?;
        }
        Ok(())
    }

    /// The offers of peers on this host that are still needed.
    fn offers_of(&self, ends: &ProgramEnds) -> Vec<(u32, String)> {
        let new = ends
            .all()
            .filter(|end| !end.is_own() && !self.known.contains_key(end) && !self.is_remote(end));
        let offers = new.map(|end| (end.connection.peer, name(self.rank, end)));
        offers.collect()
    }
}
