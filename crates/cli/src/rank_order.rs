//! `--rank-order`: which rank runs on which GPU.
//!
//! On the command line a GPU of the first host has its device number. The numbers of the next host
//! begin behind the largest device number of the file, whether the job uses all GPUs or not.

use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::order::MAX_ORDERED_RANKS;
use plan::{OrderError, RankOrder};
use planner::{EqualHosts, RankPlacement, gpu_devices};

use crate::numbers;
use crate::suggest;
use planner::explain::ranges;

/// The default order, host after host.
pub const HOST: &str = "host";

/// Orders that have a name.
const NAMED: [&str; 2] = [HOST, "round-robin"];

/// Largest file that is read, bytes: room for an order of the most ranks.
const FILE_LIMIT: u64 = 256 << 20;

/// Hosts whose numbers an error names.
const SHOWN: u64 = 4;

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

/// Reads which rank runs on which GPU: by name, as a list, or `@FILE` with a list in which `#`
/// begins a remark.
pub fn parse(text: &str, hosts: &[UsedGpus]) -> Result<RankPlacement> {
    let most = MAX_ORDERED_RANKS as usize;
    let ascending = hosts.iter().all(|it| it.order.is_sorted());
    match text {
        HOST if ascending => return Ok(RankPlacement::HostByHost),
        "round-robin" if ascending => return Ok(RankPlacement::RoundRobin),
        HOST => return in_order(hosts, false),
        "round-robin" => return in_order(hosts, true),
        _ => {}
    }
    if let Some(file) = text.strip_prefix('@') {
        return listed(&read(Path::new(file), most)?, hosts);
    }
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let near = suggest::nearest(text, NAMED.into_iter(), 1);
        bail!(
            "--rank-order {text}: no such order (expected host, round-robin, a list such as 0,8,1,9, or @FILE){}",
            suggest::question(&near)
        );
    }
    let numbers = numbers::list(text, most).with_context(|| format!("--rank-order {text}"))?;
    listed(&numbers, hosts)
}

/// An order that hosts whose GPUs are not in ascending order have by name: host after host, or the
/// first GPU of each host in turn, then the second, and so on.
fn in_order(hosts: &[UsedGpus], in_turn: bool) -> Result<RankPlacement> {
    let ranks: u64 = hosts.iter().map(|it| it.hosts * it.gpus()).sum();
    if ranks > u64::from(MAX_ORDERED_RANKS) {
        let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
        bail!(OrderError::TooManyRanks { ranks });
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
fn listed(numbers: &[u32], hosts: &[UsedGpus]) -> Result<RankPlacement> {
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
            bail!(
                "the rank order gives rank {rank} GPU {number}, but the job has GPU {}",
                all_numbers(hosts)
            );
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
fn check_once(numbers: &[u32]) -> Result<()> {
    let mut ranks: Vec<(u32, usize)> = numbers.iter().copied().zip(0..).collect();
    ranks.sort_unstable();
    match ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => bail!(
            "the rank order names GPU {} twice, for ranks {} and {}",
            pair[0].0,
            pair[0].1,
            pair[1].1
        ),
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

fn read(file: &Path, most: usize) -> Result<Vec<u32>> {
    let cannot = || format!("cannot read the rank order {}", file.display());
    let text = files::read_text(file, FILE_LIMIT).with_context(cannot)?;
    let mut slots = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let numbers = line.split('#').next().unwrap_or_default().trim();
        if !numbers.is_empty() {
            let room = most - slots.len();
            let found = numbers::list(numbers, room);
            slots.extend(found.with_context(|| format!("{}:{}", file.display(), index + 1))?);
        }
    }
    if slots.is_empty() {
        bail!(
            "the rank order {} is empty; expected the GPU of each rank, such as 0,8,1,9",
            file.display()
        );
    }
    Ok(slots)
}
