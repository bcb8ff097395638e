//! The writing of numbers and words.

use serde::Serialize;

/// A number with at most four decimals.
pub(super) fn number(value: f32) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The word that a plan uses for a value.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// A number with a noun.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, text) in [
            (0.0, "0"),
            (24.0, "24"),
            (100.0, "100"),
            (0.1875, "0.1875"),
            (370.80002, "370.8"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
