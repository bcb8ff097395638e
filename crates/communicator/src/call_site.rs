//! Where the caller calls: bindings say it before a call, and debug mode names it when ranks
//! disagree.

use std::cell::RefCell;

/// Most bytes of a place that other ranks learn; the end of a longer one is kept.
pub const MOST_BYTES: usize = 120;

thread_local! {
    static NEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Says where the next call of this thread is, such as `train.py:12`.
pub fn set(file: &str, line: u32) {
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    // A thread that is about to end calls nothing more.
    let _ = NEXT.try_with(|next| *next.borrow_mut() = format!("{file}:{line}"));
}

/// The place of this call, or nothing.
pub(crate) fn take() -> String {
    let taken = NEXT.try_with(|next| std::mem::take(&mut *next.borrow_mut()));
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
        assert_eq!(take(), "train.py:12");
        assert_eq!(take(), "");
        set(&"ü".repeat(100), 7);
        let place = take();
        assert!(
            place.len() <= MOST_BYTES && place.ends_with("ü:7"),
            "{place}"
        );
    }
}
