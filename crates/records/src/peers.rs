//! `nvidia-smi topo -p2p r`: which GPUs may access each other's memory.

use std::collections::BTreeMap;

use crate::matrix::{MOST, header};
use crate::text::has;

/// Whether a GPU may access another one's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The GPU itself.
    Itself,
    /// It may.
    Granted,
    /// It may not, for this reason in nvidia-smi's words.
    Refused(&'static str),
    /// Nobody says.
    Unknown,
}

impl Access {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "X" => Self::Itself,
            "OK" => Self::Granted,
            "CNS" => Self::Refused("chipset not supported"),
            "GNS" => Self::Refused("GPU not supported"),
            "TNS" => Self::Refused("topology not supported"),
            "DR" => Self::Refused("disabled by a setting of the driver"),
            "NS" => Self::Refused("not supported"),
            "U" => Self::Unknown,
            _ => return None,
        })
    }
}

/// A matrix of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// The GPUs' names, such as `GPU0`, in the order of rows and columns.
    pub gpus: Vec<String>,
    /// GPUs × GPUs.
    pub access: Vec<Vec<Access>>,
}

impl Peers {
    /// The numbers of GPUs of which the first may not access the memory of the second.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let number = |at: usize| self.gpus.get(at)?.strip_prefix("GPU")?.parse().ok();
        self.access.iter().enumerate().flat_map(move |(one, row)| {
            let refused = row.iter().enumerate();
            let refused = refused.filter(|(_, it)| matches!(it, Access::Refused(_)));
            refused.filter_map(move |(other, _)| number(one).zip(number(other)))
        })
    }

    /// Pairs that are refused, once each: places of both GPUs, and why.
    pub fn refused(&self) -> impl Iterator<Item = (usize, usize, &'static str)> + '_ {
        self.access.iter().enumerate().flat_map(|(one, row)| {
            let later = row.iter().enumerate().skip(one + 1);
            later.filter_map(move |(other, access)| match access {
                Access::Refused(why) => Some((one, other, *why)),
                _ => None,
            })
        })
    }
}

/// The matrix of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct PeersReader {
    names: Vec<String>,
    rows: Vec<Vec<Access>>,
    /// Pairs of which a sample of CUDA says whether they may.
    pairs: BTreeMap<(usize, usize), bool>,
}

impl PeersReader {
    /// Whether a line is a row of the matrix. Its header could be that of another matrix.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if self.rows.len() == self.names.len() && !self.rows.is_empty() {
            return false;
        }
        if let Some((pair, may)) = pair_of_cuda(line) {
            self.pairs.insert(pair, may);
            return true;
        }
        if let Some(row) = self.row(line) {
            self.rows.push(row);
            return true;
        }
        if has(line, "GPU0") {
            let names = header(line);
            if !names.is_empty() {
                *self = Self {
                    names,
                    rows: Vec::new(),
                    pairs: std::mem::take(&mut self.pairs),
                };
            }
        }
        false
    }

    fn row(&self, line: &str) -> Option<Vec<Access>> {
        let wanted = self.names.get(self.rows.len())?;
        let mut cells = line.split_whitespace();
        if cells.next()? != wanted {
            return None;
        }
        let row: Option<Vec<Access>> = cells.map(Access::read).collect();
        // A row of `X` alone is that of any matrix.
        row.filter(|it| it.len() == self.names.len() && it.len() > 1)
    }

    /// The matrix; what CUDA says of pairs only if CUDA numbers GPUs as nvidia-smi does.
    pub(crate) fn finish(self, is_numbered: bool) -> Option<Peers> {
        if self.rows.len() == self.names.len() && !self.rows.is_empty() {
            return Some(Peers {
                gpus: self.names,
                access: self.rows,
            });
        }
        let last = self.pairs.keys().map(|it| it.0.max(it.1)).max()?;
        let access = |one: usize, other: usize| match self.pairs.get(&(one, other)) {
            _ if one == other => Access::Itself,
            Some(true) => Access::Granted,
            Some(false) => Access::Refused("CUDA reports no access"),
            None => Access::Unknown,
        };
        let row = |one| (0..=last).map(|other| access(one, other)).collect();
        is_numbered.then(|| Peers {
            gpus: (0..=last).map(|gpu| format!("GPU{gpu}")).collect(),
            access: (0..=last).map(row).collect(),
        })
    }
}

/// `Device=0 CANNOT Access Peer Device=1` of p2pBandwidthLatencyTest, or `> Peer access from NAME
/// (GPU0) -> NAME (GPU1) : No` of simpleP2P.
fn pair_of_cuda(line: &str) -> Option<((usize, usize), bool)> {
    let number = |text: &str| text.trim().parse().ok().filter(|it: &usize| *it < MOST);
    let (one, other, may) = if let Some(rest) = line.trim().strip_prefix("Device=") {
        let (one, rest) = rest.split_once(" CAN")?;
        let (not, other) = rest.split_once(" Access Peer Device=")?;
        (number(one)?, number(other)?, not.is_empty())
    } else {
        let is_pair = has(line, "Peer access from ");
        let (_, rest) = is_pair.then(|| line.split_once("Peer access from "))??;
        let (one, rest) = rest.split_once(" -> ")?;
        let (other, may) = rest.rsplit_once(" : ")?;
        let gpu = |text: &str| number(text.rsplit_once("(GPU")?.1.strip_suffix(')')?);
        (gpu(one)?, gpu(other)?, may.trim() == "Yes")
    };
    Some(((one, other), may))
}
