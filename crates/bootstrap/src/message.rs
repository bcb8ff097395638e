//! The messages of the protocol.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::link::LinkError;

/// Number of a connection within one state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conn(pub u32);

/// A rank's registration with a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckIn {
    /// Which rank it is.
    pub rank: u32,
    /// Number of ranks that it was started with.
    pub ranks: u32,
    /// Number of roots that it was started with.
    pub roots: u32,
    /// Version of the program.
    pub version: String,
    /// Its host and process.
    pub place: String,
    /// Address for the previous rank of the ring.
    pub ring: SocketAddr,
}

/// A message; rare ones are boxed, to keep the frequent ones small. `B` is a part of an exchange:
/// bytes, or a number in a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message<B> {
    /// To a root: a rank registers.
    CheckIn(Box<CheckIn>),
    /// From a root: the address of the next rank of the ring.
    Next(Box<SocketAddr>),
    /// To a root: the ring is closed.
    Done,
    /// First message on a ring or peer connection: the connecting rank.
    Hello(u32),
    /// One rank's part of an exchange.
    Block {
        /// Number of the exchange, from 0.
        exchange: u32,
        /// The rank whose part it is.
        origin: u32,
        /// The part.
        block: B,
    },
    /// The sender lives.
    Beat,
    /// The job failed.
    Failed(Box<Failure>),
    /// This rank is done; the end of its process is no failure.
    Left(u32),
    /// A question: the asker's number for it, and the name of an offer.
    Get(Box<(u32, String)>),
    /// An answer: the number of the question, and the offer.
    Value(Box<(u32, Vec<u8>)>),
}

impl Message<Vec<u8>> {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages hold nothing that postcard cannot write")
    }

    /// The message in these bytes.
    ///
    /// # Errors
    /// They are not a message of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, LinkError> {
        read_whole(bytes).map_err(|_| LinkError::Unknown)
    }
}

/// The value that fills these bytes.
///
/// # Errors
/// They are not of this type, or something follows the value.
pub fn read_whole<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_behind_a_value_are_an_error() {
        let mut bytes = postcard::to_allocvec(&(7_u32, "id")).unwrap();
        assert_eq!(read_whole(&bytes), Ok((7_u32, "id")));
        bytes.push(0);
        assert!(read_whole::<(u32, &str)>(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
