//! The frame of every exported function: it counts the call, fails if the machine file says so, and
//! reports a refusal.

use std::cell::Cell;

use crate::answer::{Answer, Refusal, Section};
use crate::report;
use crate::start;

/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = cudarc::driver::sys::CUresult::CUDA_ERROR_NOT_SUPPORTED as u32;

thread_local! {
    /// The call that this thread is in, until it has been counted as one that waits.
    static CURRENT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Counts the call that this thread is in, if any, as one that waits.
pub fn waits() {
    if let Some(function) = CURRENT.take() {
        report::waited(function);
    }
}

/// Does a call.
pub fn call(function: &'static str, body: impl FnOnce() -> Answer) -> u32 {
    let number = report::called(function);
    let planted = start::planted(function, number);
    let answer = match planted {
        Some(error) => Err(Refusal {
            error,
            section: Section::Machine,
            rule: format!("call {number} fails"),
        }),
        None => {
            CURRENT.set(Some(function));
            body()
        }
    };
    CURRENT.set(None);
    match answer {
        Ok(()) => 0,
        Err(refusal) => {
            if !refusal.rule.is_empty() {
                report::refused(function, &refusal);
            }
            refusal.error
        }
    }
}

/// A call of a function that is not implemented.
pub fn missing(function: &'static str) -> u32 {
    if report::called(function) == 1 {
        report::note(format!("missing {function}"));
        eprintln!("topo phantom: {function} is not implemented");
    }
    NOT_SUPPORTED
}

/// Defines exported functions.
macro_rules! entry_points {
    ($( $(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The arguments are as the CUDA driver API's documentation of this function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::call::call(stringify!($name), || -> $crate::answer::Answer { $body })
        }
    )*};
}

pub(crate) use entry_points;
