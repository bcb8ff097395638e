//! Operations that each rank launched, and missing ranks, by an answer of RAS.

use std::collections::BTreeMap;

use crate::evidence::ras::{
    MOST_RANKS, Rank, RawCommunicator, RawStatus, Reader, ReportError, raw,
};

/// Most communicators that are kept of an answer in text.
const MOST_COMMUNICATORS: usize = 1 << 12;

/// Most kinds of operations of a communicator, of which NCCL counts five.
const MOST_KINDS: usize = 32;

/// Most ranks that a line of text may speak of: sums stay small.
const MOST_SAID: u64 = 1 << 32;

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// It is text, which has counts only of communicators whose ranks differ, and lists no others.
    pub is_text: bool,
    /// Communicators, with those that text does not list.
    pub all: u64,
    /// Hosts of the job; 0 in JSON.
    pub hosts: u64,
    /// Most ranks of a communicator on one host; 0 in JSON.
    pub ranks_per_host: u64,
    /// The communicators that it lists.
    pub communicators: Vec<Communicator>,
}

/// A communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Its hash, hexadecimal without leading zeros.
    pub name: String,
    /// Its ranks; 0 in text.
    pub size: u64,
    /// What its ranks launched.
    pub launched: Vec<Launched>,
    /// The ranks of which RAS has no data.
    pub missing: Vec<Missing>,
    /// A rank is about to finalize, destroy or abort it.
    pub is_ending: bool,
    /// A rank still makes it, or failed to.
    pub is_starting: bool,
}

/// What a rank launched, or each of several ranks whose names the text leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The rank, if it is named.
    pub rank: Option<Rank>,
    /// How many ranks these are.
    pub ranks: u64,
    /// Operations by their kind, in the order of the kinds; text has those that differ.
    pub counts: Vec<(String, i64)>,
}

/// A rank of which RAS has no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The rank.
    pub rank: Rank,
    /// Its process does not answer; otherwise it answers, and has no such communicator any more.
    pub is_silent: bool,
}

/// Reads what RAS answers on a connection: lines, then a report in JSON or text.
///
/// # Errors
/// There is no report, or it has too many ranks.
pub fn read(bytes: &[u8]) -> Result<Answer, ReportError> {
    let is_start = |at: &usize| bytes[*at] == b'{' && (*at == 0 || bytes[*at - 1] == b'\n');
    if let Some(at) = (0..bytes.len()).find(is_start) {
        let communicators = raw(&bytes[at..])?.communicators.0;
        return Ok(Answer {
            all: communicators.len() as u64,
            communicators: communicators.into_iter().map(Communicator::of).collect(),
            ..Answer::default()
        });
    }
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::default();
    let (mut has_report, mut hosts) = (false, None);
    for (line, number) in text.lines().zip(1..) {
        has_report |= line.starts_with("Job summary") || line.starts_with("No communicator data");
        let numbers = line.split_whitespace().map(str::parse::<u64>);
        if let (None, Ok(numbers)) = (hosts, numbers.collect::<Result<Vec<_>, _>>()) {
            // Hosts, processes of each, GPUs of each, and all processes and GPUs.
            hosts = (numbers.len() == 5).then(|| numbers[0]);
        }
        reader.line(line, number);
    }
    let answer = reader.answer();
    match has_report {
        true => Ok(Answer {
            hosts: answer.hosts.max(hosts.unwrap_or(0)),
            ..answer
        }),
        false => Err(ReportError::Absent),
    }
}

impl Communicator {
    fn of(raw: RawCommunicator) -> Self {
        let states = raw.ranks.0.iter().map(|it| &it.status);
        let missing = raw.missing_ranks.0.iter().map(|it| Missing {
            rank: it.place(),
            is_silent: it.status.unresponsive || it.status.considered_dead,
        });
        let missing: Vec<Missing> = missing.collect();
        let launched = raw.ranks.0.iter().map(|it| {
            let counts = it.collective_counts.0.iter();
            let mut counts: Vec<_> = counts.map(|it| (it.0.0.clone(), it.1.0)).collect();
            counts.sort_unstable();
            Launched {
                rank: Some(it.place()),
                ranks: 1,
                counts,
            }
        });
        Self {
            name: short(&raw.hash.0),
            size: u64::try_from(raw.size.0).unwrap_or(0),
            launched: launched.collect(),
            is_ending: states.clone().any(RawStatus::is_ending),
            // 0 is ncclSuccess.
            is_starting: states.clone().any(|it| it.init_state.0 != 0),
            missing,
        }
    }
}

/// A hash as both forms have it: JSON leaves out zeros, text has 16 digits.
fn short(hash: &str) -> String {
    let digits = hash.trim_start_matches("0x").trim_start_matches('0');
    digits.to_ascii_lowercase()
}

/// The operations of a kind in a communicator that text lists: how many ranks launched how many,
/// and those that are named.
type Levels = BTreeMap<i64, (u64, Vec<Rank>)>;

/// What text says of communicators, by the hash.
#[derive(Debug, Default)]
pub(super) struct Listing {
    all: u64,
    hosts: u64,
    ranks_per_host: u64,
    communicators: BTreeMap<String, Listed>,
    /// Processes that do not answer: host and process.
    silent: Vec<(String, u64)>,
    ranks: usize,
}

#[derive(Debug, Default)]
struct Listed {
    levels: BTreeMap<String, Levels>,
    missing: Vec<Rank>,
    is_ending: bool,
}

impl Listed {
    /// The levels of a kind; none, if there are too many kinds.
    fn levels_of(&mut self, kind: &str) -> Option<&mut Levels> {
        let is_known = self.levels.contains_key(kind);
        let has_room = is_known || self.levels.len() < MOST_KINDS;
        has_room.then(|| self.levels.entry(kind.to_owned()).or_default())
    }
}

impl Listing {
    /// A row of the table of communicators: its second, third and fourth number.
    pub(super) fn row(&mut self, communicators: u64, hosts: u64, ranks_per_host: u64) {
        self.all = self.all.saturating_add(communicators);
        self.hosts = self.hosts.max(hosts);
        self.ranks_per_host = self.ranks_per_host.max(ranks_per_host);
    }

    fn of(&mut self, heading: &str) -> Option<&mut Listed> {
        let hash = heading.split_once('(')?.1.trim_end_matches(')');
        self.ranks += 1;
        let is_new = !self.communicators.contains_key(&short(hash));
        if self.ranks > MOST_RANKS || is_new && self.communicators.len() >= MOST_COMMUNICATORS {
            return None;
        }
        Some(self.communicators.entry(short(hash)).or_default())
    }

    /// Ranks of which the text names none.
    pub(super) fn level(&mut self, heading: &str, kind: &str, count: u64, ranks: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(levels) = self.of(heading).and_then(|it| it.levels_of(kind)) {
            levels.entry(count).or_default().0 = ranks.min(MOST_SAID);
        }
    }

    /// A rank with what it launched.
    pub(super) fn rank(&mut self, heading: &str, kind: &str, count: u64, rank: &Rank) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(levels) = self.of(heading).and_then(|it| it.levels_of(kind)) {
            let level = levels.entry(count).or_default();
            level.1.push(rank.clone());
            level.0 = level.0.max(level.1.len() as u64);
        }
    }

    /// A rank, or a process, of which RAS has no data.
    pub(super) fn missing(&mut self, heading: &str, rank: &Rank) {
        if rank.rank == u32::MAX {
            self.ranks += 1;
            if self.ranks <= MOST_RANKS {
                self.silent.push((rank.host.clone(), rank.process));
            }
        } else if let Some(listed) = self.of(heading) {
            listed.missing.push(rank.clone());
        }
    }

    /// The ranks of a communicator are in different states.
    pub(super) fn ending(&mut self, heading: &str) {
        if let Some(listed) = self.of(heading) {
            listed.is_ending = true;
        }
    }

    pub(super) fn answer(self) -> Answer {
        let silent = self.silent;
        let listed = self.communicators.into_iter().map(|(name, listed)| {
            let missing = listed.missing.into_iter().map(|rank| {
                let is_it = |it: &(String, u64)| it.0 == rank.host && it.1 == rank.process;
                Missing {
                    is_silent: silent.iter().any(is_it),
                    rank,
                }
            });
            let missing: Vec<Missing> = missing.collect();
            Communicator {
                name,
                size: 0,
                launched: launched(&listed.levels),
                is_ending: listed.is_ending,
                is_starting: false,
                missing,
            }
        });
        Answer {
            is_text: true,
            all: self.all,
            hosts: self.hosts,
            ranks_per_host: self.ranks_per_host,
            communicators: listed.collect(),
        }
    }
}

/// The ranks of all kinds of operations joined: each named rank, and the others by what they
/// launched.
fn launched(kinds: &BTreeMap<String, Levels>) -> Vec<Launched> {
    // What most of the ranks without names launched, and other such ranks.
    let mut usual: Vec<(String, i64)> = Vec::new();
    let mut unnamed = 0;
    let mut others: Vec<(String, i64, u64)> = Vec::new();
    let mut named: BTreeMap<u32, (Rank, Vec<(String, i64)>)> = BTreeMap::new();
    for (kind, levels) in kinds {
        let rest = |level: &(u64, Vec<Rank>)| level.0.saturating_sub(level.1.len() as u64);
        let most = levels.iter().max_by_key(|it| (rest(it.1), *it.0));
        let Some((most, level)) = most else { continue };
        usual.push((kind.clone(), *most));
        unnamed = unnamed.max(rest(level));
        for (count, level) in levels {
            if count != most && rest(level) > 0 {
                others.push((kind.clone(), *count, rest(level)));
            }
            for rank in &level.1 {
                let own = named.entry(rank.rank);
                let own = own.or_insert_with(|| (rank.clone(), Vec::new()));
                own.1.push((kind.clone(), *count));
            }
        }
    }
    let with = |changed: &[(String, i64)]| {
        let mut counts = usual.clone();
        for (kind, count) in &mut counts {
            if let Some(own) = changed.iter().find(|it| it.0 == *kind) {
                *count = own.1;
            }
        }
        counts
    };
    let mut all = Vec::new();
    if unnamed > 0 {
        all.push(Launched {
            rank: None,
            ranks: unnamed,
            counts: usual.clone(),
        });
    }
    all.extend(others.into_iter().map(|(kind, count, ranks)| Launched {
        rank: None,
        ranks,
        counts: with(&[(kind, count)]),
    }));
    all.extend(named.into_values().map(|(rank, changed)| Launched {
        rank: Some(rank),
        ranks: 1,
        counts: with(&changed),
    }));
    all
}

/// A report in which a comma is missing between a number and the next name, as NCCL 2.28 writes it
/// where ranks are missing.
pub(super) fn with_commas(bytes: &[u8]) -> Vec<u8> {
    let mut fixed = Vec::with_capacity(bytes.len() + 64);
    let (mut in_text, mut is_escaped) = (false, false);
    // The last byte that is no blank, outside of texts.
    let mut last = b' ';
    let mut end = 0;
    for byte in bytes {
        if in_text {
            (in_text, is_escaped) = (is_escaped || *byte != b'"', !is_escaped && *byte == b'\\');
        } else if *byte == b'"' {
            if last.is_ascii_digit() {
                fixed.insert(end, b',');
            }
            in_text = true;
        }
        fixed.push(*byte);
        if !byte.is_ascii_whitespace() {
            (last, end) = (if in_text { b'"' } else { *byte }, fixed.len());
        }
    }
    fixed
}
