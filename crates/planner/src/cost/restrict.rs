//! `NCCL_ALGO`, `NCCL_PROTO` and `NCCL_SYM_KERNEL`: which algorithms, protocols and kernels for
//! windows the user allows.
//!
//! Entries are separated by `;`, each an optional collective with `:`, then names separated by `,`.
//! Without `^` only the named ones are allowed, with `^` in front of the names all others. Later
//! entries override earlier ones; an entry without collective means all of them and must be the
//! first. Empty pieces are skipped, as C's `strtok` skips them.

use plan::Algorithm;
use plan::cost::WindowKernel;
use program::{Collective, Protocol};

/// Names less alike than this are not offered.
const LIKENESS: f64 = 0.7;

/// A text that NCCL refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}=\"{text}\", character {position}: {problem}")]
pub struct RestrictError {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub text: String,
    /// Where, counted in characters from 1.
    pub position: usize,
    /// What is there, and what was expected.
    pub problem: String,
}

/// What one variable says about `N` names, per collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restriction<const N: usize> {
    allowed: [[Option<bool>; N]; Collective::TUNED.len()],
    /// The collectives for which a name is listed.
    named: [bool; Collective::TUNED.len()],
    /// The text is not empty.
    given: bool,
}

impl<const N: usize> Default for Restriction<N> {
    fn default() -> Self {
        Self {
            allowed: [[None; N]; Collective::TUNED.len()],
            named: [false; Collective::TUNED.len()],
            given: false,
        }
    }
}

impl<const N: usize> Restriction<N> {
    /// `Some(true)` if the user allows it, `Some(false)` if the user excludes it, `None` if the
    /// user does not mention it.
    fn get(&self, collective: Collective, index: usize) -> Option<bool> {
        self.allowed
            .get(collective as usize)?
            .get(index)
            .copied()
            .flatten()
    }

    /// Whether the text lists a name for a collective.
    pub fn names(&self, collective: Collective) -> bool {
        let named = self.named.get(collective as usize);
        named.is_some_and(|named| *named)
    }

    /// Whether there is a text that is not empty.
    pub const fn is_given(&self) -> bool {
        self.given
    }
}

impl Restriction<7> {
    /// Reads `NCCL_ALGO`.
    ///
    /// # Errors
    /// NCCL refuses the text.
    pub fn algorithms(text: &str) -> Result<Self, RestrictError> {
        parse(
            "NCCL_ALGO",
            "algorithm",
            text,
            Algorithm::ALL.map(Algorithm::name),
        )
    }

    /// What the user says of an algorithm.
    pub fn algorithm(&self, collective: Collective, algorithm: Algorithm) -> Option<bool> {
        self.get(collective, algorithm as usize)
    }
}

impl Restriction<3> {
    /// Reads `NCCL_PROTO`.
    ///
    /// # Errors
    /// NCCL refuses the text.
    pub fn protocols(text: &str) -> Result<Self, RestrictError> {
        parse(
            "NCCL_PROTO",
            "protocol",
            text,
            Protocol::ALL.map(Protocol::name),
        )
    }

    /// What the user says of a protocol.
    pub fn protocol(&self, collective: Collective, protocol: Protocol) -> Option<bool> {
        self.get(collective, protocol as usize)
    }
}

/// The kernels for symmetric windows, in NCCL's order; the last of each collective cross the
/// network.
const KERNELS: [&str; 18] = [
    "AllReduce_AGxLL_R",
    "AllReduce_AGxLLMC_R",
    "AllReduce_RSxTmaLD_AGxTmaST",
    "AllReduce_RSxLD_AGxST",
    "AllReduce_RSxLDMC_AGxSTMC",
    "AllGather_LL",
    "AllGather_LLMC",
    "AllGather_TmaST",
    "AllGather_ST",
    "AllGather_TmaSTMC",
    "AllGather_STMC",
    "AllGather_RailRing_LsaSTMC",
    "ReduceScatter_LL",
    "ReduceScatter_TmaLD",
    "ReduceScatter_LD",
    "ReduceScatter_LDMC",
    "ReduceScatter_RailA2A_LsaLD",
    "ReduceScatter_RailA2A_LsaLDMC",
];

impl Restriction<18> {
    /// Reads `NCCL_SYM_KERNEL` as NCCL 2.31 does.
    ///
    /// # Errors
    /// NCCL refuses the text.
    pub fn kernels(text: &str) -> Result<Self, RestrictError> {
        parse("NCCL_SYM_KERNEL", "kernel", text, KERNELS)
    }

    /// What the user says of a kernel.
    pub fn kernel(&self, kernel: WindowKernel) -> Option<bool> {
        let index = position_of(KERNELS, kernel.name())?;
        self.get(kernel.collective(), index)
    }
}

/// The pieces between separators that are not empty, each with its place.
fn pieces(text: &str, start: usize, separator: char) -> impl Iterator<Item = (usize, &str)> {
    text.split(separator)
        .scan(start, move |at, piece| {
            let place = *at;
            *at += piece.len() + separator.len_utf8();
            Some((place, piece))
        })
        .filter(|(_, piece)| !piece.is_empty())
}

fn position_of<const N: usize>(names: [&str; N], name: &str) -> Option<usize> {
    names
        .iter()
        .position(|known| known.eq_ignore_ascii_case(name))
}

fn unknown<const N: usize>(found: &str, kind: &str, names: [&str; N]) -> String {
    let lower = found.to_ascii_lowercase();
    let near = names
        .into_iter()
        .map(|name| {
            (
                strsim::jaro_winkler(&lower, &name.to_ascii_lowercase()),
                name,
            )
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let expected = names.join(" ");
    match near {
        Some((_, near)) => {
            format!("`{found}` is no {kind}; did you mean {near}? Expected one of {expected}")
        }
        None => format!("`{found}` is no {kind}; expected one of {expected}"),
    }
}

fn parse<const N: usize>(
    variable: &'static str,
    kind: &'static str,
    text: &str,
    names: [&'static str; N],
) -> Result<Restriction<N>, RestrictError> {
    let error = |at: usize, problem: String| RestrictError {
        variable,
        text: text.to_owned(),
        position: text.get(..at).unwrap_or(text).chars().count() + 1,
        problem,
    };
    let functions = Collective::TUNED.map(Collective::name);
    let mut restriction = Restriction {
        given: !text.is_empty(),
        ..Restriction::default()
    };
    for (start, entry) in pieces(text, 0, ';') {
        let mut halves = pieces(entry, start, ':');
        let Some(first) = halves.next() else {
            return Err(error(
                start,
                format!("`{entry}` names no {kind}; expected some"),
            ));
        };
        let (function, (at, list)) = match halves.next() {
            Some(second) => (Some(first), second),
            // NCCL takes an entry for the first by its place, so a `;` in front makes it a later
            // one.
            None if start > 0 => {
                let problem = format!(
                    "`{entry}` has no collective; expected one of {} and `:` in every entry but the first",
                    functions.join(" ")
                );
                return Err(error(start, problem));
            }
            None => (None, first),
        };
        let selected = match function {
            None => 0..functions.len(),
            Some((at, name)) => {
                let index = position_of(functions, name)
                    .ok_or_else(|| error(at, unknown(name, "collective", functions)))?;
                index..index + 1
            }
        };
        let (at, list, listed) = match list.strip_prefix('^') {
            Some(rest) => (at + 1, rest, false),
            None => (at, list, true),
        };
        let mut row = [Some(!listed); N];
        let mut named = false;
        for (at, name) in pieces(list, at, ',') {
            match position_of(names, name).and_then(|index| row.get_mut(index)) {
                Some(slot) => (*slot, named) = (Some(listed), true),
                None => return Err(error(at, unknown(name, kind, names))),
            }
        }
        for index in selected {
            restriction.allowed[index] = row;
            restriction.named[index] |= named;
        }
    }
    Ok(restriction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(text: &str, collective: Collective) -> Vec<&'static str> {
        let restriction = Restriction::algorithms(text).unwrap_or_default();
        Algorithm::ALL
            .into_iter()
            .filter(|algorithm| restriction.algorithm(collective, *algorithm) == Some(true))
            .map(Algorithm::name)
            .collect()
    }

    #[test]
    fn lists() {
        use Collective::{AllReduce, Broadcast};
        let others = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "PAT"];
        assert_eq!(allowed("ring", AllReduce), ["Ring"]);
        assert_eq!(allowed("^nvls,NVLSTree", AllReduce), others);
        assert_eq!(
            allowed("ring;allreduce:tree,,nvls", AllReduce),
            ["Tree", "NVLS"]
        );
        assert_eq!(allowed("ring;allreduce:tree", Broadcast), ["Ring"]);
        assert_eq!(
            allowed("allreduce:tree;;broadcast:ring;", Broadcast),
            ["Ring"]
        );
        assert_eq!(allowed("allreduce:tree", Broadcast), [""; 0]);
        assert_eq!(allowed("^", AllReduce).len(), 7);
        assert_eq!(allowed("", AllReduce), [""; 0]);
    }

    #[test]
    fn untouched_collectives_stay_open() {
        let restriction = Restriction::algorithms("allreduce:tree").unwrap_or_default();
        assert_eq!(
            restriction.algorithm(Collective::Reduce, Algorithm::Ring),
            None
        );
        assert_eq!(
            restriction.algorithm(Collective::AllReduce, Algorithm::Ring),
            Some(false)
        );
    }

    #[test]
    fn refusals_name_the_place() {
        let algorithms = "Tree Ring CollNetDirect CollNetChain NVLS NVLSTree PAT";
        let functions = "Broadcast Reduce AllGather ReduceScatter AllReduce";
        for (text, expected) in [
            (
                "tree,rang",
                format!(
                    "NCCL_ALGO=\"tree,rang\", character 6: `rang` is no algorithm; did you mean Ring? Expected one of \
                     {algorithms}"
                ),
            ),
            (
                "allreduce:tree;ring",
                format!(
                    "NCCL_ALGO=\"allreduce:tree;ring\", character 16: `ring` has no collective; expected one of \
                     {functions} and `:` in every entry but the first"
                ),
            ),
            (
                "xyz:tree",
                format!(
                    "NCCL_ALGO=\"xyz:tree\", character 1: `xyz` is no collective; expected one of {functions}"
                ),
            ),
            (
                "^ring,^tree",
                format!(
                    "NCCL_ALGO=\"^ring,^tree\", character 7: `^tree` is no algorithm; did you mean Tree? Expected one \
                     of {algorithms}"
                ),
            ),
            (
                " ring",
                format!(
                    "NCCL_ALGO=\" ring\", character 1: ` ring` is no algorithm; did you mean Ring? Expected one of \
                     {algorithms}"
                ),
            ),
            (
                ":",
                "NCCL_ALGO=\":\", character 1: `:` names no algorithm; expected some".to_owned(),
            ),
        ] {
            let error = Restriction::algorithms(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(expected));
        }
        assert!(Restriction::algorithms(";ring").is_err());
        assert!(Restriction::protocols("LL,Simple").is_ok());
        assert!(Restriction::protocols("LL;äöü").is_err());
    }
}
