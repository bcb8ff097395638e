//! PyTorch's flight recorders: the last collectives of each rank, as
//! `TORCH_NCCL_DEBUG_INFO_TEMP_FILE` and `torch._C._distributed_c10d._dump_nccl_trace` write them
//! (pickle), and their form as JSON.

mod raw;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::evidence::pickle::{self, Pickle, PickleError};
use crate::evidence::symbols::{Symbol, Symbols};
use raw::RawDump;

/// Largest file, bytes.
pub const MOST_BYTES: usize = pickle::MOST_BYTES;

/// Most entries of all recorders together. One takes 96 bytes.
const MOST_ENTRIES: usize = 1 << 20;

/// Most entries of one recorder that are kept, the newest.
const MOST_OF_ONE: usize = 1 << 11;

/// Why a flight recorder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// Its pickle.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// Its JSON.
    #[error("no flight recorder: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither entries nor groups.
    #[error("no flight recorder: it has neither `entries` nor `pg_config`")]
    Empty,
}

/// How far a collective came on a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The program called it.
    Scheduled,
    /// The GPU began it.
    Started,
    /// The GPU finished it.
    Completed,
}

/// A collective that a rank called.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its place among all calls of the rank.
    pub record: u64,
    /// The group, a place in [`Recorders::groups`].
    pub group: u32,
    /// The number of the collective in its group; of the point-to-point call, if it is one.
    pub sequence: u64,
    /// The function, such as `all_reduce`, or `send 0->1` with ranks of the group.
    pub function: Symbol,
    /// Elements that go in and come out, of all tensors.
    pub elements: [u64; 2],
    /// The sizes that go in and come out, as text.
    pub sizes: [Symbol; 2],
    /// The element types.
    pub types: Symbol,
    /// The first frame of the program outside of PyTorch.
    pub frame: Symbol,
    /// When it was called, and when it was found complete (0: not), ns since 1970.
    pub times: [u64; 2],
    /// The group's time limit, ms.
    pub timeout: u64,
    /// How far it came.
    pub state: State,
    /// It is a send or a receive.
    pub is_point_to_point: bool,
}

/// A group of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its name.
    pub name: Symbol,
    /// Its description.
    pub description: Symbol,
    /// Its ranks in the job, sorted; empty if no recorder names them.
    pub ranks: Vec<u32>,
}

/// The recorder of one rank.
#[derive(Debug)]
pub struct Dump {
    /// The input.
    pub input: String,
    /// The rank in the job, by the recorder or by the name of its file.
    pub rank: Option<u32>,
    /// The host.
    pub host: Option<String>,
    /// The version of its form.
    pub version: String,
    /// The groups that the rank is in.
    pub groups: Vec<u32>,
    /// Its calls in order.
    pub entries: Vec<Entry>,
    /// The number in its file's name is not that of the rank that made its calls.
    pub is_misnamed: bool,
    /// It shows that it has all calls that the rank made. An empty recorder does not.
    pub is_whole: bool,
}

/// The recorders of a job.
#[derive(Debug, Default)]
pub struct Recorders {
    /// Names and texts.
    pub symbols: Symbols,
    /// The groups of all ranks.
    pub groups: Vec<Group>,
    /// The recorders.
    pub dumps: Vec<Dump>,
    /// Entries were left out because there are too many.
    pub is_full: bool,
    known: FxHashMap<Group, u32>,
    kept: usize,
}

impl Recorders {
    /// Reads a recorder, pickled or as JSON.
    ///
    /// # Errors
    /// It is damaged, no flight recorder, or a pickle that calls functions.
    pub fn read(&mut self, input: &str, bytes: &[u8]) -> Result<(), RecorderError> {
        let raw: RawDump = match is_json(bytes) {
            true => serde_json::from_slice(bytes)?,
            false => serde::Deserialize::deserialize(Pickle::read(bytes)?.root())?,
        };
        if raw.is_empty() {
            return Err(RecorderError::Empty);
        }
        let dump = self.dump(input, raw);
        self.dumps.push(dump);
        Ok(())
    }

    fn dump(&mut self, input: &str, raw: RawDump) -> Dump {
        let mut groups = Vec::new();
        for (_, group) in &raw.pg_config.0 {
            groups.push((group.name.0.clone(), self.group(group)));
        }
        let named: FxHashMap<&str, u32> = groups
            .iter()
            .map(|(name, it)| (name.as_str(), *it))
            .collect();
        let mut entries = Vec::new();
        for entry in &raw.entries.0 {
            let (name, description) = entry.group();
            let group = match named.get(name) {
                Some(group) => *group,
                None => self.nameless(name, description),
            };
            entries.push(entry.read(group, &mut self.symbols));
        }
        entries.sort_by_key(|it| it.record);
        let room = MOST_ENTRIES.saturating_sub(self.kept).min(MOST_OF_ONE);
        let cut = entries.len().saturating_sub(room);
        self.is_full |= cut > 0;
        entries.drain(..cut);
        entries.shrink_to_fit();
        let has_places = raw.entries.0.iter().all(raw::RawEntry::has_place);
        self.kept += entries.len();
        let named = rank_in_name(input);
        let groups: Vec<u32> = groups.into_iter().map(|(_, group)| group).collect();
        let is_other = |rank: u32| {
            let says_other = raw.rank().is_some_and(|it| it != rank) && has_rank(input);
            says_other || self.is_of_other(&groups, &entries, raw.rank().unwrap_or(rank))
        };
        Dump {
            is_misnamed: named.is_some_and(is_other),
            input: input.to_owned(),
            rank: raw.rank().or(named),
            host: raw.host(),
            version: raw.version.0.clone(),
            is_whole: cut == 0 && has_places && is_whole(&entries),
            groups,
            entries,
        }
    }

    /// Whether another rank than this one made calls: its groups are without this rank, or it sends
    /// and receives as another one.
    fn is_of_other(&self, groups: &[u32], entries: &[Entry], rank: u32) -> bool {
        let ranks = |group: u32| {
            let group = self.groups.get(group as usize)?;
            Some(&group.ranks).filter(|it| !it.is_empty())
        };
        let caller = |entry: &Entry| {
            let (_, places) = self.symbols.text(entry.function).split_once(' ')?;
            let own = places
                .split(['-', '<'])
                .next()?
                .trim()
                .parse::<usize>()
                .ok()?;
            ranks(entry.group)?.get(own).copied()
        };
        let mut ranks = groups.iter().filter_map(|it| ranks(*it));
        let mut pairs = entries.iter().filter(|it| it.is_point_to_point);
        ranks.any(|it| !it.contains(&rank))
            || pairs.any(|it| caller(it).is_some_and(|it| it != rank))
    }

    fn group(&mut self, raw: &raw::RawGroup) -> u32 {
        let group = Group {
            name: self.symbols.add(&raw.name.0),
            description: self.symbols.add(&raw.desc.0),
            ranks: raw.ranks.0.clone(),
        };
        self.add(group)
    }

    /// A group that the recorder's list of groups does not have.
    fn nameless(&mut self, name: &str, description: &str) -> u32 {
        let group = Group {
            name: self.symbols.add(name),
            description: self.symbols.add(description),
            ranks: Vec::new(),
        };
        self.add(group)
    }

    fn add(&mut self, group: Group) -> u32 {
        if let Some(number) = self.known.get(&group) {
            return *number;
        }
        let number = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.groups.push(group.clone());
        self.known.insert(group, number);
        number
    }
}

/// Whether calls are all that a rank made: their places are 0, 1, … and each group begins at its
/// first number. Both begin anew when the recorder or a group is made anew.
fn is_whole(entries: &[Entry]) -> bool {
    let mut begun = FxHashSet::default();
    let are_dense = (0..).zip(entries).all(|(place, it)| it.record == place);
    are_dense
        && !entries.is_empty()
        && entries
            .iter()
            .all(|it| !begun.insert((it.group, it.is_point_to_point)) || it.sequence <= 1)
}

/// Whether bytes are JSON: the first one that is not blank is a brace.
pub fn is_json(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    first == Some(&b'{')
}

fn has_rank(name: &str) -> bool {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    file.to_ascii_lowercase().contains("rank")
}

/// The rank in the name of a file: the number after `rank`, or the last number.
pub fn rank_in_name(name: &str) -> Option<u32> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let lower = file.to_ascii_lowercase();
    let number = |text: &str| {
        let text = text.trim_start_matches(['_', '-', '.', ' ']);
        let end = text.find(|it: char| !it.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    if let Some(found) = lower.rfind("rank").and_then(|at| number(&lower[at + 4..])) {
        return Some(found);
    }
    let end = lower.rfind(|it: char| it.is_ascii_digit())? + 1;
    let begin = lower[..end].rfind(|it: char| !it.is_ascii_digit());
    lower[begin.map_or(0, |at| at + 1)..end].parse().ok()
}
