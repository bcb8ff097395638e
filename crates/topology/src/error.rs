//! Errors and warnings about topology files.

use std::fmt;
use std::sync::Arc;

/// A position in a file. Lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// A position in a named file, with the element and attribute there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name as the caller gave it.
    pub file: Arc<str>,
    /// Position in the file.
    pub position: Position,
    /// The element concerned, if any.
    pub element: Option<String>,
    /// The attribute concerned, if any.
    pub attribute: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.position.line > 0 {
            write!(f, ":{}:{}", self.position.line, self.position.column)?;
        }
        match (&self.element, &self.attribute) {
            (Some(element), Some(attribute)) => write!(f, ": <{element}> attribute `{attribute}`"),
            (Some(element), None) => write!(f, ": <{element}>"),
            _ => Ok(()),
        }
    }
}

/// Why a topology file cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}; found {found}, expected {expected}")]
pub struct Error {
    /// Place of the error.
    pub place: Box<Place>,
    /// The problem, in a few words.
    pub problem: Box<str>,
    /// The text found.
    pub found: Box<str>,
    /// The expected text, or advice.
    pub expected: Box<str>,
}

impl Error {
    /// Creates an error.
    pub fn new(
        place: Place,
        problem: impl Into<Box<str>>,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> Self {
        Self {
            place: Box::new(place),
            problem: problem.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// A warning: NCCL silently misreads a part of the file, or would refuse the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Place of the cause.
    pub place: Place,
    /// The cause and its consequence for the plan.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
