//! The GPU of each rank.
//!
//! A GPU of the first host has its device number. The numbers of the next host begin behind the
//! largest device number of the file, whether the job uses all GPUs or not.

use plan::RankOrder;
use plan::order::MAX_ORDERED_RANKS;
use plan::ranges;
use planner::{EqualHosts, RankPlacement, gpu_devices};
use serde::Deserialize;

use crate::JsonSchema;
use crate::suggest;
use crate::values::numbers;

/// Hosts whose numbers an error names.
const SHOWN: u64 = 4;

/// The orders with a name.
const HOST: &str = "host";
const ROUND_ROBIN: &str = "round-robin";

/// An order of ranks, as a question names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected `host`, `round-robin` or a list of the GPU of each rank"
)]
pub enum AskedOrder {
    /// The GPU of each rank.
    Listed(Vec<u32>),
    /// A text: a name, a list, or `@FILE` where files can be read.
    Text(String),
}

impl Default for AskedOrder {
    fn default() -> Self {
        Self::Text(HOST.to_owned())
    }
}

impl AskedOrder {
    /// Reads a text.
    ///
    /// # Errors
    /// It is neither a name nor a list; a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if [HOST, ROUND_ROBIN].contains(&text) || text.starts_with('@') {
            return Ok(Self::Text(text.to_owned()));
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let near = suggest::nearest(text, [HOST, ROUND_ROBIN].into_iter(), 1);
            return Err(format!(
                "no such order (expected host, round-robin, a list such as 0,8,1,9, or @FILE){}",
                suggest::question(&near)
            ));
        }
        numbers(text, MAX_ORDERED_RANKS as usize).map(Self::Listed)
    }

    /// The file that holds the order.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.strip_prefix('@'),
            Self::Listed(_) => None,
        }
    }

    /// The order.
    ///
    /// # Errors
    /// The text is neither a name nor a list; a sentence.
    pub fn order(&self) -> Result<Order, String> {
        match self {
            Self::Listed(gpus) => Ok(Order::Listed(gpus.clone())),
            Self::Text(text) if text == HOST => Ok(Order::HostByHost),
            Self::Text(text) if text == ROUND_ROBIN => Ok(Order::RoundRobin),
            Self::Text(text) if text.starts_with('@') => Err(format!(
                "rank_order {text}: a file of the command line; expected the numbers in it"
            )),
            Self::Text(text) => match Self::parse(text) {
                Ok(list) => list.order(),
                Err(why) => Err(format!("rank_order {text}: {why}")),
            },
        }
    }
}

/// An order of ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Order {
    /// Host after host.
    #[default]
    HostByHost,
    /// The first GPU of each host in turn, then the second, and so on.
    RoundRobin,
    /// The GPU of each rank.
    Listed(Vec<u32>),
}

/// Why an order does not fit a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// There is no such GPU.
    #[error("the rank order gives rank {rank} GPU {gpu}, but the job has GPU {known}")]
    Unknown {
        /// The rank.
        rank: usize,
        /// The GPU's number.
        gpu: u32,
        /// Those that there are.
        known: String,
    },
    /// A GPU has two ranks.
    #[error("the rank order names GPU {gpu} twice, for ranks {} and {}", .ranks[0], .ranks[1])]
    Twice {
        /// The GPU's number.
        gpu: u32,
        /// The ranks.
        ranks: [usize; 2],
    },
    /// The order cannot be used.
    #[error(transparent)]
    Plan(#[from] plan::OrderError),
}

impl Order {
    /// The order for these hosts.
    ///
    /// # Errors
    /// It does not fit them.
    pub fn placement(&self, hosts: &[UsedGpus]) -> Result<RankPlacement, OrderError> {
        let ascending = hosts.iter().all(|it| it.order.is_sorted());
        match self {
            Self::HostByHost if ascending => Ok(RankPlacement::HostByHost),
            Self::RoundRobin if ascending => Ok(RankPlacement::RoundRobin),
            Self::HostByHost => in_order(hosts, false),
            Self::RoundRobin => in_order(hosts, true),
            Self::Listed(numbers) => listed(numbers, hosts),
        }
    }
}

/// The GPUs of equal hosts that a job uses.
#[derive(Debug)]
pub struct UsedGpus {
    /// Device numbers in the order of a host's ranks.
    pub order: Vec<i32>,
    /// Largest device number of the file, plus 1.
    span: u64,
    hosts: u64,
}

impl UsedGpus {
    /// All GPUs of hosts whose file records `recorded` hosts.
    pub fn all(hosts: &EqualHosts, recorded: usize) -> Self {
        let order = gpu_devices(&hosts.document);
        let last = order.last().and_then(|last| u64::try_from(*last).ok());
        Self {
            order,
            span: last.unwrap_or(0) + 1,
            hosts: u64::from(hosts.count) * recorded as u64,
        }
    }

    fn gpus(&self) -> u64 {
        self.order.len() as u64
    }

    /// The slot of a host's GPU among the slots of all these hosts.
    fn slot(&self, host: u64, dev: i32) -> u64 {
        let lower = self.order.iter().filter(|other| **other < dev).count();
        host * self.gpus() + lower as u64
    }
}

/// An order that hosts whose GPUs are not in ascending order have by name: host after host, or the
/// first GPU of each host in turn, then the second, and so on.
fn in_order(hosts: &[UsedGpus], in_turn: bool) -> Result<RankPlacement, OrderError> {
    let ranks: u64 = hosts.iter().map(|it| it.hosts * it.gpus()).sum();
    if ranks > u64::from(MAX_ORDERED_RANKS) {
        let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
        return Err(plan::OrderError::TooManyRanks { ranks }.into());
    }
    let by_host: Vec<u32> = by_host(hosts).into_iter().map(|slot| slot as u32).collect();
    if !in_turn {
        return Ok(RankPlacement::Listed(RankOrder::new(by_host)));
    }
    let runs = hosts.iter().map(|it| (it.gpus() as u32, it.hosts as u32));
    let turns = RankOrder::round_robin(&runs.collect::<Vec<_>>()).slots(ranks as u32)?;
    let slots = turns.iter().map(|turn| by_host[*turn as usize]);
    Ok(RankPlacement::Listed(RankOrder::new(slots)))
}

/// Host after host.
fn by_host(hosts: &[UsedGpus]) -> Vec<u64> {
    let mut slots = Vec::new();
    let mut before = 0;
    for equal in hosts {
        for host in 0..equal.hosts {
            slots.extend(
                equal
                    .order
                    .iter()
                    .map(|dev| before + equal.slot(host, *dev)),
            );
        }
        before += equal.hosts * equal.gpus();
    }
    slots
}

/// The slots of GPUs with these numbers.
fn listed(numbers: &[u32], hosts: &[UsedGpus]) -> Result<RankPlacement, OrderError> {
    let slot = |number: u32| {
        let (mut number, mut before) = (u64::from(number), 0);
        for equal in hosts {
            let numbers = equal.span * equal.hosts;
            if number < numbers {
                let dev = (number % equal.span) as i32;
                let slot = before + equal.slot(number / equal.span, dev);
                return equal.order.contains(&dev).then_some(slot as u32);
            }
            number -= numbers;
            before += equal.hosts * equal.gpus();
        }
        None
    };
    let mut slots = Vec::with_capacity(numbers.len());
    for (rank, number) in numbers.iter().enumerate() {
        let Some(slot) = slot(*number) else {
            return Err(OrderError::Unknown {
                rank,
                gpu: *number,
                known: all_numbers(hosts),
            });
        };
        slots.push(slot);
    }
    // Otherwise the planner's message has the right numbers.
    if slots != numbers {
        check_once(numbers)?;
    }
    Ok(RankPlacement::Listed(RankOrder::new(slots)))
}

/// Checks that no GPU has two ranks.
fn check_once(numbers: &[u32]) -> Result<(), OrderError> {
    let mut ranks: Vec<(u32, usize)> = numbers.iter().copied().zip(0..).collect();
    ranks.sort_unstable();
    match ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(OrderError::Twice {
            gpu: pair[0].0,
            ranks: [pair[0].1, pair[1].1],
        }),
        None => Ok(()),
    }
}

/// The numbers of the GPUs of a job's first hosts.
fn all_numbers(hosts: &[UsedGpus]) -> String {
    let mut shown = Vec::new();
    let (mut first, mut left) = (0, SHOWN);
    for equal in hosts {
        let mut devices = equal.order.clone();
        devices.sort_unstable();
        for host in 0..equal.hosts.min(left) {
            let begin = first + host * equal.span;
            shown.extend(devices.iter().map(|dev| begin as i32 + dev));
        }
        first += equal.hosts * equal.span;
        left = left.saturating_sub(equal.hosts);
    }
    let more = hosts.iter().map(|it| it.hosts).sum::<u64>() > SHOWN;
    format!("{}{}", ranges(&shown, ", "), if more { " …" } else { "" })
}
