//! What can be wrong with a topology file, and where.

use std::fmt;
use std::sync::Arc;

/// Where in a file something stands. Lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// A position in a named file, with the element and attribute that stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name as the caller gave it.
    pub file: Arc<str>,
    /// Where in the file.
    pub position: Position,
    /// The element's name, if the trouble is with one.
    pub element: Option<String>,
    /// The attribute's name, if the trouble is with one.
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

/// A topology file that cannot be planned, with the place, what was found there and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}; found {found}, expected {expected}")]
pub struct Error {
    /// Where.
    pub place: Box<Place>,
    /// What is wrong, in a few words.
    pub problem: Box<str>,
    /// What stands there.
    pub found: Box<str>,
    /// What should stand there, or what to do.
    pub expected: Box<str>,
}

impl Error {
    /// An error at a place.
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

/// Something in a file that NCCL accepts silently, or would itself refuse, and what that means for the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// What was found and what it means.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
