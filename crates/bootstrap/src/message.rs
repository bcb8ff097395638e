//! What is said over connections.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::link::LinkError;

/// Number of a connection within one state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conn(pub u32);

/// What a rank tells a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckIn {
    /// Which rank it is.
    pub rank: u32,
    /// How many there are, as it was told.
    pub ranks: u32,
    /// How many roots there are, as it was told.
    pub roots: u32,
    /// Version of the program.
    pub version: String,
    /// Where it is: host and process.
    pub place: String,
    /// Where the one before it in the ring shall connect to.
    pub ring: SocketAddr,
}

/// A message. Those that are rare are boxed, for there are many of the others. `B` is what travels when all tell all: bytes, or in a simulation what stands for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message<B> {
    /// To a root: here I am.
    CheckIn(Box<CheckIn>),
    /// From a root: where the next rank of the ring listens.
    Next(Box<SocketAddr>),
    /// To a root: the ring is closed, it is needed no more.
    Done,
    /// First on a ring or peer connection: who connects.
    Hello(u32),
    /// One rank's part of what all tell all.
    Block {
        /// Which of the exchanges, from 0.
        exchange: u32,
        /// Whose part.
        origin: u32,
        /// The part.
        block: B,
    },
    /// Still there.
    Beat,
    /// The job failed.
    Failed(Box<Failure>),
    /// This rank is done and will not fail any more.
    Left(u32),
    /// Asks for an offer, by the asker's number of the question and its name.
    Get(Box<(u32, String)>),
    /// An offer, with the number of the question.
    Value(Box<(u32, Vec<u8>)>),
}

impl Message<Vec<u8>> {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages hold nothing that postcard cannot write")
    }

    /// From bytes.
    ///
    /// # Errors
    /// They are no message of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, LinkError> {
        match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => Ok(message),
            _ => Err(LinkError::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
