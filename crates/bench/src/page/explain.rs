//! The reasons for a choice: the expected times of the fastest algorithms at each size.

use pages::Table;
use pages::numbers::or_dash;
use pages::terminal::Look;
use program::size;

use super::table::in_words;
use crate::figures::micros;
use crate::{RunReport, RunRow};

const HEADERS: [&str; 9] = [
    ">size",
    "algorithm",
    "proto",
    ">ch",
    ">µs",
    ">waits",
    ">messages",
    ">bytes",
    ">network",
];

/// Headers of what is known of every choice; the others are parts of a time that a model predicts.
const WITHOUT_PARTS: usize = 5;

/// The section of `--explain`; empty without it.
pub fn section(report: &RunReport, look: Look) -> String {
    let mut explained = report.rows.iter().flat_map(|row| &row.explained).peekable();
    if explained.peek().is_none() {
        return String::new();
    }
    let by_model = explained.any(|it| it.parts.is_some());
    let (shown, source) = match by_model {
        true => (HEADERS.len(), "expected by the model of the cost profile"),
        false => (WITHOUT_PARTS, "measured when the cost profile was made"),
    };
    let mut table = Table::new(HEADERS[..shown].iter().copied());
    for row in &report.rows {
        for (at, cells) in lines(row).enumerate() {
            let size = match at {
                0 => size::short(row.bytes),
                _ => String::new(),
            };
            let cells = [vec![size], cells].concat();
            table.row(cells.into_iter().take(shown).collect());
        }
    }
    let remark = format!("{source}; the first of a size is taken");
    look.section("Choices", &remark, &table.text(look))
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
