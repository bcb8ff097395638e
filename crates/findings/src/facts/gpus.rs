//! Versions of NCCL and the GPUs for which they have code.

/// Whether packages of a version, such as `2.26.2+cuda12.2`, have no code for a GPU of this name.
pub fn is_older(label: &str, name: &str) -> bool {
    let rows = include_str!("gpus.tsv").lines();
    let mut rows = rows
        .filter(|it| !it.starts_with('#'))
        .map(|it| it.split('\t'));
    let Some(mut row) = rows.find(|it| it.clone().next().is_some_and(|part| name.contains(part)))
    else {
        return false;
    };
    let (first, cuda) = (row.nth(2).unwrap_or(""), row.next().unwrap_or(""));
    let (own, built) = label.split_once("+cuda").unwrap_or((label, ""));
    let is_below = |one: &str, other: &str| !one.is_empty() && numbers(one) < numbers(other);
    is_below(own, first) || is_below(built, cuda)
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|it| it.parse().ok()).collect()
}
