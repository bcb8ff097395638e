//! A rank that is late again and again, by the times of NCCL's Inspector.
//!
//! A collective ends on all ranks at about the same time, so it runs longest on the ranks that came
//! first, and shortest on the one for which all wait.

use std::collections::BTreeMap;

use findings::causes::Certainty::Likely;
use findings::causes::table::speed;
use program::Collective;
use records::evidence::inspector::{ALL_WAIT, Ended};

use crate::verdict::{Line, MOST_LINES, Missing, Verdict};

/// Most communicators, most collectives of one and most times of all that are kept.
const MOST_COMMUNICATORS: usize = 1 << 10;
const MOST_COLLECTIVES: usize = 512;
const MOST_TIMES: usize = 1 << 20;

/// Most ranks of all communicators together.
const MOST_RANKS: usize = 1 << 16;

/// Collectives from which a verdict is made.
const ENOUGH: usize = 16;

/// The times of a collective by rank, µs.
type Times = BTreeMap<u32, u64>;

/// What is kept of a communicator: collectives whose numbers are multiples of the stride.
#[derive(Debug)]
struct Communicator {
    ranks: u32,
    stride: u64,
    /// By collective and number, because each collective has its own numbers.
    collectives: BTreeMap<(Collective, u64), Times>,
    /// By rank the host, and a line.
    places: BTreeMap<u32, (String, Line)>,
}

/// The collectives that ended.
#[derive(Debug, Default)]
pub(crate) struct Late {
    communicators: BTreeMap<String, Communicator>,
    times: usize,
    ranks: usize,
}

impl Communicator {
    /// Keeps half of the collectives. Returns how many times are gone.
    fn thin(&mut self) -> usize {
        self.stride = self.stride.saturating_mul(2);
        let stride = self.stride;
        let mut gone = 0;
        self.collectives.retain(|(_, number), times| {
            let is_kept = number.is_multiple_of(stride);
            gone += if is_kept { 0 } else { times.len() };
            is_kept
        });
        gone
    }

    /// The rank that comes last in most collectives: the rank, in how many of how many, and how
    /// long the others wait for it, µs.
    fn late(&self) -> Option<(u32, usize, usize, u64)> {
        let all = self.collectives.values();
        let complete = all.filter(|it| it.len() == self.ranks as usize);
        let mut count = 0;
        let mut last: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for times in complete {
            count += 1;
            let Some((rank, least)) = times.iter().min_by_key(|it| it.1) else {
                continue;
            };
            let mut others: Vec<u64> = times
                .iter()
                .filter(|it| it.0 != rank)
                .map(|it| *it.1)
                .collect();
            others.sort_unstable();
            let usual = *others.get(others.len() / 2)?;
            if usual > least.saturating_add(50) && usual / 3 > least / 2 {
                last.entry(*rank).or_default().push(usual - least);
            }
        }
        let (rank, mut waits) = last.into_iter().max_by_key(|it| it.1.len())?;
        waits.sort_unstable();
        let is_often = count >= ENOUGH && waits.len() * 10 >= count * 6;
        is_often.then(|| (rank, waits.len(), count, waits[waits.len() / 2]))
    }
}

impl Late {
    /// Notes a collective that ended.
    pub(crate) fn add(&mut self, ended: Ended, line: impl FnOnce() -> Line) {
        let collective = ended.collective.filter(|it| ALL_WAIT.contains(it));
        let Some(collective) = collective.filter(|_| ended.is_gpu_time && ended.ranks > 1) else {
            return;
        };
        let is_full = self.communicators.len() >= MOST_COMMUNICATORS;
        if is_full && !self.communicators.contains_key(&ended.communicator) {
            return;
        }
        let communicator = self
            .communicators
            .entry(ended.communicator)
            .or_insert_with(|| Communicator {
                ranks: ended.ranks,
                stride: 1,
                collectives: BTreeMap::new(),
                places: BTreeMap::new(),
            });
        if ended.ranks != communicator.ranks {
            return;
        }
        if communicator.collectives.len() >= MOST_COLLECTIVES || self.times >= MOST_TIMES {
            self.times -= communicator.thin();
        }
        let is_kept = ended.sequence.is_multiple_of(communicator.stride);
        if !is_kept || self.times >= MOST_TIMES {
            return;
        }
        let is_new = !communicator.places.contains_key(&ended.rank);
        if is_new && self.ranks >= MOST_RANKS {
            return;
        }
        self.ranks += usize::from(is_new);
        let number = (collective, ended.sequence);
        let times = communicator.collectives.entry(number).or_default();
        self.times += usize::from(times.insert(ended.rank, ended.time).is_none());
        let place = communicator.places.entry(ended.rank);
        place.or_insert_with(|| (ended.host, line()));
    }

    /// A verdict for each communicator with a rank that is late, and what would tell more.
    pub(crate) fn verdicts(&self) -> (Vec<Verdict>, Option<Missing>) {
        let all = self.communicators.values();
        let largest = all.map(|it| it.ranks).max().unwrap_or(0);
        let found = self.communicators.iter().filter_map(|(id, it)| {
            let (rank, often, count, wait) = it.late()?;
            let what = format!(
                "Rank {rank} of communicator {id} comes last in {often} of {count} collectives; \
                 the others wait {wait} µs for it, by the median."
            );
            let (host, line) = it.places.get(&rank)?;
            // Ranks of a part of the job have other numbers in the job.
            let is_job = it.ranks == largest;
            Some(Verdict {
                ranks: is_job.then_some(rank).into_iter().collect(),
                hosts: Some(host.clone())
                    .filter(|it| !it.is_empty())
                    .into_iter()
                    .collect(),
                group: Some(format!("communicator {id}")),
                lines: vec![line.clone()],
                ..Verdict::new(&speed::SLOW_RANK, Likely, what)
            })
        });
        let found: Vec<Verdict> = found.take(MOST_LINES).collect();
        let lacks = |it: &&Communicator| it.places.len() < it.ranks as usize;
        let missing = self.communicators.values().find(lacks);
        let missing = missing.filter(|_| found.is_empty()).map(|it| Missing {
            what: "which rank is late".to_owned(),
            how: format!(
                "Inspector's files of all {} ranks (NCCL_INSPECTOR_DUMP_DIR on each host); {} are here",
                it.ranks,
                it.places.len()
            ),
        });
        (found, missing)
    }
}
