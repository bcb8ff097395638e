//! Numbers from Python become calls.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use toporing::communicator::{Arguments, Collective, ElementType, Fault, Launch, Reduction};
use toporing::communicator::{End, Transfer};

/// A collective as numbers: collective, input, output, count, element, operation, root.
pub type Numbers = (usize, usize, usize, usize, usize, usize, u32);

/// A transfer as numbers: address, bytes, the other rank, whether this rank sends, and the tag.
/// Without a rank it receives from any; without a tag it is a part of a collective.
pub type TransferNumbers = (usize, usize, Option<u32>, bool, Option<i64>);

/// The connections that a call needs.
#[derive(PartialEq, Eq, Hash)]
pub enum Kind {
    /// Collective, element, root and count.
    Collective(Collective, ElementType, u32, u64),
    /// The other rank, bytes and tag.
    Transfer(End, usize, u32),
}

impl Kind {
    /// Of a collective.
    pub const fn of_launch(launch: &Launch) -> Self {
        let it = &launch.request;
        Self::Collective(it.collective, it.element, it.root, it.count)
    }

    /// Of a transfer.
    pub const fn of_transfer(transfer: &Transfer) -> Self {
        Self::Transfer(transfer.end(), transfer.bytes(), transfer.tag())
    }
}

/// The names of the element types, in the order of their numbers.
pub fn types() -> Vec<&'static str> {
    ElementType::ALL.iter().map(|it| it.name()).collect()
}

/// The names of the operations, in the order of their numbers.
pub fn operations() -> Vec<String> {
    let named = Reduction::ALL.iter().map(ToString::to_string);
    named.collect()
}

/// The names of the collectives, in the order of their numbers.
pub fn collectives() -> Vec<String> {
    Collective::ALL.iter().map(ToString::to_string).collect()
}

/// The collective of these numbers.
///
/// # Errors
/// A number has no meaning, or the buffers are wrong.
pub fn launch(numbers: Numbers, rank: u32, ranks: u32) -> Result<Launch, Fault> {
    let (collective, input, output, count, element, operation, root) = numbers;
    let arguments = Arguments {
        collective: *number(&Collective::ALL, collective, "collective")?,
        input: std::ptr::with_exposed_provenance(input),
        output: std::ptr::with_exposed_provenance_mut(output),
        count,
        element: *number(&ElementType::ALL, element, "element type")?,
        operation: *number(&Reduction::ALL, operation, "operation")?,
        root,
    };
    // SAFETY: the package keeps the arrays until the call has ended.
    unsafe { arguments.read(rank, ranks) }
}

fn number<'a, T>(of: &'a [T], given: usize, what: &str) -> Result<&'a T, Fault> {
    let found = of.get(given);
    found.ok_or_else(|| Fault::invalid(format!("{given} is no {what}")))
}

/// The transfer of these numbers, which stores its source there.
fn transfer(numbers: TransferNumbers, source: &AtomicU32) -> PyResult<Transfer> {
    let (address, bytes, peer, sends, tag) = numbers;
    let most = Transfer::MOST_TAG;
    let given = tag.map_or(Ok(Transfer::COLLECTIVE_TAG), |tag| {
        let given = u32::try_from(tag).ok().filter(|it| *it <= most);
        given.ok_or_else(|| format!("there is no tag {tag}, expected 0 to {most}"))
    });
    let tag = given.map_err(PyValueError::new_err)?;
    let end = match (peer, sends) {
        (Some(peer), true) => End::To(peer),
        (Some(peer), false) => End::From(peer),
        (None, false) => End::FromAny,
        (None, true) => {
            return Err(PyValueError::new_err(
                "a send needs the rank of its receiver",
            ));
        }
    };
    let memory = (std::ptr::with_exposed_provenance_mut(address), bytes);
    // SAFETY: the package keeps the arrays and the source until the call has ended.
    Ok(unsafe { Transfer::new(end, tag, memory, source.as_ptr()) })
}

/// Transfers, and where they store their source.
///
/// # Errors
/// There is no such tag, or a send has no receiver.
pub fn transfers(numbers: Vec<TransferNumbers>) -> PyResult<(Vec<Transfer>, Arc<AtomicU32>)> {
    let source = Arc::new(AtomicU32::new(u32::MAX));
    let transfers = numbers.into_iter().map(|it| transfer(it, &source));
    Ok((transfers.collect::<PyResult<Vec<Transfer>>>()?, source))
}
