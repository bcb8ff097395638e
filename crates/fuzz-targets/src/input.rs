//! Inputs: a document, and bytes that choose what is done with it; files of the repository as seeds.

use std::path::{Path, PathBuf};

use arbitrary::Unstructured;

/// The document before the first NUL, and the choices behind it.
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

/// A number below `most`; the first where there are no choices left.
pub fn below(choices: &mut Unstructured<'_>, most: usize) -> usize {
    choices
        .int_in_range(0..=most.saturating_sub(1))
        .unwrap_or(0)
}

/// One of some things; the first where there are no choices left.
///
/// # Panics
/// There are none.
pub fn one<T: Copy>(choices: &mut Unstructured<'_>, of: &[T]) -> T {
    of[below(choices, of.len())]
}

/// A flag; `false` where there are no choices left.
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

/// The topology files of the repository up to a length, bytes.
///
/// # Panics
/// One cannot be read.
pub fn topologies(most: usize) -> Vec<Vec<u8>> {
    let machines = machines::Machine::all().expect("the machines of the repository");
    let bytes = machines
        .iter()
        .map(|machine| machine.bytes().expect("a machine has a topology file"));
    bytes.filter(|bytes| bytes.len() <= most).collect()
}
