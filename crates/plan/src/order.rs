//! Rank orders: which rank runs on which GPU, if ranks do not count host after host.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most ranks of a job with an order of its own; the order takes memory for each.
pub const MAX_ORDERED_RANKS: u32 = 1 << 24;

/// The slot of each rank. A slot is the number of a GPU, counted host after host by device number:
/// its rank without an order. Consecutive slots at equal distances are one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RankOrder(Vec<SlotRun>);

/// Slots at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SlotRun {
    /// The first slot.
    first: u32,
    /// How many slots.
    count: u32,
    /// From one slot to the next; may be negative.
    step: i64,
}

/// A rank order that does not fit the job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Too few or too many ranks.
    #[error(
        "the rank order has {found} entries, but the job has {ranks} ranks; name each GPU of the job once"
    )]
    Length {
        /// Entries.
        found: u64,
        /// Ranks of the job.
        ranks: u32,
    },
    /// The job has no such GPU.
    #[error("the rank order gives rank {rank} GPU {slot}, but the job has GPUs 0 to {last}")]
    OutOfRange {
        /// The rank.
        rank: u32,
        /// The slot.
        slot: i64,
        /// The last slot.
        last: u32,
    },
    /// Two ranks have the same GPU, so that another has none.
    #[error(
        "the rank order names GPU {slot} twice, for ranks {first} and {second}; GPU {missing} has no rank"
    )]
    Repeated {
        /// The slot.
        slot: u32,
        /// The first rank.
        first: u32,
        /// The second rank.
        second: u32,
        /// The first slot without a rank.
        missing: u32,
    },
    /// The job has too many ranks for an order.
    #[error(
        "a job of {ranks} ranks cannot have a rank order of its own; at most {MAX_ORDERED_RANKS} can"
    )]
    TooManyRanks {
        /// Ranks of the job.
        ranks: u32,
    },
}

impl RankOrder {
    /// Creates an order from the slot of each rank.
    pub fn new(slots: impl IntoIterator<Item = u32>) -> Self {
        let mut runs: Vec<SlotRun> = Vec::new();
        for slot in slots {
            if let Some(run) = runs.last_mut() {
                let last = i64::from(run.first) + i64::from(run.count - 1) * run.step;
                let step = i64::from(slot) - last;
                if run.count == 1 || step == run.step {
                    run.step = step;
                    run.count += 1;
                    continue;
                }
            }
            runs.push(SlotRun {
                first: slot,
                count: 1,
                step: 1,
            });
        }
        Self(runs)
    }

    /// Assigns ranks to the machines in turn: the first GPU of each, then the second of each, and
    /// so on. `machines` are (GPUs of a machine, number of such machines in a row).
    pub fn round_robin(machines: &[(u32, u32)]) -> Self {
        let most = machines.iter().map(|(gpus, _)| *gpus).max().unwrap_or(0);
        Self::new((0..most).flat_map(|gpu| {
            let mut next = 0;
            machines.iter().flat_map(move |(gpus, count)| {
                let (gpus, first) = (*gpus, next);
                next += gpus * count;
                (0..*count)
                    .filter_map(move |copy| (gpu < gpus).then_some(first + copy * gpus + gpu))
            })
        }))
    }

    /// Whether ranks count host after host.
    pub fn is_plain(&self) -> bool {
        match self.0.as_slice() {
            [run] => run.first == 0 && (run.step == 1 || run.count == 1),
            _ => false,
        }
    }

    /// Checks that the order has as many entries as the job has ranks.
    ///
    /// # Errors
    /// It has more or fewer entries.
    pub fn check_length(&self, ranks: u32) -> Result<(), OrderError> {
        let found = self.0.iter().map(|run| u64::from(run.count)).sum();
        if found == u64::from(ranks) {
            Ok(())
        } else {
            Err(OrderError::Length { found, ranks })
        }
    }

    /// The slot of each rank.
    ///
    /// # Errors
    /// The order does not give each of the job's ranks a GPU of its own.
    pub fn slots(&self, ranks: u32) -> Result<Vec<u32>, OrderError> {
        if ranks > MAX_ORDERED_RANKS {
            return Err(OrderError::TooManyRanks { ranks });
        }
        self.check_length(ranks)?;
        let mut slots: Vec<u32> = Vec::with_capacity(ranks as usize);
        let mut rank_of = vec![u32::MAX; ranks as usize];
        let mut repeated = None;
        for run in &self.0 {
            for index in 0..run.count {
                let rank = slots.len() as u32;
                // A file may contain any step.
                let slot = i64::from(index)
                    .saturating_mul(run.step)
                    .saturating_add(i64::from(run.first));
                let place = usize::try_from(slot)
                    .ok()
                    .and_then(|at| rank_of.get_mut(at));
                let Some(place) = place else {
                    let last = ranks - 1;
                    return Err(OrderError::OutOfRange { rank, slot, last });
                };
                if *place != u32::MAX {
                    repeated.get_or_insert((slot as u32, *place, rank));
                }
                *place = rank;
                slots.push(slot as u32);
            }
        }
        match repeated {
            Some((slot, first, second)) => {
                let missing = rank_of.iter().position(|rank| *rank == u32::MAX);
                Err(OrderError::Repeated {
                    slot,
                    first,
                    second,
                    missing: missing.unwrap_or(0) as u32,
                })
            }
            None => Ok(slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_steps_are_one_run() {
        let dealt = RankOrder::round_robin(&[(8, 4)]);
        assert_eq!(dealt.0.len(), 8);
        assert_eq!(
            dealt.slots(32).map(|slots| slots[..5].to_vec()),
            Ok(vec![0, 8, 16, 24, 1])
        );
        let down = RankOrder::new((0..6).rev());
        assert_eq!(down.0.len(), 1);
        assert_eq!(down.slots(6), Ok(vec![5, 4, 3, 2, 1, 0]));
        assert!(RankOrder::new(0..100).is_plain() && RankOrder::new([0]).is_plain());
        assert!(!down.is_plain());
    }

    #[test]
    fn machines_without_another_gpu_are_left_out() {
        let dealt = RankOrder::round_robin(&[(2, 1), (1, 2), (3, 1)]);
        assert_eq!(dealt.slots(7), Ok(vec![0, 2, 3, 4, 1, 5, 6]));
    }

    #[test]
    fn orders_that_do_not_fit() {
        let slots = |slots: &[u32], ranks| RankOrder::new(slots.iter().copied()).slots(ranks);
        assert_eq!(
            slots(&[1, 0], 3),
            Err(OrderError::Length { found: 2, ranks: 3 })
        );
        assert_eq!(
            slots(&[0, 3, 1], 3),
            Err(OrderError::OutOfRange {
                rank: 1,
                slot: 3,
                last: 2
            })
        );
        assert_eq!(
            slots(&[0, 2, 2], 3),
            Err(OrderError::Repeated {
                slot: 2,
                first: 1,
                second: 2,
                missing: 1
            })
        );
        let distant = RankOrder(vec![SlotRun {
            first: 1,
            count: 2,
            step: i64::MAX,
        }]);
        assert!(matches!(
            distant.slots(2),
            Err(OrderError::OutOfRange { rank: 1, .. })
        ));
    }
}
