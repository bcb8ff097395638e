//! Suggestions for a mistyped name.

/// Less alike than this is another word, not a typing error.
const LIKENESS: f64 = 0.7;

/// The candidates most like `text`, best first, at most `most`.
pub fn nearest<'a>(
    text: &str,
    candidates: impl Iterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let lower = text.to_lowercase();
    let mut alike: Vec<(f64, &str)> = candidates
        .map(|candidate| (likeness(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    // Stable: among equals the order of the candidates stays.
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.truncate(most);
    alike.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Swapped letters count as one error; a common beginning counts more.
fn likeness(a: &str, b: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(a, b).max(strsim::jaro_winkler(a, b) - 0.1)
}

/// ` (did you mean A, B or C?)`, or nothing.
pub fn question(suggestions: &[impl AsRef<str>]) -> String {
    let suggestions: Vec<&str> = suggestions.iter().map(AsRef::as_ref).collect();
    match suggestions.as_slice() {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typing_errors_and_nothing_else() {
        let names = ["topology.xml", "origin.toml", "paths.txt"];
        assert_eq!(
            nearest("toplogy.xml", names.into_iter(), 1),
            ["topology.xml"]
        );
        assert!(nearest("readme", names.into_iter(), 1).is_empty());
    }

    #[test]
    fn asks_in_words() {
        assert_eq!(question(&[""; 0]), "");
        assert_eq!(
            question(&["GPU0", "GPU1", "GPU2"]),
            "; did you mean GPU0, GPU1 or GPU2?"
        );
    }
}
