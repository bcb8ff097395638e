//! Runs of nccl-tests that differ in one setting: the faster one shows a cause.

use std::collections::BTreeMap;

use findings::causes::Cause;
use findings::causes::Certainty::Likely;
use findings::causes::table::{network, speed};

use memchr::memmem;

use crate::verdict::{Line, Verdict};

/// The beginnings of what is read: the arguments, the program, a rank, a setting, the result.
pub(crate) const WORDS: [&str; 5] = [ARGUMENTS, PROGRAM, " Pid ", SET, RESULT];
const ARGUMENTS: &str = "# nThread ";
const PROGRAM: &str = "# Collective test starting: ";
const SET: &str = " set by environment to ";
const RESULT: &str = "# Avg bus bandwidth";

/// Most settings of a run, and most runs.
const MOST_SETTINGS: usize = 256;
const MOST_RUNS: usize = 64;

/// Two runs of one job differ by less.
const FASTER: f64 = 1.1;

/// The settings whose effect shows a cause, and which run must be the faster one.
const SETTINGS: [(&str, Faster, &Cause); 4] = [
    (
        "NCCL_NCHANNELS_PER_NET_PEER",
        Faster::With,
        &speed::FEW_PEER_CHANNELS,
    ),
    ("NCCL_SYM_CTAS", Faster::With, &speed::SYMMETRIC_FEW_CTAS),
    (
        "NCCL_PROFILER_PLUGIN",
        Faster::Without,
        &speed::PROFILER_COST,
    ),
    ("NCCL_CROSS_NIC", Faster::Either, &network::NIC_SPLIT),
];

/// Which run is the faster one.
#[derive(PartialEq, Eq)]
enum Faster {
    With,
    Without,
    Either,
}

/// A run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    arguments: String,
    program: String,
    ranks: usize,
    settings: BTreeMap<String, String>,
    /// The average bus bandwidth, GB/s, and its line.
    result: Option<(f64, Line)>,
    /// There are several tables, so nobody knows to which the settings belong.
    is_mixed: bool,
}

impl Run {
    /// Reads a line with one of the words.
    pub(crate) fn line(&mut self, line: &str, of: impl FnOnce() -> Line) {
        let place = |word: &str| memmem::find(line.as_bytes(), word.as_bytes());
        let after = |word: &str| {
            let rest = &line[place(word)? + word.len()..];
            // Other output may follow in the line.
            Some(rest.split(word).next()?.trim())
        };
        if !line.contains('#') {
            self.setting(line, place(SET));
            return;
        }
        if let Some(arguments) = after(ARGUMENTS) {
            self.is_mixed |= !self.arguments.is_empty();
            self.arguments = arguments.chars().take(300).collect();
        } else if let Some(program) = after(PROGRAM) {
            self.program = program.chars().take(80).collect();
        } else if let Some(result) = after(RESULT) {
            let value = result.trim_start_matches([':', ' ']).parse().ok();
            self.is_mixed |= self.result.is_some();
            self.result = value
                .filter(|it: &f64| it.is_finite() && *it > 0.0)
                .map(|it| (it, of()));
        } else if !self.setting(line, place(SET)) {
            self.ranks += usize::from(line.contains("Rank "));
        }
    }

    /// Notes the setting before this place of a line. Returns `true` if there is a place.
    fn setting(&mut self, line: &str, place: Option<usize>) -> bool {
        let Some(place) = place else {
            return false;
        };
        let (before, rest) = (&line[..place], &line[place + SET.len()..]);
        // Another message may follow in the line.
        let value = rest.split(SET).next().unwrap_or(rest).trim();
        let name = before.rsplit(' ').next();
        let name = name.filter(|it| it.starts_with("NCCL_"));
        if let Some(name) = name
            && self.settings.len() < MOST_SETTINGS
        {
            let value = value.trim_end_matches('.').chars().take(80).collect();
            self.settings.insert(name.to_owned(), value);
        }
        true
    }

    /// Whether it can be compared: a log without settings does not say that there are none.
    fn is_whole(&self) -> bool {
        self.result.is_some() && !self.is_mixed && !self.settings.is_empty()
    }
}

/// Keeps a run that can be compared.
pub(crate) fn keep(runs: &mut Vec<Run>, run: Run) {
    if run.is_whole() && runs.len() < MOST_RUNS {
        runs.push(run);
    }
}

/// A verdict for each cause that two runs show.
pub(crate) fn verdicts(runs: &[Run]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    for (place, one) in runs.iter().enumerate() {
        for other in &runs[..place] {
            let found = compare(one, other);
            verdicts
                .extend(found.filter(|found| verdicts.iter().all(|it| it.cause != found.cause)));
        }
    }
    verdicts
}

fn compare(one: &Run, other: &Run) -> Option<Verdict> {
    let is_one_job = one.arguments == other.arguments
        && one.program == other.program
        && one.ranks == other.ranks;
    let (first, second) = (one.result.as_ref()?, other.result.as_ref()?);
    let (fast, slow) = match first.0 > second.0 {
        true => (one, other),
        false => (other, one),
    };
    let names = one.settings.keys().chain(other.settings.keys());
    let mut names = names.filter(|it| one.settings.get(*it) != other.settings.get(*it));
    let name = names.next()?;
    if !is_one_job || names.any(|it| it != name) {
        return None;
    }
    let (_, faster, cause) = SETTINGS.iter().find(|it| it.0 == name)?;
    let fits = match faster {
        Faster::With => fast.settings.contains_key(name) && !slow.settings.contains_key(name),
        Faster::Without => !fast.settings.contains_key(name) && slow.settings.contains_key(name),
        Faster::Either => true,
    };
    let [(more, line), (less, other_line)] = [fast.result.as_ref()?, slow.result.as_ref()?];
    if !fits || *more < FASTER * less {
        return None;
    }
    let value = |it: &Run| match it.settings.get(name) {
        Some(value) => format!("with {name}={value}"),
        None => format!("without {name}"),
    };
    let what = format!(
        "{more:.1} GB/s on average {}, {less:.1} GB/s {}; nothing else that the logs name differs.",
        value(fast),
        value(slow)
    );
    Some(Verdict {
        lines: vec![line.clone(), other_line.clone()],
        ..Verdict::new(cause, Likely, what)
    })
}
