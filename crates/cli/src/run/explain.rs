//! Why an algorithm was chosen: the expected times of the fastest ones at each size.

use super::page::micros;
use super::table::in_words;
use super::{RunReport, RunRow};
use crate::render::table::Columns;
use crate::render::{Look, or_dash};
use crate::sizes;

const HEADERS: [&str; 9] = [
    "size",
    "algorithm",
    "proto",
    "ch",
    "µs",
    "waits",
    "messages",
    "bytes",
    "network",
];

/// The section of `--explain`; empty without it.
pub fn section(report: &RunReport, look: Look) -> String {
    if report.rows.iter().all(|row| row.explained.is_empty()) {
        return String::new();
    }
    let mut table = Columns::new(look, &HEADERS).right(&[0, 3, 4, 5, 6, 7, 8]);
    for row in &report.rows {
        for (at, cells) in lines(row).enumerate() {
            let size = if at == 0 {
                sizes::short(row.bytes)
            } else {
                String::new()
            };
            table.row([vec![size], cells].concat());
        }
    }
    let by_model = |row: &RunRow| row.explained.iter().any(|it| it.parts.is_some());
    let source = match report.rows.iter().any(by_model) {
        true => "expected by the model of the cost profile; the first of a size is taken",
        false => "measured when the cost profile was made; the first of a size is taken",
    };
    look.section("Choices", source, &table.finish())
}

/// The cells of each choice for a size, after the size.
fn lines(row: &RunRow) -> impl Iterator<Item = Vec<String>> {
    row.explained.iter().map(|it| {
        let parts = it
            .parts
            .map(|it| [it.waits_us, it.messages_us, it.bytes_us, it.network_us].map(micros));
        let parts = parts.unwrap_or_else(|| std::array::from_fn(|_| or_dash(None::<u64>)));
        let words = in_words(it.choice).into_iter();
        words.chain([micros(it.time_us)]).chain(parts).collect()
    })
}
