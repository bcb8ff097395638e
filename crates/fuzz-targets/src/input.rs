//! Inputs: a document, and bytes that choose what is done with it. Files of the repository are
//! seeds.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use arbitrary::{Result, Unstructured};

/// How far an input came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Its syntax, header, checksum or handshake was refused.
    Outside,
    /// It passed those, and its content was refused.
    Inside,
    /// It was accepted and used.
    Accepted,
}

impl Depth {
    /// Accepted if this holds.
    pub const fn accepted_if(holds: bool, otherwise: Self) -> Self {
        if holds { Self::Accepted } else { otherwise }
    }
}

/// Returns the value of a result. Formats an error too, because its message is made from the input.
pub fn checked<T, E: Display>(result: std::result::Result<T, E>) -> Option<T> {
    result.map_err(|error| drop(error.to_string())).ok()
}

/// The document before the first NUL, and the choices after it.
pub fn split(bytes: &[u8]) -> (&[u8], Unstructured<'_>) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], Unstructured::new(&bytes[at + 1..])),
        None => (bytes, Unstructured::new(&[])),
    }
}

/// A document with choices.
pub fn join(document: &[u8], choices: &[u8]) -> Vec<u8> {
    [document, &[0], choices].concat()
}

/// A number below `most`; 0 if no choices are left.
pub fn below(choices: &mut Unstructured<'_>, most: usize) -> usize {
    choices
        .int_in_range(0..=most.saturating_sub(1))
        .unwrap_or(0)
}

/// One of some values; the first if no choices are left.
///
/// # Panics
/// There are no values.
pub fn one<T: Copy>(choices: &mut Unstructured<'_>, of: &[T]) -> T {
    of[below(choices, of.len())]
}

/// One of some values, or an error if no choices are left.
pub fn choose<T: Copy>(choices: &mut Unstructured<'_>, of: &[T]) -> Result<T> {
    Ok(of[usize::from(choices.arbitrary::<u8>()?) % of.len()])
}

/// A flag; `false` if no choices are left.
pub fn flag(choices: &mut Unstructured<'_>) -> bool {
    choices.arbitrary().unwrap_or(false)
}

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files of the repository.
///
/// # Panics
/// One cannot be read.
pub fn files(names: &[&str]) -> Vec<Vec<u8>> {
    let read = |name: &&str| {
        let path = repository().join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    names.iter().map(read).collect()
}

/// The topology files of the repository with at most `most` bytes.
///
/// # Panics
/// One cannot be read.
pub fn topologies(most: usize) -> Vec<Vec<u8>> {
    let machines = testkit::Machine::all().expect("the machines of the repository");
    let bytes = machines
        .iter()
        .map(|machine| machine.bytes().expect("a machine has a topology file"));
    bytes.filter(|bytes| bytes.len() <= most).collect()
}
