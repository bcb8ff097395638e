//! Errors: a code on which a program can decide, and a text.

use std::any::Any;

/// The result of a call, by its number in `topo.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// An argument is wrong; the communicator stays usable.
    Invalid = 1,
    /// Another thread is in a call with this communicator.
    Busy = 2,
    /// A rank failed, left or aborted; the communicator cannot be used any more.
    Failed = 3,
    /// A rank waited too long; the communicator cannot be used any more.
    Timeout = 4,
    /// The communicator belongs to the parent of this process.
    Forked = 5,
    /// There is not enough memory, or the system refuses something.
    System = 6,
    /// A defect of this library.
    Internal = 7,
    /// Not done yet. Not an error.
    Pending = 8,
}

/// An error: its code and what happened.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// What happened, and what to do.
    pub text: String,
}

impl Fault {
    /// An error with this code and text.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// A wrong argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::Invalid, text)
    }

    /// The error for a caught panic.
    pub fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_default();
        Self::new(
            Code::Internal,
            format!("defect of the library, please report it: {text}"),
        )
    }
}

impl From<executor::Error> for Fault {
    fn from(error: executor::Error) -> Self {
        use executor::Error;
        let code = match &error {
            Error::Length { .. }
            | Error::NoSuchRank { .. }
            | Error::Unsupported { .. }
            | Error::NoReduction { .. } => Code::Invalid,
            Error::Timeout { .. } => Code::Timeout,
            Error::Memory { .. } => Code::System,
            Error::Program { .. } => Code::Internal,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}
