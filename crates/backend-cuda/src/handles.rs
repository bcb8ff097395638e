//! Handles of streams, handles as text, and locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys;

/// Locks a mutex whose content is valid between any two statements, also after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream as its caller gives it: the driver's handle; 0 and 1 are the legacy stream, 2 that of
/// the calling thread.
pub(crate) const fn caller(stream: u64) -> sys::CUstream {
    std::ptr::without_provenance_mut(stream as usize)
}

pub(crate) fn unknown() -> String {
    "another process shares memory in a form that this version does not know".to_owned()
}

pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes_of(digits: &str) -> Option<[u8; 64]> {
    let mut bytes = [0; 64];
    if digits.len() != 2 * bytes.len() || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_as_text() {
        let bytes: [u8; 64] = std::array::from_fn(|at| (at * 5) as u8);
        assert_eq!(bytes_of(&digits(&bytes)), Some(bytes));
        assert_eq!(bytes_of("12"), None);
        assert_eq!(bytes_of(&"g".repeat(128)), None);
    }
}
