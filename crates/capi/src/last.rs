//! The border: no panic crosses it, and the text of an error is kept for [`topo_last_error`].

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use toporing::communicator::{Code, Fault};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call of the C interface. Returns its code, and keeps the text of its error.
pub fn call(body: impl FnOnce() -> Result<Code, Fault>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body));
    let done = done.unwrap_or_else(|panic| Err(Fault::panicked(&*panic)));
    let code = done.unwrap_or_else(|fault| {
        let text = CString::new(fault.text.replace('\0', " ")).unwrap_or_default();
        // A thread that is about to end keeps no text.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        fault.code
    });
    code as c_int
}

/// The meaning of a result, in a few words.
#[unsafe(no_mangle)]
pub extern "C" fn topo_result_text(result: c_int) -> *const c_char {
    let text = Code::of(result).map(Code::text);
    text.unwrap_or(c"no topo_result").as_ptr()
}

/// The text of the last error of this thread; empty if there was none. Valid until the thread's
/// next error.
#[unsafe(no_mangle)]
pub extern "C" fn topo_last_error() -> *const c_char {
    let last = LAST.try_with(|last| last.borrow().as_ptr());
    last.unwrap_or(c"".as_ptr())
}
