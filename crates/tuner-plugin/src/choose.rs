//! The choice for an operation: which communicator of a file it is, and what that has for the size.
//!
//! NCCL tells a tuner the number of nodes and ranks, not the GPUs. All ranks of a communicator must
//! choose alike, so nothing that only one rank knows may decide. NCCL's own costs are equal on all
//! ranks and follow from the GPUs: where a file has several sets of GPUs of one size, those of
//! rings tell which it is.

use std::fmt;

use crate::names::{RING, SIMPLE};
use crate::table::{Choice, Communicator, Table};

/// A set whose rings cost more than this factor more or less is another set. Versions of NCCL
/// differ by less, and sets of other links by more.
const OTHER_SET: f32 = 2.2;

/// Sets whose rings cost the same within this factor cannot be told apart.
const SAME_SET: f32 = 1.01;

/// How much NCCL raises the latency of rings with Simple at most, between nodes and for pieces of
/// many bytes.
const MOST_LATENCY: f32 = 3.0;

/// An operation that NCCL asks about.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// NCCL's number of the collective.
    pub collective: u8,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Operations that are pipelined.
    pub operations: u32,
    /// NCCL's times by algorithm and protocol, µs; below 0 for what it does not consider.
    pub times: &'a [f32],
    /// Protocols in the table of times.
    pub protocols: usize,
}

impl Operation<'_> {
    /// NCCL's time of an algorithm and protocol, if it considers them.
    pub fn time(&self, algorithm: u8, protocol: u8) -> Option<f32> {
        let protocol = usize::from(protocol);
        if protocol >= self.protocols {
            return None;
        }
        let at = usize::from(algorithm) * self.protocols + protocol;
        self.times.get(at).copied().filter(|time| *time >= 0.0)
    }
}

/// Why NCCL keeps its own choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The file has no communicator of these nodes and ranks.
    NoCommunicator,
    /// The rings of this one cost something else than those of any set in the file.
    OtherGpus,
    /// Sets of equal costs have different choices.
    Ambiguous,
    /// The file has no choice for this collective and size.
    NoSize,
    /// NCCL does not consider the choice here.
    NotConsidered,
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCommunicator => "the file has no communicator of as many nodes and ranks",
            Self::OtherGpus => "NCCL's costs are not those of any GPU set in the file",
            Self::Ambiguous => "GPU sets of equal costs have different choices in the file",
            Self::NoSize => "the file has no choice for this collective and size",
            Self::NotConsidered => "NCCL does not consider the file's choice here",
        })
    }
}

/// How much the costs of a communicator differ from NCCL's, as a factor of at least 1; 1 if nothing
/// can be compared.
fn difference(communicator: &Communicator, operation: &Operation<'_>) -> f32 {
    let mut most = 1.0_f32;
    let costs = communicator.costs.iter();
    for cost in costs.filter(|it| it.collective == operation.collective) {
        let Some(time) = operation.time(RING, cost.protocol) else {
            continue;
        };
        let latency = cost.latency * operation.operations.max(1) as f32;
        let transfer = operation.bytes as f32 / (1000.0 * cost.bandwidth);
        let raised = match cost.protocol {
            SIMPLE => MOST_LATENCY,
            _ => 1.0,
        };
        let (least, longest) = (latency + transfer, raised * latency + transfer);
        if time > longest {
            most = most.max(time / longest);
        } else if time < least {
            most = most.max(least / time.max(f32::MIN_POSITIVE));
        }
    }
    most
}

impl Table {
    /// The communicators of these nodes and ranks, as indices.
    pub fn candidates(&self, nodes: u64, ranks: u64) -> Vec<usize> {
        let all = self.communicators.iter().enumerate();
        let those = all.filter(|(_, it)| (it.nodes, it.ranks) == (nodes, ranks));
        those.map(|(at, _)| at).collect()
    }

    /// The choice for an operation of one of these communicators.
    ///
    /// # Errors
    /// NCCL keeps its own choice.
    pub fn choose(&self, candidates: &[usize], operation: &Operation<'_>) -> Result<Choice, Own> {
        let communicators = || {
            candidates
                .iter()
                .filter_map(|at| self.communicators.get(*at))
        };
        if communicators().next().is_none() {
            return Err(Own::NoCommunicator);
        }
        let differences = communicators().map(|it| difference(it, operation));
        let nearest = differences.fold(f32::INFINITY, f32::min);
        if nearest > OTHER_SET {
            return Err(Own::OtherGpus);
        }
        let near = communicators().filter(|it| difference(it, operation) <= nearest * SAME_SET);
        let choice = one_choice(near, operation.collective, operation.bytes)?;
        match operation.time(choice.algorithm, choice.protocol) {
            Some(_) => Ok(choice),
            None => Err(Own::NotConsidered),
        }
    }

    /// The largest chunk for an operation of one of these communicators, bytes, if all that take
    /// this algorithm and protocol agree on one.
    pub fn chunk(
        &self,
        candidates: &[usize],
        collective: u8,
        bytes: u64,
        taken: (u8, u8),
    ) -> Option<u32> {
        let communicators = candidates
            .iter()
            .filter_map(|at| self.communicators.get(*at));
        let choices = communicators.filter_map(|it| it.choice(collective, bytes));
        let mut chunks = choices
            .filter(|it| (it.algorithm, it.protocol) == taken)
            .map(|it| it.chunk);
        let first = chunks.next()??;
        chunks.all(|it| it == Some(first)).then_some(first)
    }
}

/// The choice on which all communicators agree.
fn one_choice<'a>(
    mut all: impl Iterator<Item = &'a Communicator>,
    collective: u8,
    bytes: u64,
) -> Result<Choice, Own> {
    let values = |it: &Choice| (it.algorithm, it.protocol, it.channels, it.chunk);
    let first = all.next().and_then(|it| it.choice(collective, bytes));
    for other in all {
        if other.choice(collective, bytes).map(values) != first.map(values) {
            return Err(Own::Ambiguous);
        }
    }
    first.copied().ok_or(Own::NoSize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of four GPUs: rings of 100 GB/s and of 50.
    const TEXT: &str = "topo-tuner 1\n\
                        communicator nodes 1 ranks 4\n\
                        cost all-reduce ll 5 10\n\
                        cost all-reduce simple 20 100\n\
                        choose all-reduce 0 max ring simple\n\
                        communicator nodes 1 ranks 4\n\
                        cost all-reduce ll 5 10\n\
                        cost all-reduce simple 20 50\n\
                        choose all-reduce 0 999 ring simple\n\
                        choose all-reduce 1000 max ring ll\n\
                        end\n";

    fn choose(bytes: u64, ring: [f32; 3]) -> Result<u8, Own> {
        let table = Table::parse(TEXT).unwrap();
        let times: Vec<f32> = [-1.0; 3].into_iter().chain(ring).collect();
        let operation = Operation {
            collective: 4,
            bytes,
            operations: 1,
            times: &times,
            protocols: 3,
        };
        let candidates = table.candidates(1, 4);
        table.choose(&candidates, &operation).map(|it| it.protocol)
    }

    #[test]
    fn costs_tell_gpu_sets_apart() {
        let bytes = 100_000_000;
        assert_eq!(choose(bytes, [10_005.0, -1.0, 1020.0]), Ok(2));
        // NCCL raised the latency.
        assert_eq!(choose(bytes, [10_005.0, -1.0, 1050.0]), Ok(2));
        assert_eq!(choose(bytes, [10_005.0, -1.0, 2020.0]), Ok(0));
        assert_eq!(choose(bytes, [10_005.0, -1.0, 9000.0]), Err(Own::OtherGpus));
    }

    #[test]
    fn sets_of_equal_costs_must_agree() {
        assert_eq!(choose(100, [5.01, -1.0, 20.0]), Ok(2));
        assert_eq!(choose(1000, [5.1, -1.0, 20.015]), Err(Own::Ambiguous));
    }

    #[test]
    fn what_nccl_does_not_consider_is_not_chosen() {
        assert_eq!(choose(100, [5.01, -1.0, -1.0]), Err(Own::NotConsidered));
        assert_eq!(choose(100, [-1.0; 3]), Err(Own::NotConsidered));
    }
}
