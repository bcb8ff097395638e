//! The logger of plug-ins, and their last warnings.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::sync::{Once, OnceLock};

use crate::abi::Logger;

/// The level of a line, with NCCL's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Versions.
    Version,
    /// Warnings.
    Warning,
    /// Information for debugging.
    Information,
    /// Every step.
    Trace,
}

impl Level {
    const fn of(number: c_int) -> Self {
        match number {
            ..=1 => Self::Version,
            2 => Self::Warning,
            3 => Self::Information,
            _ => Self::Trace,
        }
    }
}

thread_local! {
    /// The last warnings of plug-ins on this thread, for errors to quote.
    static WARNINGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Most warnings that are kept: often the first gives the cause, and the last only that a call
/// failed.
const KEPT: usize = 3;

/// The least important level that is read, and who reads it.
type Reader = (Level, fn(&str));

static READER: OnceLock<Reader> = OnceLock::new();
static CONNECTED: Once = Once::new();

type Sink = extern "C" fn(c_int, c_ulong, *const c_char);

unsafe extern "C" {
    fn topo_net_plugin_set_sink(to: Sink);
    fn topo_net_plugin_log(
        level: c_int,
        flags: c_ulong,
        file: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
}

/// Calls `reader` with every line up to a level that plug-ins log from now on. Only the first
/// reader is called.
pub fn read_lines(most: Level, reader: fn(&str)) {
    let _ = READER.set((most, reader));
}

/// The function that plug-ins log with.
pub fn logger() -> Logger {
    // SAFETY: the function only keeps the pointer, which stays valid.
    CONNECTED.call_once(|| unsafe { topo_net_plugin_set_sink(sink) });
    topo_net_plugin_log
}

extern "C" fn sink(level: c_int, _flags: c_ulong, text: *const c_char) {
    // SAFETY: the C side passes a string of its own that ends.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    let level = Level::of(level);
    if level == Level::Warning {
        WARNINGS.with_borrow_mut(|kept| {
            if kept.len() == KEPT {
                kept.remove(0);
            }
            kept.push(text.to_owned());
        });
    }
    if let Some((most, reader)) = READER.get()
        && level <= *most
    {
        reader(text);
    }
}

/// Takes the last warnings of this thread, so that they are quoted once.
pub fn last_warnings() -> Option<String> {
    let kept = WARNINGS.take();
    (!kept.is_empty()).then(|| kept.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_formatted_and_warnings_quoted_once() {
        let log = logger();
        // SAFETY: the formats fit what they are given.
        unsafe {
            log(2, 16, c"a.c".as_ptr(), 1, c"early".as_ptr());
            log(3, 16, c"a.c".as_ptr(), 2, c"only said".as_ptr());
            log(
                2,
                16,
                c"a.c".as_ptr(),
                3,
                c"device %d of %s: %.1f".as_ptr(),
                c_int::from(7_i8),
                c"mlx5_0".as_ptr(),
                2.5_f64,
            );
        }
        assert_eq!(
            last_warnings().as_deref(),
            Some("early; device 7 of mlx5_0: 2.5")
        );
        assert_eq!(last_warnings(), None);
    }
}
