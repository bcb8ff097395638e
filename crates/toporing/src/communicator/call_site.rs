//! The place of the caller: bindings say it before a call, and debug mode names it when ranks
//! disagree.

use std::cell::RefCell;

/// Most bytes of a place that other ranks learn; the end of a longer one is kept.
pub const MOST_BYTES: usize = 120;

thread_local! {
    /// The file and the line; no file without a line. Calls that need no place only clear it, so
    /// it is made when it is taken.
    static NEXT: RefCell<(String, u32)> = const { RefCell::new((String::new(), 0)) };
}

/// Says where the next call of this thread is, such as `train.py:12`.
pub fn set(file: &str, line: u32) {
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    // A thread that is about to end calls nothing more.
    let _ = NEXT.try_with(|next| {
        let mut next = next.borrow_mut();
        next.0.clear();
        next.0.push_str(file);
        next.1 = line;
    });
}

/// Forgets the place of this call, and returns it if it is wanted; else, and without one, nothing.
pub(crate) fn take(is_wanted: bool) -> String {
    let taken = NEXT.try_with(|next| {
        let (file, line) = &mut *next.borrow_mut();
        let place = match is_wanted && !file.is_empty() {
            true => format!("{file}:{line}"),
            false => String::new(),
        };
        file.clear();
        place
    });
    let mut place = taken.unwrap_or_default();
    if place.len() > MOST_BYTES {
        let from = place.len() - MOST_BYTES;
        let from = (from..place.len()).find(|at| place.is_char_boundary(*at));
        place.drain(..from.unwrap_or(0));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_one_call_and_short() {
        set("/home/user/train.py", 12);
        assert_eq!(take(true), "train.py:12");
        assert_eq!(take(true), "");
        set("train.py", 13);
        assert_eq!([take(false), take(true)], ["", ""]);
        set(&"ü".repeat(100), 7);
        let place = take(true);
        assert!(
            place.len() <= MOST_BYTES && place.ends_with("ü:7"),
            "{place}"
        );
    }
}
