//! Codes in texts: results of CUDA and HIP, statuses of completions, Xids.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Said;

/// A code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A result of CUDA or HIP.
    Cuda(u32),
    /// The status of an InfiniBand completion.
    Completion(u32),
    /// The number of an error that NVIDIA's driver reports.
    Xid(u32),
}

/// A number that no table has.
const UNKNOWN: u32 = u32::MAX;

impl Code {
    /// A code of the tables.
    pub(super) fn of(kind: &str, number: &str) -> Option<Self> {
        let number = match number {
            "{#}" => UNKNOWN,
            _ => number.parse().ok()?,
        };
        Some(match kind {
            "cuda" => Self::Cuda(number),
            "wc" => Self::Completion(number),
            "xid" => Self::Xid(number),
            _ => return None,
        })
    }

    /// Its kind, and its number if that is known.
    pub fn parts(self) -> (&'static str, Option<u32>) {
        let (kind, number) = match self {
            Self::Cuda(number) => ("cuda", number),
            Self::Completion(number) => ("completion", number),
            Self::Xid(number) => ("xid", number),
        };
        (kind, (number != UNKNOWN).then_some(number))
    }

    /// Any code of its kind.
    pub(super) const fn unknown(self) -> Self {
        match self {
            Self::Cuda(_) => Self::Cuda(UNKNOWN),
            Self::Completion(_) => Self::Completion(UNKNOWN),
            Self::Xid(_) => Self::Xid(UNKNOWN),
        }
    }
}

/// Words before codes.
pub(super) const WORDS: [&str; 9] = [
    "Xid (",
    "CUDA error",
    "CUDA failure",
    "Cuda failure",
    "HIP failure",
    "HIP error",
    "CUDA_ERROR_",
    "cudaError",
    "hipError",
];

/// The names and texts of CUDA's results.
static CUDA: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for row in include_str!("cuda.tsv").lines() {
        let mut columns = row.split('\t');
        let Some(Ok(number)) = columns.next().map(str::parse) else {
            continue;
        };
        all.extend(columns.filter(|it| !it.is_empty()).map(|it| (it, number)));
    }
    all
});

/// The code of a text.
pub(super) fn read(said: &Said<'_>) -> Option<Code> {
    let text = said.text;
    if let Some(xid) = xid(text) {
        return Some(Code::Xid(xid));
    }
    if said.is_warning && text.contains("ompletion") {
        return completion(text).map(Code::Completion);
    }
    cuda(text).map(Code::Cuda)
}

/// `NVRM: Xid (PCI:0000:1b:00): 79, pid=7, ...`. One that follows an earlier one names that.
fn xid(text: &str) -> Option<u32> {
    let rest = text.split_once("Xid (")?.1.split_once("): ")?.1;
    let own = number(rest)?;
    let earlier = rest.split_once("previous Xid ").and_then(|it| number(it.1));
    Some(earlier.unwrap_or(own))
}

/// `status=12`, `status=IBV_WC_RETRY_EXC_ERR(12)`, `with error 12,`.
fn completion(text: &str) -> Option<u32> {
    let status = text
        .split_once("status=")
        .or_else(|| text.split_once("status is "));
    let (_, rest) = status.or_else(|| text.split_once("with error "))?;
    let name = rest.trim_start_matches(|it: char| it.is_ascii_uppercase() || "_?".contains(it));
    number(name.strip_prefix('(').unwrap_or(name))
}

/// `Cuda failure 1 'invalid argument'`, `CUDA error: out of memory`, `cudaErrorNoDevice`.
fn cuda(text: &str) -> Option<u32> {
    for word in [
        "uda failure ",
        "UDA failure ",
        "HIP failure ",
        "UDA error ",
        "UDA error: ",
        "HIP error: ",
    ] {
        let Some((_, rest)) = text.split_once(word) else {
            continue;
        };
        if let Some(number) = number(rest) {
            return Some(number);
        }
        // The place of nccl-tests may stand before the text.
        let quoted = rest.split_once('\'').map_or(rest, |it| it.1);
        let whole = quoted.split('\'').next().unwrap_or(quoted);
        let said = whole.split('(').next().unwrap_or(whole).trim();
        let known = |text: &str| CUDA.get(text).copied();
        let shorter = rest.split([';', '\n', '.', '(']).next().map(str::trim);
        return Some(
            known(whole.trim())
                .or_else(|| known(said))
                .or_else(|| known(shorter?))
                .or_else(|| name(rest))
                .unwrap_or(UNKNOWN),
        );
    }
    name(text)
}

/// The result whose name is in a text.
fn name(text: &str) -> Option<u32> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let starts = ["CUDA_ERROR_", "cudaError"].into_iter();
    let mut starts = starts.filter_map(|it| text.find(it));
    let rest = starts.next().map(|at| &text[at..])?;
    let end = rest.find(|it| !is_name(it)).unwrap_or(rest.len());
    CUDA.get(&rest[..end]).copied()
}

fn number(text: &str) -> Option<u32> {
    let end = text
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}
