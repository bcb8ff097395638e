//! Message sizes and collectives as people write them.

pub(crate) use answers::names::{algorithms, collective};
use program::Collective;
pub(crate) use program::size::{parse as size, short};

/// Most sizes of a command.
pub(crate) const MOST: usize = 10_000;

/// One size, or those from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    from: u64,
    to: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collectives(pub Vec<Collective>);

/// Reads `64K` or `1K..8G`.
pub(crate) fn sizes(text: &str) -> Result<Sizes, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (size(from)?, size(to)?);
    if from > to {
        return Err(format!(
            "{text}: the range ends before it begins; expected the smaller size first"
        ));
    }
    Ok(Sizes { from, to })
}

/// All sizes of a command, ascending, each once; a range grows by `factor`.
pub(crate) fn expand(given: &[Sizes], factor: u64) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    for range in given {
        let sizes = std::iter::successors(Some(range.from), |size| size.checked_mul(factor));
        all.extend(sizes.take_while(|size| *size <= range.to));
        if all.len() > MOST {
            return Err(format!(
                "more than {MOST} sizes; expected fewer (a larger --factor)"
            ));
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// All collectives of several lists, each once.
pub(crate) fn each_once(given: &[Collectives]) -> Vec<Collective> {
    let mut all: Vec<Collective> = Vec::new();
    for collective in given.iter().flat_map(|given| &given.0) {
        if !all.contains(collective) {
            all.push(*collective);
        }
    }
    all
}

/// Reads `all-reduce`, `AllReduce` or `all`.
pub(crate) fn collectives(text: &str) -> Result<Collectives, String> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Collectives(Collective::TUNED.into_iter().rev().collect()));
    }
    let one = collective(text).map_err(|problem| problem + ", or all")?;
    Ok(Collectives(vec![one]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_by_the_factor() {
        let expand = |texts: &[&str], factor| {
            let sizes: Vec<Sizes> = texts.iter().map(|text| sizes(text).unwrap()).collect();
            super::expand(&sizes, factor)
        };
        assert_eq!(
            expand(&["1K..5K", "2K", "7"], 2),
            Ok(vec![7, 1024, 2048, 4096])
        );
        assert_eq!(expand(&["1K..1M"], 32), Ok(vec![1024, 32768, 1 << 20]));
        assert!(sizes("2K..1K").is_err());
    }

    #[test]
    fn collectives_in_either_spelling() {
        for text in ["all-reduce", "AllReduce", "all_reduce", "ALLREDUCE"] {
            assert_eq!(
                collectives(text),
                Ok(Collectives(vec![Collective::AllReduce]))
            );
        }
        assert_eq!(collectives("all").map(|all| all.0.len()), Ok(5));
        assert!(
            collectives("all-reduse").is_err_and(|error| error.contains("did you mean all-reduce"))
        );
    }
}
