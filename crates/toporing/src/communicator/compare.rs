//! Debug mode: all ranks tell each other what they are about to run, and where.

use executor::{Memory, Request};
use program::{Collective, ElementType, Reduction};

use crate::communicator::call_site;
use crate::communicator::error::{Code, Fault};

/// Bytes of a description of a call.
const CALL_BYTES: usize = 128;

/// Bytes of what a rank tells: the call, then its place.
const LENGTH: usize = CALL_BYTES + call_site::MOST_BYTES;

/// A call as other ranks learn of it.
fn told(call: &str, place: &str) -> [u8; LENGTH] {
    let mut bytes = [0_u8; LENGTH];
    let (before, after) = bytes.split_at_mut(CALL_BYTES);
    for (part, text) in [(before, call), (after, place)] {
        for (to, from) in part.iter_mut().zip(text.bytes()) {
            *to = from;
        }
    }
    bytes
}

/// The same in words.
fn shown(told: &[u8]) -> String {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|it| *it == 0);
        String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
    };
    let (call, place) = told.split_at(CALL_BYTES.min(told.len()));
    match text(place) {
        place if place.is_empty() => text(call),
        place => format!("{} ({place})", text(call)),
    }
}

/// What ranks tell each other before a collective.
#[derive(Debug)]
pub struct Told {
    own: Vec<u8>,
    /// What each rank told, in rank order.
    all: Vec<u8>,
}

impl Told {
    /// What a rank tells of its request.
    pub fn new(request: &Request, place: &str, ranks: u32) -> Self {
        Self {
            own: told(&describe(request), place).to_vec(),
            all: vec![0; LENGTH * ranks as usize],
        }
    }

    /// The collective that tells it to all ranks, and its memory, which stays where it is.
    pub fn exchange(&mut self) -> (Request, Memory<'static>) {
        let request = Request {
            collective: Collective::AllGather,
            element: ElementType::U8,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count: LENGTH as u64,
            choice: None,
        };
        let (own, all) = (&mut self.own, &mut self.all);
        // SAFETY: both are here until the collective is done.
        let memory = unsafe { Memory::at(own.as_ptr(), own.len(), all.as_mut_ptr(), all.len()) };
        (request, memory)
    }

    /// Compares the request of this rank with those of all others.
    ///
    /// # Errors
    /// They differ: the error names the first rank that requests something else, and both requests
    /// with their places.
    pub fn compare(&self, rank: u32) -> Result<(), Fault> {
        let own = &self.own;
        for (theirs, other) in self.all.chunks(LENGTH).zip(0_u32..) {
            if theirs[..CALL_BYTES] != own[..CALL_BYTES] {
                return Err(Fault::new(
                    Code::Invalid,
                    format!(
                        "ranks disagree: rank {rank} calls {}, rank {other} calls {}; all ranks call the same \
                         collectives in the same order",
                        shown(own),
                        shown(theirs)
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// What the ends of a transfer tell each other before it: its length, then its place.
pub type Header = [u8; LENGTH];

/// The header of a transfer.
pub fn header(bytes: usize, place: &str) -> Header {
    told(&format!("{bytes} bytes"), place)
}

/// Compares the header of a receive with that of its send.
///
/// # Errors
/// The lengths differ.
pub fn headers(own: &[u8], theirs: &[u8], (rank, peer): (u32, u32)) -> Result<(), Fault> {
    if own.get(..CALL_BYTES) == theirs.get(..CALL_BYTES) {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "ranks disagree: rank {rank} receives {}, rank {peer} sends {}; a receive is as long as its send",
        shown(own),
        shown(theirs)
    )))
}

fn describe(request: &Request) -> String {
    let Request {
        collective, count, ..
    } = request;
    let mut text = format!("{collective} of {count} {}", request.element);
    if collective.reduces() {
        text += &format!(", {}", request.reduction);
    }
    if collective.has_root() {
        text += &format!(", root {}", request.root);
    }
    if request.in_place {
        text += ", in place";
    }
    text
}
