//! One connection as bytes: both sides prove that they know the job's key, then frames follow.
//!
//! | step | from | bytes |
//! |---|---|---|
//! | hello | connector | 8 of magic, 4 of version, 4 of kind, 32 random |
//! | challenge | acceptor | 8 of magic, 4 of version, 20 of zero, 32 random |
//! | proof | connector | 32 of keyed hash over hello and challenge |
//! | answer | acceptor | the same from its side, or 32 of zero if the proof is wrong |
//! | frame | both | 4 of length, the payload, 8 of keyed hash over direction, number and payload |
//!
//! The connector proves first. Until then nothing that the acceptor sends depends on the key, so a
//! stranger needs a new connection for each token that it tries; and what the stranger sends is
//! bounded and read no further. A frame that was altered, dropped, repeated or reordered has a
//! wrong hash.

use thiserror::Error;

use crate::id::{KEY_BYTES, Key};

/// Longest payload of a frame, bytes. What a rank tells about itself, or offers, is far shorter.
pub const LONGEST_FRAME: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"topo\0bs\x01";
const VERSION: u32 = 2;
const HELLO_BYTES: usize = 16 + KEY_BYTES;
/// As long as the challenge of version 1, whose side therefore ends at once: it takes the version
/// for a wrong token.
const CHALLENGE_BYTES: usize = 2 * KEY_BYTES;
const TAG_BYTES: usize = 8;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A rank checks in with a root.
    Root,
    /// A rank connects to the next one of the ring.
    Ring,
    /// A rank asks another one for offers.
    Peer,
    /// Data of a FIFO between hosts.
    Net,
    /// Survivors of a failure meet.
    Regroup,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Root, Self::Ring, Self::Peer, Self::Net, Self::Regroup];

    const fn number(self) -> u32 {
        self as u32
    }
}

/// Why a connection is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The first bytes are not of this protocol.
    #[error(
        "the other side does not speak version {VERSION} of topo's protocol; give all hosts the same version of topo"
    )]
    OtherProtocol,
    /// The other side speaks another version of this protocol.
    #[error(
        "the other side speaks version {theirs} of topo's protocol, and this one version {VERSION}; give all hosts the same \
         version of topo"
    )]
    Version {
        /// The other side's version.
        theirs: u32,
    },
    /// The other side has another key.
    #[error("the other side has another token: it belongs to another job, or was given another id")]
    WrongToken,
    /// A frame is longer than [`LONGEST_FRAME`].
    #[error("a message of {bytes} bytes, more than the {LONGEST_FRAME} that are allowed")]
    Oversized {
        /// The frame's length.
        bytes: usize,
    },
    /// A frame was sent before both sides had proved that they know the key.
    #[error("a message was sent before both sides had proved that they belong to the job")]
    NotOpen,
    /// A frame's hash is wrong.
    #[error("a message was altered in transit")]
    Altered,
    /// A frame does not contain a message.
    #[error("a message that this version does not know")]
    Unknown,
    /// The kind of connection is unknown.
    #[error("a connection of kind {number}, which this version does not know")]
    Kind {
        /// The kind's number.
        number: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As acceptor.
    AwaitsHello,
    AwaitsProof([u8; HELLO_BYTES], [u8; CHALLENGE_BYTES]),
    /// As connector.
    AwaitsChallenge([u8; HELLO_BYTES]),
    AwaitsAnswer([u8; HELLO_BYTES], [u8; CHALLENGE_BYTES]),
    Open(Kind),
}

/// One side of a connection.
#[derive(Debug)]
pub struct Link {
    key: Key,
    session: Option<Key>,
    state: State,
    connector: bool,
    nonce: [u8; KEY_BYTES],
    incoming: Vec<u8>,
    /// Bytes of `incoming` that were read.
    taken: usize,
    outgoing: Vec<u8>,
    sent_frames: u64,
    taken_frames: u64,
}

impl Link {
    /// The connecting side.
    pub fn connect(key: &Key, kind: Kind, nonce: [u8; KEY_BYTES]) -> Self {
        let mut hello = [0; HELLO_BYTES];
        hello[..12].copy_from_slice(&start());
        hello[12..16].copy_from_slice(&kind.number().to_le_bytes());
        hello[16..].copy_from_slice(&nonce);
        let mut link = Self::new(key, nonce, State::AwaitsChallenge(hello), true);
        link.outgoing.extend(hello);
        link
    }

    /// The accepting side.
    pub fn accept(key: &Key, nonce: [u8; KEY_BYTES]) -> Self {
        Self::new(key, nonce, State::AwaitsHello, false)
    }

    fn new(key: &Key, nonce: [u8; KEY_BYTES], state: State, connector: bool) -> Self {
        Self {
            key: key.clone(),
            session: None,
            state,
            connector,
            nonce,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent_frames: 0,
            taken_frames: 0,
        }
    }

    /// The purpose of the connection, once both sides have proved that they know the key.
    pub const fn is_open(&self) -> Option<Kind> {
        match self.state {
            State::Open(kind) => Some(kind),
            _ => None,
        }
    }

    /// Bytes to send.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Removes the first `bytes` bytes of [`Self::outgoing`], which were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.outgoing.drain(..bytes);
    }

    /// Bytes that are missing for the next step of the proof or the next frame. A caller that reads
    /// no more can use the connection otherwise afterwards.
    pub fn wanted(&self) -> usize {
        let have = self.incoming.len() - self.taken;
        let whole = match self.state {
            State::AwaitsHello => HELLO_BYTES,
            State::AwaitsProof(..) | State::AwaitsAnswer(..) => KEY_BYTES,
            State::AwaitsChallenge(_) => CHALLENGE_BYTES,
            State::Open(_) => match self.frame_length() {
                Some(length) => 4 + length.min(LONGEST_FRAME) + TAG_BYTES,
                None => 4,
            },
        };
        whole.saturating_sub(have)
    }

    fn frame_length(&self) -> Option<usize> {
        let bytes = self.incoming.get(self.taken..self.taken + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    }

    /// Takes received bytes, and continues the proof.
    ///
    /// # Errors
    /// The other side is not trusted.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        self.incoming.extend_from_slice(bytes);
        while self.is_open().is_none() && self.wanted() == 0 {
            self.prove()?;
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> &[u8] {
        let begin = self.taken;
        self.taken += bytes;
        &self.incoming[begin..self.taken]
    }

    fn prove(&mut self) -> Result<(), LinkError> {
        let nonce = self.nonce;
        let key = self.key.clone();
        match self.state {
            State::AwaitsHello => {
                let mut hello = [0; HELLO_BYTES];
                hello.copy_from_slice(self.take(HELLO_BYTES));
                if hello[..8] != MAGIC {
                    return Err(LinkError::OtherProtocol);
                }
                let mut challenge = [0; CHALLENGE_BYTES];
                challenge[..12].copy_from_slice(&start());
                challenge[CHALLENGE_BYTES - KEY_BYTES..].copy_from_slice(&nonce);
                self.outgoing.extend(challenge);
                same_version(&hello)?;
                self.state = State::AwaitsProof(hello, challenge);
            }
            State::AwaitsChallenge(hello) => {
                let mut challenge = [0; CHALLENGE_BYTES];
                challenge.copy_from_slice(self.take(CHALLENGE_BYTES));
                if challenge[..8] != MAGIC {
                    return Err(LinkError::OtherProtocol);
                }
                same_version(&challenge)?;
                let proof = key.hash(&[b"proof", &hello, &challenge]);
                self.outgoing.extend(proof);
                self.state = State::AwaitsAnswer(hello, challenge);
            }
            State::AwaitsProof(hello, challenge) => {
                let mut proof = [0; KEY_BYTES];
                proof.copy_from_slice(self.take(KEY_BYTES));
                if !key.verify(&[b"proof", &hello, &challenge], &proof) {
                    self.outgoing.extend([0; KEY_BYTES]);
                    return Err(LinkError::WrongToken);
                }
                let answer = key.hash(&[b"answer", &hello, &challenge]);
                self.outgoing.extend(answer);
                self.open(&key, &hello, &challenge)?;
            }
            State::AwaitsAnswer(hello, challenge) => {
                let mut answer = [0; KEY_BYTES];
                answer.copy_from_slice(self.take(KEY_BYTES));
                if !key.verify(&[b"answer", &hello, &challenge], &answer) {
                    return Err(LinkError::WrongToken);
                }
                self.open(&key, &hello, &challenge)?;
            }
            State::Open(_) => {}
        }
        Ok(())
    }

    fn open(&mut self, key: &Key, hello: &[u8], challenge: &[u8]) -> Result<(), LinkError> {
        let number = number_at(hello, 12);
        let kind = Kind::ALL.into_iter().find(|it| it.number() == number);
        let kind = kind.ok_or(LinkError::Kind { number })?;
        self.session = Some(Key::new(key.hash(&[b"session", hello, challenge])));
        self.state = State::Open(kind);
        Ok(())
    }

    /// Adds a frame with this payload to [`Self::outgoing`].
    ///
    /// # Errors
    /// The connection is not open, or the payload is longer than [`LONGEST_FRAME`].
    pub fn send(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let bytes = payload.len();
        if bytes > LONGEST_FRAME {
            return Err(LinkError::Oversized { bytes });
        }
        let session = self.session.as_ref().ok_or(LinkError::NotOpen)?;
        let tag = session.hash(&frame_parts(self.connector, self.sent_frames, payload).each());
        self.sent_frames += 1;
        self.outgoing.extend((payload.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(payload);
        self.outgoing.extend(&tag[..TAG_BYTES]);
        Ok(())
    }

    /// The payload of the next frame; `None` if it is not complete.
    ///
    /// # Errors
    /// The frame is not trusted.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let Some(length) = self.frame_length() else {
            return Ok(None);
        };
        let Some(session) = self.session.clone() else {
            return Ok(None);
        };
        if length > LONGEST_FRAME {
            return Err(LinkError::Oversized { bytes: length });
        }
        if self.wanted() > 0 {
            return Ok(None);
        }
        let (connector, number) = (!self.connector, self.taken_frames);
        let frame = self.take(4 + length + TAG_BYTES);
        let (payload, tag) = frame[4..].split_at(length);
        if !session.verify(&frame_parts(connector, number, payload).each(), tag) {
            return Err(LinkError::Altered);
        }
        let payload = payload.to_vec();
        self.taken_frames += 1;
        Ok(Some(payload))
    }
}

/// The beginning of a hello and of a challenge.
fn start() -> [u8; 12] {
    let mut start = [0; 12];
    start[..8].copy_from_slice(&MAGIC);
    start[8..].copy_from_slice(&VERSION.to_le_bytes());
    start
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].iter().rev();
    bytes.fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn same_version(start: &[u8]) -> Result<(), LinkError> {
    match number_at(start, 8) {
        VERSION => Ok(()),
        theirs => Err(LinkError::Version { theirs }),
    }
}

/// The parts of a frame that its hash covers.
struct FrameParts<'a> {
    direction: [u8; 1],
    number: [u8; 8],
    payload: &'a [u8],
}

impl FrameParts<'_> {
    fn each(&self) -> [&[u8]; 3] {
        [&self.direction, &self.number, self.payload]
    }
}

const fn frame_parts(connector: bool, number: u64, payload: &[u8]) -> FrameParts<'_> {
    FrameParts {
        direction: [connector as u8],
        number: number.to_le_bytes(),
        payload,
    }
}
