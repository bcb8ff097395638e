//! Numbers and names in pictures.

/// Width of a character of labels, pixels: 0.6 of the font's 12 pixels, as monospaced fonts have.
pub const CHARACTER: f64 = 7.25;

/// Width of a character of small labels (10 pixels).
pub const SMALL_CHARACTER: f64 = 6.1;

/// A bandwidth with at most one decimal, GB/s.
pub fn gbps(value: f32) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None if value >= 100.0 => format!("{value:.0}"),
        None => text,
    }
}

/// A text with at most this many characters; a longer one ends with an ellipsis.
pub fn shorten(text: &str, longest: usize) -> String {
    match text.chars().count() > longest {
        true => text.chars().take(longest - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Text for XML and HTML. Control characters, which XML 1.0 forbids, are left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            it if it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}') => {}
            it => escaped.push(it),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names() {
        assert_eq!(gbps(48.0), "48");
        assert_eq!(gbps(20.6), "20.6");
        assert_eq!(gbps(370.8), "371");
        assert_eq!(shorten("mlx5_0+mlx5_1", 8), "mlx5_0+…");
        assert_eq!(escape("<a & \"b\">\u{1}"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
