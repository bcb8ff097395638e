//! The time of a communicator's start, by NCCL's line about it (`Init timings`, since 2.22).

use findings::causes::Certainty::Likely;
use findings::causes::table::start;
use findings::causes::{Cause, Certainty};

/// The beginning of the line.
pub(crate) const WORD: &str = "Init timings - ";

/// Loading kernels takes less on healthy machines, seconds: the starts in
/// `records::results::starts` have 0.27 to 0.74.
const LONG_LOAD: f64 = 5.0;

/// A start without the load of kernels takes less, seconds.
const LONG_START: f64 = 30.0;

/// As few ranks start soon.
const MANY_RANKS: u32 = 1000;

/// Why a start was slow, if it was; `None` if the line is none about a start.
pub(crate) fn cause(line: &str) -> Option<(&'static Cause, Certainty)> {
    let text = line.split(WORD).nth(1)?;
    let total = after(text, "total ")?;
    let kernels = after(text, "kernels ").unwrap_or(0.0);
    let ranks = after(text, "nranks ").unwrap_or(0.0);
    if kernels >= LONG_LOAD && kernels >= total / 2.0 {
        return Some((&start::SLOW_KERNEL_LOAD, Likely));
    }
    let is_slow = total - kernels >= LONG_START && ranks >= f64::from(MANY_RANKS);
    is_slow.then_some((&start::SLOW_START, Likely))
}

/// The number after a word.
fn after(text: &str, word: &str) -> Option<f64> {
    let rest = text.split(word).nth(1)?;
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_of_a_start_is_named() {
        let named = |text: &str| {
            let line = format!("n1:2:3 [0] NCCL INFO Init timings - ncclCommInitRank: {text}");
            cause(&line).map(|it| it.0.id)
        };
        let load = "rank 0 nranks 8 total 55.00 (kernels 52.40, alloc 0.20, bootstrap 0.10)";
        assert_eq!(named(load), Some("slow-kernel-load"));
        assert_eq!(
            named("rank 0 nranks 8 total 3.03 (kernels 1.22, alloc 0.24)"),
            None
        );
        let start = "rank 9 nranks 4096 total 151.2 (kernels 1.2, bootstrap 120.0)";
        assert_eq!(named(start), Some("slow-start"));
        assert_eq!(named("rank 9 nranks 16 total 151.2 (kernels 1.2)"), None);
        assert_eq!(named("rank 9 nranks"), None);
        assert_eq!(cause("total 99 (kernels 99)"), None);
    }
}
