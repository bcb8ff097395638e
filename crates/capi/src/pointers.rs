//! Pointers of the caller: read and written where they are not null.

use toporing::communicator::{Code, Fault};

/// The fault of a null pointer.
pub fn null(what: &str) -> Fault {
    Fault::invalid(format!("{what} is null"))
}

/// Stores a result of the call.
///
/// # Safety
/// `to` is null or writable.
pub unsafe fn store<T>(to: *mut T, value: T, what: &str) -> Result<Code, Fault> {
    if to.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller says that it is writable.
    unsafe { to.write(value) };
    Ok(Code::Ok)
}

/// A list of the caller.
///
/// # Safety
/// It is null or has so many items until the call returns.
pub unsafe fn list<'a>(of: *const u64, count: usize) -> Result<&'a [u64], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    if of.is_null() {
        return Err(null("works"));
    }
    if count > isize::MAX as usize / size_of::<u64>() {
        return Err(Fault::invalid(format!(
            "{count} works exceed the address space"
        )));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts(of, count) })
}
