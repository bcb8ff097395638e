//! Numbers and lists as people read them.

pub use plan::ranges;
pub use planner::explain::{count, gbps};
pub use program::size::short;

/// A value, or a dash.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

/// µs with as many digits as matter.
pub fn microseconds(time: f64) -> String {
    let digits = match time {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{time:.digits$}")
}

/// A time in ms with as many digits as matter.
pub fn milliseconds(us: f64) -> String {
    let value = us / 1e3;
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// How much more something is, as a share of 1: `+12 %`, `-3.1 %`, or `×17` from ten times on.
pub fn percent(more: f64) -> String {
    match more * 100.0 {
        percent if percent.abs() < 0.05 => "±0 %".to_owned(),
        900.0.. => format!("×{:.0}", more + 1.0),
        percent if percent.abs() >= 10.0 => format!("{percent:+.0} %"),
        percent => format!("{percent:+.1} %"),
    }
}

/// The members of each key, in the order of the first of each.
pub fn group<K: PartialEq, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, member) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(member),
            None => groups.push((key, vec![member])),
        }
    }
    groups
}
