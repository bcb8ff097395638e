//! The search for the channels: each search in a line, or attempt by attempt.

use plan::Trail;
use planner::explain;

use super::{Look, wrap};

/// One line per search, with what it had to relax.
pub fn short(trails: &[Trail], look: Look) -> String {
    let width = trails
        .iter()
        .map(|trail| trail.kind.name().len())
        .max()
        .unwrap_or(0);
    trails
        .iter()
        .map(|trail| {
            let first = format!("  {:<width$}  ", trail.kind.name());
            let indent = " ".repeat(width + 4);
            wrap(&explain::search(trail), &first, &indent, look.width)
        })
        .collect()
}

/// Every attempt of every search.
pub fn long(trails: &[Trail], inter: bool, look: Look) -> String {
    let mut text = String::new();
    for trail in trails {
        text.push_str(&format!(
            "\n  {}\n",
            look.heading(&format!("Search for {}", trail.kind))
        ));
        if trail.attempts.is_empty() {
            text.push_str(&wrap(&explain::search(trail), "    ", "    ", look.width));
        }
        for (index, attempt) in explain::attempts(trail, inter).into_iter().enumerate() {
            let number = format!("  {:>4}  ", index + 1);
            let indent = " ".repeat(8);
            let write = |words: &str, first: &str| wrap(words, first, &indent, look.width);
            text.push_str(&write(&attempt.asks, &number));
            text.push_str(&write(&attempt.found, &indent));
            if let Some(end) = attempt.first_pass {
                text.push_str(&look.notice(&write(&end, &indent)));
            }
            if let Some(next) = attempt.next {
                text.push_str(&look.faint(&write(&format!("→ {next}."), &indent)));
            }
        }
    }
    text
}
