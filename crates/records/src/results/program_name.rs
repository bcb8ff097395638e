//! The collective that a program runs.

use program::Collective;

use crate::results::values::Row;

/// The programs of nccl-tests, without `_perf`. Longer names stand before those they contain.
const PROGRAMS: [(&str, Option<Collective>); 12] = [
    ("all_reduce", Some(Collective::AllReduce)),
    ("all_gather", Some(Collective::AllGather)),
    ("reduce_scatter", Some(Collective::ReduceScatter)),
    ("broadcast", Some(Collective::Broadcast)),
    ("reduce", Some(Collective::Reduce)),
    ("alltoallv", None),
    ("alltoall", Some(Collective::AllToAll)),
    ("gather", Some(Collective::Gather)),
    ("scatter", Some(Collective::Scatter)),
    ("sendrecv", Some(Collective::SendRecv)),
    ("hypercube", None),
    ("all_to_all", Some(Collective::AllToAll)),
];

/// The least ratio of bus bandwidth to algorithm bandwidth: an all-gather of two ranks has 0.5.
const LEAST_RATIO: f64 = 0.49;

/// The end of a program's name.
const END: &str = "_perf";

/// The program that a text names, such as `./build/all_reduce_perf`, and its collective.
pub fn in_text(text: &str) -> Option<(String, Option<Collective>)> {
    let mut rest = text;
    while let Some(at) = rest.find(END) {
        let before = &rest[..at];
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let from = before.rfind(|it| !is_name(it));
        let name = from.map_or(before, |from| {
            before[from..].trim_start_matches(|it| !is_name(it))
        });
        if let Some((known, collective)) = PROGRAMS.iter().find(|(known, _)| *known == name) {
            return Some((format!("{known}{END}"), *collective));
        }
        rest = &rest[at + END.len()..];
    }
    None
}

/// The collective that a word names, as a program (`all_reduce_perf`) or otherwise (`AllReduce`,
/// `all-reduce`).
pub(crate) fn of_word(word: &str) -> Option<Collective> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
    let word = plain(word.strip_suffix(END).unwrap_or(word));
    let known = PROGRAMS.iter().find(|it| plain(it.0) == word)?;
    known.1
}

/// The program of nccl-tests that runs a collective.
pub fn of_collective(collective: Collective) -> Option<String> {
    let known = PROGRAMS.iter().find(|it| it.1 == Some(collective))?;
    Some(format!("{}{END}", known.0))
}

/// The collective whose columns and bandwidths a table has: a reduction, a root, and the ratio of
/// bus bandwidth to algorithm bandwidth.
pub fn guess(rows: &[Row], ranks: Option<u32>) -> Option<Collective> {
    let row = rows.last()?;
    let largest = rows.iter().filter_map(Row::measured);
    let largest = largest.max_by(|a, b| a.algorithm_gbps.total_cmp(&b.algorithm_gbps))?;
    if largest.algorithm_gbps < 0.1 {
        return None;
    }
    let ratio = largest.bus_gbps / largest.algorithm_gbps;
    if ratio < LEAST_RATIO {
        return None;
    }
    let is_whole = (ratio - 1.0).abs() < 0.01;
    let two_ranks = ranks == Some(2);
    Some(match (row.reduction.is_some(), row.root.is_some()) {
        (true, true) => Collective::Reduce,
        (true, false) if ratio > 1.01 || (is_whole && two_ranks) => Collective::AllReduce,
        (true, false) if ratio < 0.99 => Collective::ReduceScatter,
        (false, true) if is_whole => Collective::Broadcast,
        (false, false) if ratio < 0.99 => Collective::AllGather,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_commands() {
        let found = |text| in_text(text).map(|(name, _)| name);
        assert_eq!(
            found("+ srun ./build/all_reduce_perf -b 8").as_deref(),
            Some("all_reduce_perf")
        );
        assert_eq!(
            found("reduce_scatter_perf").as_deref(),
            Some("reduce_scatter_perf")
        );
        assert_eq!(
            found("my_perf gather_perf -g 8").as_deref(),
            Some("gather_perf")
        );
        assert_eq!(found("_perf"), None);
        assert_eq!(
            in_text("hypercube_perf"),
            Some(("hypercube_perf".to_owned(), None))
        );
    }
}
