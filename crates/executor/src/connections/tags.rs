//! The connections of messages with tags between ranks of a host: a tag has one while its messages
//! are on their way or awaited. Then the sender gives it to another tag.

use std::sync::Arc;

use program::BoundProgram;
use rustc_hash::FxHashMap;
use shared_memory::{Item, TagReceiver, TagSender};

use super::{Connections, offered_by};
use crate::bootstrap::{Bootstrap, Offer};
use crate::error::Error;
use crate::transport::Transport;

/// Most tags with messages on their way from one rank to another. One more waits.
const TABLE: [Item; 1] = [Item::TagTable { entries: 1024 }];

/// Which connections have which tags, by peer.
#[derive(Debug, Default)]
pub(super) struct Tags {
    sent: FxHashMap<u32, TagSender>,
    received: FxHashMap<u32, TagReceiver>,
}

impl Connections {
    /// Whether messages with this tag have no connection of their own.
    pub(crate) fn shares_connections(&self, peer: u32, tag: u32) -> bool {
        let is_of_message = tag != 0 && tag != BoundProgram::COLLECTIVE_TAG;
        is_of_message && self.transports[peer as usize] != Transport::Net
    }

    /// The number of the connection for the next message with a tag to or from a peer, counted from
    /// 1. `None` if it must wait: for an earlier message, or for the first of a sender.
    ///
    /// # Errors
    /// There is no memory, or the peer failed or left.
    pub(crate) fn begin_tag(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        (peer, tag): (u32, u32),
        incoming: bool,
    ) -> Result<Option<u32>, Error> {
        let number = match incoming {
            true => {
                let receiver = self.tag_receiver(bootstrap, peer)?;
                receiver.and_then(|it| it.begin(tag))
            }
            false => {
                let sender = self.tag_sender(bootstrap, peer)?;
                let sent = sender.and_then(|it| it.send(tag));
                if let Some((_, true)) = sent {
                    self.bells[peer as usize].ring();
                }
                sent.map(|(number, _)| number)
            }
        };
        Ok(number.map(|it| 1 + it as u32))
    }

    /// Whether a peer has sent messages with this tag over a connection that it still has.
    pub(crate) fn is_sent(&self, peer: u32, tag: u32) -> bool {
        let receiver = self.tags.received.get(&peer);
        receiver.is_some_and(|it| it.is_sent(tag))
    }

    /// Ends the wait for a message of a peer over the connection with this number.
    pub(crate) fn end_tag(&mut self, peer: u32, number: u32, was_taken: bool) {
        if let Some(receiver) = self.tags.received.get_mut(&peer) {
            receiver.end(number as usize - 1, was_taken);
        }
    }

    /// The number of the connection that a tag has for messages to or from a peer, as
    /// [`Self::begin_tag`]. The tag keeps it until [`Self::release_tag`]. `None` if it has none.
    pub(crate) fn hold_tag(&mut self, (peer, tag): (u32, u32), incoming: bool) -> Option<u32> {
        let number = match incoming {
            true => self.tags.received.get_mut(&peer)?.begin(tag)?,
            false => self.tags.sent.get(&peer)?.find(tag)?,
        };
        Some(1 + number as u32)
    }

    /// Whether a peer has sent messages with tags.
    pub(crate) fn knows_tags_of(&self, peer: u32) -> bool {
        self.tags.received.contains_key(&peer)
    }

    /// Ends the hold of a connection, over which a message was moved or not.
    pub(crate) fn release_tag(&mut self, (peer, number): (u32, u32), incoming: bool, moved: bool) {
        if incoming {
            self.end_tag(peer, number, moved);
        } else if let Some(sender) = self.tags.sent.get_mut(&peer)
            && moved
        {
            sender.note_sent(number as usize - 1);
        }
    }

    fn tag_sender(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        peer: u32,
    ) -> Result<Option<&mut TagSender>, Error> {
        if !self.tags.sent.contains_key(&peer) {
            let segment = self.make(bootstrap, "tags", &TABLE)?;
            let offered = self.offer(bootstrap, &segment, &TABLE)?;
            let sender = segment.tag_sender(0);
            let sender = sender.map_err(|source| self.memory(source))?;
            let offer = Offer {
                segment: Some(Arc::clone(&segment)),
                ..Offer::of(&offered)
            };
            bootstrap.publish(&name(self.rank, peer), offer)?;
            self.unreceived.push((peer, 0, segment));
            self.tags.sent.insert(peer, sender);
        }
        Ok(self.tags.sent.get_mut(&peer))
    }

    fn tag_receiver(
        &mut self,
        bootstrap: &mut dyn Bootstrap,
        peer: u32,
    ) -> Result<Option<&mut TagReceiver>, Error> {
        if !self.tags.received.contains_key(&peer) {
            let name = name(peer, self.rank);
            if !bootstrap.has_offer(peer, &name)? {
                return Ok(None);
            }
            let offer = bootstrap.fetch(peer, &name, self.longest)?;
            let offered = offer.read(&name, (self.rank, peer))?;
            let receiver = self.open(peer, offer.segment, offered)?.tag_receiver(0);
            let receiver = receiver.map_err(|source| offered_by(self.rank, peer, &source))?;
            self.tags.received.insert(peer, receiver);
        }
        Ok(self.tags.received.get_mut(&peer))
    }
}

/// The name of the offer of a sender's table.
fn name(from: u32, to: u32) -> String {
    format!("tags {from}>{to}")
}
