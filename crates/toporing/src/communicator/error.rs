//! Errors: a code on which a program can decide, and a text.

use std::any::Any;
use std::ffi::CStr;
use std::fmt;

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

impl Code {
    /// The code with this number.
    pub fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as i32 == number)
    }

    /// All codes, in the order of their numbers.
    const ALL: [Self; 9] = [
        Self::Ok,
        Self::Invalid,
        Self::Busy,
        Self::Failed,
        Self::Timeout,
        Self::Forked,
        Self::System,
        Self::Internal,
        Self::Pending,
    ];

    /// The meaning in a few words, which C reads as they are.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::Invalid => c"an argument is wrong",
            Self::Busy => c"another thread is in a call with the communicator",
            Self::Failed => c"a rank failed, left or aborted",
            Self::Timeout => c"a rank waited too long",
            Self::Forked => c"the communicator belongs to the parent process",
            Self::System => c"not enough memory, or the system refuses something",
            Self::Internal => c"a defect of the library",
            Self::Pending => c"not done yet",
        }
    }
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

    /// A call after this rank aborted, or one that had begun and did not wait yet.
    pub(crate) fn aborted(why: &str) -> Self {
        let text =
            format!("this rank aborted the communicator: {why}; destroy it and make a new one");
        Self::new(Code::Failed, text)
    }

    /// Refuses a library for other languages whose panics would end their programs. `instead` says
    /// which one to use.
    ///
    /// # Errors
    /// It was built so.
    pub fn check_unwinding(instead: &str) -> Result<(), Self> {
        match cfg!(panic = "abort") {
            true => Err(Self::new(
                Code::Internal,
                format!("a defect of this build would end the program; {instead}"),
            )),
            false => Ok(()),
        }
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl From<executor::Error> for Fault {
    fn from(error: executor::Error) -> Self {
        use executor::Error;
        let code = match &error {
            Error::Length { .. }
            | Error::NoSuchRank { .. }
            | Error::Unsupported { .. }
            | Error::NoReduction { .. }
            | Error::Registration { .. } => Code::Invalid,
            Error::Timeout { .. } => Code::Timeout,
            Error::Memory { .. } => Code::System,
            Error::Program { .. } => Code::Internal,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}
