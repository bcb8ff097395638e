//! A communicator: what its ranks launched, since when that stands, and who is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use records::evidence::ras::Rank;
use records::evidence::ras::answer::{Communicator, Launched, Missing};

use super::{Job, Limits, STILL, State};

/// For how long a rank is absent that came back once: two halves of RAS answer by turns.
const APART: Duration = Duration::from_secs(60);

/// For how long ranks are silent before they are gone by text, which does not show whether the
/// others stand: processes of a job do not end at once.
const STILL_TEXT: Duration = Duration::from_secs(20);

/// Most ranks of a communicator that are remembered.
const MOST_MEMBERS: usize = 1 << 17;

/// Fewest polls that show the same.
const POLLS: u32 = 3;

/// Operations by their kind.
type Counts = [(String, i64)];

/// What a rank launched, or each of several ranks without names.
#[derive(Clone, Copy)]
struct Present<'a> {
    rank: Option<&'a Rank>,
    ranks: u64,
    counts: &'a Counts,
}

impl Present<'_> {
    fn total(&self) -> i128 {
        self.counts.iter().map(|it| i128::from(it.1)).sum()
    }
}

/// Ranks, and the number of all of them.
type Class = (u64, Vec<Rank>);

/// The state of a communicator.
pub(super) struct Judged {
    pub state: State,
    pub since: Duration,
    pub ranks: Vec<Rank>,
    pub what: String,
}

/// A communicator.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    size: u64,
    /// When it was last in an answer.
    pub seen: Duration,
    /// The first poll with these counts.
    moved: Duration,
    has_moved: bool,
    /// Polls with these counts.
    polls: u32,
    /// By rank; text has classes of ranks instead, which are replaced.
    ranks: BTreeMap<u32, Member>,
    classes: Vec<Launched>,
    pub is_ending: bool,
    is_starting: bool,
    /// The longest time for which some waited for others before counts moved.
    longest: Duration,
}

/// A rank.
#[derive(Debug)]
struct Member {
    rank: Rank,
    counts: Vec<(String, i64)>,
    /// When it last answered, and when its counts last changed.
    seen: Option<Duration>,
    changed: Option<Duration>,
    /// Since when it is silent, and for how many polls.
    silent: Option<(Duration, u32)>,
    /// It answered after it had been silent.
    came_back: bool,
}

impl Group {
    pub(super) fn new(communicator: &Communicator, now: Duration) -> Self {
        Self {
            name: communicator.name.clone(),
            size: communicator.size,
            seen: now,
            moved: now,
            has_moved: false,
            polls: 0,
            ranks: BTreeMap::new(),
            classes: Vec::new(),
            is_ending: false,
            is_starting: false,
            longest: Duration::ZERO,
        }
    }

    /// Takes what an answer says of it.
    pub(super) fn take(&mut self, said: &Communicator, now: Duration, is_text: bool) {
        let waited = self.differ().then(|| self.seen - self.moved);
        let known = |rank: u32| self.ranks.get(&rank).is_some_and(|it| it.seen.is_some());
        let left = |it: &Missing| !it.is_silent && (is_text || known(it.rank.rank));
        self.is_starting = said.is_starting || said.missing.iter().any(|it| !it.is_silent);
        // What ends stays so, because its processes exit next; text may say so of what begins.
        self.is_ending |= said.is_ending || said.missing.iter().any(left);
        self.is_ending &= !(is_text && said.missing.is_empty() && !said.is_ending);
        let has_moved = match is_text {
            true => self.take_classes(said),
            false => self.take_ranks(said, now),
        };
        for missing in &said.missing {
            if !self.has(&missing.rank) {
                continue;
            }
            let member = self.ranks.entry(missing.rank.rank);
            let member = member.or_insert_with(|| Member::of(&missing.rank));
            if missing.is_silent {
                let silent = member.silent.get_or_insert((now, 0));
                silent.1 += 1;
            }
        }
        if is_text {
            let missing = |rank: u32| said.missing.iter().any(|it| it.rank.rank == rank);
            self.ranks.retain(|rank, _| missing(*rank));
        }
        if has_moved {
            // Counts that were never seen in two polls did not stand.
            if let Some(waited) = waited.filter(|_| self.polls > 1) {
                self.longest = self.longest.max(waited);
            }
            (self.moved, self.has_moved, self.polls) = (now, true, 0);
        }
        (self.seen, self.polls) = (now, self.polls + 1);
    }

    fn take_ranks(&mut self, said: &Communicator, now: Duration) -> bool {
        let mut has_moved = false;
        for launched in &said.launched {
            let Some(rank) = launched.rank.as_ref().filter(|it| self.has(it)) else {
                continue;
            };
            let member = self.ranks.entry(rank.rank);
            let member = member.or_insert_with(|| Member::of(rank));
            if member.seen.is_some() && member.counts != launched.counts {
                has_moved = true;
                member.changed = Some(now);
            }
            member.came_back |= member.silent.take().is_some();
            member.seen = Some(now);
            member.counts.clone_from(&launched.counts);
        }
        has_moved
    }

    fn take_classes(&mut self, said: &Communicator) -> bool {
        let is_changed = !said.launched.is_empty() && self.classes != said.launched;
        let is_first = self.classes.is_empty();
        if is_changed {
            self.classes.clone_from(&said.launched);
        }
        is_changed && !is_first
    }

    pub(super) fn members(&self) -> u64 {
        self.size.max(self.ranks.len() as u64)
    }

    /// The number here of a rank of another communicator, if one only can be it.
    pub(super) fn rank_of(&self, rank: &Rank) -> Option<u32> {
        let mut members = self.same_as(rank);
        let first = members.next()?;
        members.next().is_none().then_some(first.rank.rank)
    }

    /// When the counts of a rank of another communicator last changed here.
    pub(super) fn changed(&self, rank: &Rank) -> Option<Duration> {
        self.same_as(rank).filter_map(|it| it.changed).max()
    }

    /// The members that can be a rank of another communicator: of the same process and GPU.
    fn same_as<'a>(&'a self, rank: &'a Rank) -> impl Iterator<Item = &'a Member> {
        self.ranks.values().filter(|it| is_same(&it.rank, rank))
    }

    /// Whether an answer may have a rank of this number.
    fn has(&self, rank: &Rank) -> bool {
        let is_within = self.size == 0 || u64::from(rank.rank) < self.size;
        is_within && (self.ranks.len() < MOST_MEMBERS || self.ranks.contains_key(&rank.rank))
    }

    /// The ranks whose counts are those of now, by what they launched.
    fn present(&self) -> Vec<Present<'_>> {
        let is_present = |it: &&Member| it.seen.is_some_and(|seen| seen >= self.moved);
        let ranks = self.ranks.values().filter(is_present);
        let ranks = ranks.map(|it| Present {
            rank: Some(&it.rank),
            ranks: 1,
            counts: &it.counts,
        });
        let classes = self.classes.iter().map(|it| Present {
            rank: it.rank.as_ref(),
            ranks: it.ranks,
            counts: &it.counts,
        });
        ranks.chain(classes).collect()
    }

    fn differ(&self) -> bool {
        let present = self.present();
        present.iter().any(|it| it.counts != present[0].counts)
    }

    /// Its state.
    pub(super) fn judge(&self, now: Duration, job: &Job, limits: Limits) -> Judged {
        let stood = self.seen - self.moved;
        let judged = |state, since: Duration, what: String| Judged {
            state,
            since,
            ranks: Vec::new(),
            what,
        };
        let silent = self.ranks.values().filter(|it| it.silent.is_some());
        let silent: Vec<&Member> = silent.collect();
        let moves = self.has_moved && now - self.moved < STILL;
        if moves {
            let what = match silent.is_empty() {
                true => "operations are launched".to_owned(),
                false => "operations are launched, though RAS is disturbed: it says that ranks \
                          do not answer"
                    .to_owned(),
            };
            return judged(State::Moves, now - self.moved, what);
        }
        if self.is_ending || self.is_starting {
            let what = "a communicator is made, ended or aborted".to_owned();
            return judged(State::Unknown, stood, what);
        }
        let limit = if job.is_text { STILL_TEXT } else { STILL };
        let gone = silent.iter().filter(|it| it.is_gone(self.seen, limit));
        let gone: Vec<&Member> = gone.copied().collect();
        let is_still = stood >= STILL || job.is_text;
        let since = gone.iter().filter_map(|it| it.silent).min();
        if let (true, Some(since)) = (is_still, since) {
            let ranks: Vec<Rank> = gone.iter().map(|it| it.rank.clone()).collect();
            let since = self.seen - since.0;
            let all = job.hosts.saturating_mul(job.ranks_per_host);
            if ranks.len() as u64 * 2 > self.members().max(all) {
                let what = "most processes are gone: the job ends, or it crashed".to_owned();
                return judged(State::Unknown, since, what);
            }
            if job.is_text && is_whole_host(&ranks, job) {
                let what = "all ranks of a host do not answer; whether the others move, text of \
                            RAS does not say: it is gone, or RAS is disturbed";
                return judged(State::Unknown, since, what.to_owned());
            }
            let stand = match job.is_text {
                true => "(text of RAS does not say whether the others move)".to_owned(),
                false => format!(
                    "and the others have launched nothing for {} s",
                    stood.as_secs()
                ),
            };
            return Judged {
                ranks,
                ..judged(State::Gone, since, format!("no answer {stand}"))
            };
        }
        if let Some(first) = silent.iter().find(|it| !it.came_back) {
            let rank = &first.rank;
            let what = format!("rank {} of host {} does not answer", rank.rank, rank.host);
            return judged(State::Unknown, stood, what);
        }
        if stood >= STILL && self.polls >= POLLS && self.differ() {
            return self.waits(now, job, limits);
        }
        let mut counts = self.present().into_iter().flat_map(|it| it.counts);
        let all_zero = counts.all(|it| it.1 == 0);
        let what = match (self.differ(), all_zero) {
            (true, _) => format!("counts have differed for {} s", stood.as_secs()),
            (false, true) => "nothing was launched yet: set-up, or a first collective that lacks \
                              a rank"
                .to_owned(),
            (false, false) => "all ranks launched the same and stand still: they rest, \
                               only send and receive, or hang in what they launched"
                .to_owned(),
        };
        judged(State::Unknown, stood, what)
    }

    /// Some ranks launched less than others, or something else, and nothing moves.
    fn waits(&self, now: Duration, job: &Job, limits: Limits) -> Judged {
        let present = self.present();
        let least = present.iter().map(Present::total).min().unwrap_or(0);
        let most = present.iter().max_by_key(|it| it.total());
        let Some(most) = most.filter(|it| it.total() > least) else {
            return self.differs(now, job, limits, &present);
        };
        let late = present.iter().filter(|it| it.total() == least);
        let number: u64 = late.clone().map(|it| it.ranks).sum();
        let all: u64 = present.iter().map(|it| it.ranks).sum();
        let ranks: Vec<Rank> = late.clone().filter_map(|it| it.rank.cloned()).collect();
        let first = late.clone().next().map_or(&[][..], |it| it.counts);
        let kinds = most.counts.iter().filter_map(|(kind, count)| {
            let own = first.iter().find(|it| it.0 == *kind).map_or(0, |it| it.1);
            (own != *count).then(|| format!("{own} of {count} {kind}"))
        });
        let kinds: Vec<String> = kinds.collect();
        let what = format!(
            "{number} of {all} ranks of communicator {} launched {}",
            self.name,
            kinds.join(", ")
        );
        self.waits_for(ranks, what, now, job, limits)
    }

    /// Ranks launched equally many operations, but not the same: the fewest differ.
    fn differs(&self, now: Duration, job: &Job, limits: Limits, present: &[Present<'_>]) -> Judged {
        let mut alike: BTreeMap<&Counts, Class> = BTreeMap::new();
        for it in present {
            let class = alike.entry(it.counts).or_default();
            class.0 += it.ranks;
            class.1.extend(it.rank.cloned());
        }
        let fewest = alike.values().map(|it| it.0).min().unwrap_or(0);
        let few = alike.iter().filter(|it| it.1.0 == fewest);
        let ranks = few.clone().flat_map(|it| it.1.1.clone()).collect();
        let usual = alike
            .iter()
            .max_by_key(|it| it.1.0)
            .map_or(&[][..], |it| it.0);
        let other = few
            .clone()
            .find(|it| *it.0 != usual)
            .map_or(usual, |it| it.0);
        let kinds = other.iter().zip(usual).filter(|(own, usual)| own != usual);
        let kinds: Vec<String> = kinds
            .map(|(own, usual)| format!("{} {} where others have {}", own.1, own.0, usual.1))
            .collect();
        let what = format!(
            "ranks of communicator {} called different collectives: {}",
            self.name,
            kinds.join(", ")
        );
        self.waits_for(ranks, what, now, job, limits)
    }

    fn waits_for(
        &self,
        ranks: Vec<Rank>,
        what: String,
        now: Duration,
        job: &Job,
        limits: Limits,
    ) -> Judged {
        let stood = self.seen - self.moved;
        // Polls see a pause a little shorter or longer than it is.
        let longest = limits.pause.max(self.longest).mul_f64(1.1);
        let is_busy = ranks.iter().any(|it| job.launches(it, now));
        let state = match stood >= longest && !is_busy {
            true => State::Hang,
            false => State::Waits,
        };
        let but = match is_busy {
            true => ", and launch in other communicators",
            false => "",
        };
        Judged {
            state,
            since: stood,
            ranks,
            what: what + but,
        }
    }
}

impl Member {
    fn of(rank: &Rank) -> Self {
        Self {
            rank: rank.clone(),
            counts: Vec::new(),
            seen: None,
            changed: None,
            silent: None,
            came_back: false,
        }
    }

    fn is_gone(&self, now: Duration, limit: Duration) -> bool {
        let limit = if self.came_back { APART } else { limit };
        self.silent
            .is_some_and(|(since, polls)| now - since >= limit && polls > 1)
    }
}

/// Whether two ranks, perhaps of two communicators, can be one process's use of one GPU.
pub(super) fn is_same(one: &Rank, other: &Rank) -> bool {
    let gpus = one.device.zip(other.device);
    one.process == other.process
        && one.host == other.host
        && gpus.is_none_or(|(one, other)| one == other)
}

/// Whether all ranks of a host of a job on several hosts may be gone.
fn is_whole_host(gone: &[Rank], job: &Job) -> bool {
    let of_host = |host: &str| gone.iter().filter(|it| it.host == host).count() as u64;
    job.hosts != 1
        && gone
            .iter()
            .any(|it| of_host(&it.host) >= job.ranks_per_host)
}
