//! Work of threads, by the functions of their stacks.

/// The rows: function, and what a thread in it does.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = include_str!("frames.tsv").lines();
    let rows = rows.filter(|it| !it.starts_with('#'));
    rows.filter_map(|it| it.split_once('\t'))
}

/// What a thread does that has this frame in its stack; `None`: the function is in no table.
pub fn doing(frame: &str) -> Option<&'static str> {
    let is_word = |it: &u8| it.is_ascii_alphanumeric() || *it == b'_';
    let mut found = rows().filter(|(function, _)| {
        frame.match_indices(function).any(|(at, _)| {
            let (before, after) = (
                &frame.as_bytes()[..at],
                &frame.as_bytes()[at + function.len()..],
            );
            !before.last().is_some_and(is_word) && !after.first().is_some_and(is_word)
        })
    });
    found.next().map(|it| it.1)
}

/// The functions of all rows.
pub fn functions() -> impl Iterator<Item = &'static str> {
    rows().map(|it| it.0)
}
