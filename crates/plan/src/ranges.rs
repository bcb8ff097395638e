//! Numbers as text.

/// A list as text, runs shortened: `0-3 6`.
pub fn ranges(numbers: &[i32], separator: &str) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let texts = runs.map(|run| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few
            .iter()
            .map(i32::to_string)
            .collect::<Vec<_>>()
            .join(separator),
    });
    texts.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shortened() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6, 8, 9], " "), "0-3 6 8 9");
        assert_eq!(
            ranges(&[i32::MAX, i32::MIN], ","),
            format!("{},{}", i32::MAX, i32::MIN)
        );
    }
}
