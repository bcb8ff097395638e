//! The words that readers and causes look for, found in one pass over a line.

use std::ops::Range;
use std::sync::LazyLock;

use findings::causes::{Cause, Certainty, Scope, Subject};
use findings::facts::{self, Meaning};
use records::evidence::{inspector, ras, watchdog};

use crate::events::At;
use crate::parts::Parts;
use crate::process::Process;
use crate::verdict::{Line, MOST_LINES, Verdict, sentence};
use crate::{outputs, runs, timings};

/// Most devices of a verdict.
const MOST_DEVICES: usize = 64;

/// Most ranks of a verdict.
const MOST_RANKS: usize = 64;

/// Who looks for a word.
#[derive(Debug, Clone, Copy)]
enum Seeker {
    Watchdog,
    Frame,
    Ras,
    Inspector,
    Timings,
    Run,
    Output,
    /// The tables of lines.
    Fact,
    /// A cause's sign, by their places.
    Sign(&'static Cause, usize),
}

/// The words of all readers and causes.
#[derive(Debug)]
pub(crate) struct Words {
    parts: Parts,
    seekers: Vec<Seeker>,
}

/// Who should read a line.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) watchdog: bool,
    pub(crate) frame: bool,
    pub(crate) ras: bool,
    pub(crate) inspector: bool,
    pub(crate) timings: bool,
    pub(crate) run: bool,
    /// Output of a command that advice asks for.
    pub(crate) output: bool,
    /// It has a word of the tables of lines.
    pub(crate) fact: bool,
    /// The first cause whose words are in the line.
    pub(crate) cause: Option<(&'static Cause, Certainty)>,
}

/// Made once.
static ALL: LazyLock<Words> = LazyLock::new(Words::new);

impl Words {
    /// The words of all readers and causes.
    pub(crate) fn all() -> &'static Self {
        &ALL
    }

    fn new() -> Self {
        let mut words: Vec<&'static str> = Vec::new();
        let mut seekers = Vec::new();
        for word in watchdog::WORDS {
            words.push(word);
            seekers.push(Seeker::Watchdog);
        }
        for word in ras::WORDS {
            words.push(word);
            seekers.push(Seeker::Ras);
        }
        words.push(watchdog::FRAME);
        seekers.push(Seeker::Frame);
        words.push(inspector::WORD);
        seekers.push(Seeker::Inspector);
        words.push(timings::WORD);
        seekers.push(Seeker::Timings);
        for word in runs::WORDS {
            words.push(word);
            seekers.push(Seeker::Run);
        }
        for word in outputs::words() {
            words.push(word);
            seekers.push(Seeker::Output);
        }
        for word in facts::words() {
            words.push(word);
            seekers.push(Seeker::Fact);
        }
        for cause in findings::causes::all() {
            for (place, sign) in cause.signs.iter().enumerate() {
                words.extend(sign.words.iter().max_by_key(|it| it.len()));
                seekers.push(Seeker::Sign(cause, place));
            }
        }
        Self {
            parts: Parts::of(words),
            seekers,
        }
    }

    /// Who should read a line. `head`: a part of it without words. `is_warning`: it is the text
    /// of a warning, without NCCL's head.
    pub(crate) fn find(&self, line: &str, head: Option<Range<usize>>, is_warning: bool) -> Found {
        let mut found = Found::default();
        // No word is in a head, which is a third of many lines.
        let parts = head.and_then(|it| Some([line.get(..it.start)?, line.get(it.end..)?]));
        let [before, behind] = parts.unwrap_or(["", line]);
        let mut first = usize::MAX;
        for part in [before, behind] {
            self.parts
                .find(part, |place| match self.seekers.get(place) {
                    Some(Seeker::Watchdog) => found.watchdog = true,
                    Some(Seeker::Frame) => found.frame = true,
                    Some(Seeker::Ras) => found.ras = true,
                    Some(Seeker::Inspector) => found.inspector = true,
                    Some(Seeker::Timings) => found.timings = true,
                    Some(Seeker::Run) => found.run = true,
                    Some(Seeker::Output) => found.output = true,
                    Some(Seeker::Fact) => found.fact = true,
                    Some(Seeker::Sign(cause, sign)) if place < first => {
                        let Some(sign) = cause.signs.get(*sign) else {
                            return;
                        };
                        let counts = match sign.scope {
                            Scope::Anywhere => true,
                            Scope::Message => line.contains("NCCL "),
                            Scope::Warning => {
                                is_warning
                                    || line.contains("NCCL WARN ")
                                    || line.contains("NCCL ERROR ")
                            }
                        };
                        if counts && sign.is_in(line) {
                            first = place;
                            found.cause = Some((cause, sign.certainty));
                        }
                    }
                    _ => {}
                });
        }
        found
    }
}

/// A cause whose words were in lines.
#[derive(Debug)]
pub(crate) struct Hit {
    /// What the first of the surest lines means.
    meaning: Meaning,
    /// Which line of all inputs was the first; `None`: a listing shows it.
    first: Option<u64>,
    count: u64,
    lines: Vec<Line>,
    hosts: Vec<String>,
    devices: Vec<String>,
    ranks: Vec<u32>,
    processes: Vec<Process>,
}

/// The causes whose words were in lines.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    hits: Vec<Hit>,
    /// Lines that were noted.
    added: u64,
}

impl Hits {
    /// Notes a line of a cause.
    pub(crate) fn add(&mut self, meaning: Meaning, at: &At, devices: Vec<String>, line: Line) {
        self.added += 1;
        let place = self
            .hits
            .iter()
            .position(|it| it.meaning.cause == meaning.cause);
        let place = place.unwrap_or_else(|| {
            self.hits.push(Hit {
                meaning,
                first: line.number.map(|_| self.added),
                count: 0,
                lines: Vec::new(),
                hosts: Vec::new(),
                devices: Vec::new(),
                ranks: Vec::new(),
                processes: Vec::new(),
            });
            self.hits.len() - 1
        });
        let hit = &mut self.hits[place];
        // Lines of another certainty say something else.
        if meaning.certainty < hit.meaning.certainty {
            hit.meaning = meaning;
            hit.lines.clear();
        }
        hit.count += 1;
        if hit.lines.len() < MOST_LINES {
            hit.lines.push(line);
        }
        let room = MOST_DEVICES.saturating_sub(hit.devices.len());
        hit.devices.extend(devices.into_iter().take(room));
        add_new(&mut hit.hosts, &at.hosts, MOST_LINES);
        add_new(&mut hit.ranks, &at.ranks, MOST_RANKS);
        add_new(&mut hit.processes, at.process.as_slice(), MOST_RANKS);
    }

    /// Takes the verdict of a cause whose words count only beside other evidence.
    pub(crate) fn take(&mut self, cause: &Cause) -> Option<Verdict> {
        let place = self.hits.iter().position(|it| it.meaning.cause == cause)?;
        Some(self.hits.remove(place).verdict())
    }

    /// A verdict for each cause.
    pub(crate) fn verdicts(self) -> impl Iterator<Item = Verdict> {
        let kept = self.hits.into_iter();
        let kept = kept.filter(|it| it.meaning.cause.subject != Subject::Harmless);
        kept.map(Hit::verdict)
    }
}

/// Adds what is not there, while there is room.
fn add_new<T: Clone + PartialEq>(all: &mut Vec<T>, more: &[T], most: usize) {
    for it in more {
        if all.len() < most && !all.contains(it) {
            all.push(it.clone());
        }
    }
}

impl Hit {
    fn verdict(self) -> Verdict {
        let times = match self.count {
            1 => String::new(),
            count => format!(" ({count} lines say so)"),
        };
        let what = format!("{}{times}.", sentence(self.meaning.means));
        Verdict {
            hosts: self.hosts,
            devices: self.devices,
            ranks: self.ranks,
            processes: self.processes,
            lines: self.lines,
            next: vec![self.meaning.advice.to_owned()],
            first: self.first,
            ..Verdict::new(self.meaning.cause, self.meaning.certainty, what)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_reaches_into_a_head() {
        let mut words = Vec::from(watchdog::WORDS);
        words.extend(ras::WORDS);
        words.extend(runs::WORDS);
        words.extend(outputs::words());
        words.extend([watchdog::FRAME, inspector::WORD, timings::WORD]);
        words.extend(facts::words());
        words.extend(
            findings::causes::all()
                .flat_map(|it| it.signs)
                .flat_map(|it| it.words),
        );
        for word in words {
            assert!(
                !word.contains("NCCL INFO") && !word.contains(" ["),
                "{word}"
            );
        }
    }

    #[test]
    fn words_are_found_before_and_behind_a_head() {
        let words = Words::all();
        let line = "too many XML nodes  n1:2:3 [0] NCCL INFO Connected";
        let head = Some(20..40);
        assert_eq!(&line[20..40], "n1:2:3 [0] NCCL INFO");
        assert!(words.find(line, head, true).cause.is_some());
        let line = "DEAD:2:3 [0] NCCL INFO dump signal";
        let found = words.find(line, Some(0..23), false);
        assert!(found.watchdog && !found.ras);
        assert!(words.find(line, None, false).ras);
    }
}
