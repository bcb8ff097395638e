//! Debug mode: all ranks tell each other what they are about to run.

use backend_cpu::Cpu;
use executor::{Communicator, Memory, Request};
use program::{Collective, ElementType, Reduction};

use crate::error::{Code, Fault};

/// Bytes of a rank's description.
const LENGTH: usize = 128;

/// Compares the request of this rank with those of all others.
///
/// # Errors
/// They differ: the error names the first rank that requests something else, and both requests.
pub fn all(communicator: &mut Communicator<Cpu>, request: &Request) -> Result<(), Fault> {
    let own = describe(request);
    let ranks = communicator.ranks();
    let mut input = [0_u8; LENGTH];
    for (to, from) in input.iter_mut().zip(own.bytes()) {
        *to = from;
    }
    let mut output = vec![0_u8; LENGTH * ranks as usize];
    let exchange = Request {
        collective: Collective::AllGather,
        element: ElementType::U8,
        reduction: Reduction::Sum,
        root: 0,
        to: 0,
        in_place: false,
        count: LENGTH as u64,
        choice: None,
    };
    communicator.run(&exchange, Memory::separate(&input, &mut output), 0)?;
    for (theirs, rank) in output.chunks(LENGTH).zip(0..ranks) {
        if theirs != input {
            let end = theirs.iter().position(|it| *it == 0).unwrap_or(LENGTH);
            let theirs = String::from_utf8_lossy(&theirs[..end]);
            let me = communicator.rank();
            return Err(Fault::new(
                Code::Invalid,
                format!(
                    "ranks disagree: rank {me} calls {own}, rank {rank} calls {theirs}; all ranks call the same \
                     collectives in the same order"
                ),
            ));
        }
    }
    Ok(())
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
