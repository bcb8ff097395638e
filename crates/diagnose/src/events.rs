//! Events: what lines say, and who wrote them.

use std::collections::HashMap;

use findings::causes::Subject;
use findings::facts::{self, Fact, Said, Who, places};
use records::nccl_log::message::{Level, Message, NoHosts, messages};

use crate::process::Process;
use crate::verdict::{FirstError, Line, Told};

/// Most processes whose last code of CUDA is remembered.
const MOST_PROCESSES: usize = 1 << 14;

/// Most events that are told.
const MOST_TOLD: usize = 1 << 16;

/// A line passes an earlier code of its process on within so many lines of its input.
const NEAR: u64 = 64;

/// Who is at fault, by a line.
#[derive(Debug, Default)]
pub(crate) struct At {
    pub(crate) process: Option<Process>,
    pub(crate) hosts: Vec<String>,
    pub(crate) ranks: Vec<u32>,
}

impl At {
    /// A process and its host.
    pub(crate) fn of(process: Option<Process>) -> Self {
        Self {
            hosts: process.iter().map(|it| it.host.clone()).collect(),
            process,
            ranks: Vec::new(),
        }
    }

    /// Who logged the first message of NCCL in a line that fits.
    pub(crate) fn of_line(line: &str, fits: impl Fn(&str) -> bool) -> Self {
        let mut first = None;
        messages(line, &NoHosts, |message| {
            let logged = process(&message).filter(|_| fits(message.text));
            first = first.take().or(logged);
        });
        Self::of(first)
    }
}

/// What a line, or a warning of NCCL in it, says.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// The row of the tables; `None`: a warning that no table has.
    pub(crate) fact: Option<&'static Fact>,
    /// The warning, if it is one with NCCL's head.
    message: Option<Message<'a>>,
}

impl<'a> Event<'a> {
    /// The events of a line. `only`: its message, if it has one. `is_warning`: it is the text of a
    /// warning, without NCCL's head. `has_word`: it has a word of the tables.
    pub(crate) fn all(
        line: &'a str,
        only: Option<Message<'a>>,
        is_warning: bool,
        has_word: bool,
    ) -> Vec<Self> {
        let mut events = Vec::new();
        let mut add = |message: Message<'a>| {
            if message.level == Level::Warn {
                events.push(Self {
                    fact: facts::find(&Said::warning(message.text, place_of(line, &message))),
                    message: Some(message),
                });
            }
        };
        match only {
            Some(message) => add(message),
            None => messages(line, &NoHosts, add),
        }
        if !events.is_empty() {
            return events;
        }
        let found = match (is_warning, has_word) {
            (true, _) => facts::find(&Said::warning(line, None)),
            (false, true) => {
                let passed_on = wrapped(line).and_then(|it| facts::find(&Said::warning(it, None)));
                passed_on.or_else(|| facts::find(&Said::line(line)))
            }
            (false, false) => None,
        };
        events.extend(found.map(|fact| Self {
            fact: Some(fact),
            message: None,
        }));
        events
    }

    /// The process that wrote it, if the line says so.
    pub(crate) fn process(&self) -> Option<Process> {
        process(&self.message?)
    }

    /// What is told of it.
    pub(crate) fn told(&self, line: &Line) -> Told {
        let said = match &self.message {
            Some(message) => Said::warning(message.text, message.place),
            None => Said::line(&line.text),
        };
        let code = facts::code(&said).map(facts::Code::parts);
        let meaning = self.fact.map(|it| it.meaning);
        Told {
            line: line.clone(),
            process: self.process(),
            place: self.message.and_then(|it| it.place).map(str::to_owned),
            cause: meaning.map(|it| it.cause.id),
            certainty: meaning.map(|it| it.certainty.name()),
            code: code.map(|it| it.0),
            number: code.and_then(|it| it.1),
        }
    }

    /// Who is at fault by its row: who wrote it, unless that is the other side, and whom it names.
    pub(crate) fn at(&self, fact: &Fact, line: &str) -> At {
        let mut at = match self.message {
            _ if fact.meaning.is_of_peer => At::default(),
            Some(message) => At::of(process(&message)),
            None => At::of_line(line, |text| fact.is_in(text)),
        };
        if fact.is_of_pair {
            at.process = None;
        }
        for (who, word) in fact.named(self.message.map_or(line, |it| it.text)) {
            match who {
                Who::Rank => at.ranks.extend(word.parse::<u32>()),
                Who::Ranks => {
                    let numbers = word.split(|it: char| !it.is_ascii_digit());
                    at.ranks.extend(numbers.flat_map(str::parse::<u32>));
                }
                Who::Host => at.hosts.push(word.to_owned()),
            }
        }
        at
    }
}

/// What JAX and PyTorch write before NCCL's last warning.
const WRAPS: [&str; 2] = ["Last NCCL warning(error) log entry", "Last error: "];

/// NCCL's last warning, if another program passes it on in one line.
fn wrapped(line: &str) -> Option<&str> {
    WRAPS
        .iter()
        .find_map(|it| line.split_once(it))
        .map(|it| it.1)
}

/// Where a warning is in NCCL's sources, with the function that may follow.
fn place_of<'a>(line: &'a str, message: &Message<'a>) -> Option<&'a str> {
    let at = |text: &str| (text.as_ptr() as usize).checked_sub(line.as_ptr() as usize);
    line.get(at(message.place?)?..at(message.text)?)
}

/// The process that wrote a message, if it says so.
pub(crate) fn process(message: &Message<'_>) -> Option<Process> {
    let source = message.source?;
    Some(Process {
        host: source.host.to_owned(),
        number: source.process,
        gpu: source.gpu,
    })
}

/// What is kept of events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// By process the input and the line of its last code of CUDA.
    codes: HashMap<Process, (String, u64)>,
    /// The first error that no table explains, or that only passes another one on.
    first: Option<FirstError>,
    /// Warnings that no table has.
    unknown: u64,
    /// A line says that memory may be locked without limit.
    pub(crate) is_unlimited: bool,
    /// All events, the first ones, if they are to be told.
    pub(crate) told: Option<Vec<Told>>,
}

impl Events {
    /// Notes an event. Returns the row that says what it means; `None`: it means nothing by itself.
    pub(crate) fn add(
        &mut self,
        event: &Event<'_>,
        is_known: bool,
        line: &Line,
    ) -> Option<&'static Fact> {
        if let Some(told) = self.told.as_mut().filter(|it| it.len() < MOST_TOLD) {
            told.push(event.told(line));
        }
        let process = event.process().unwrap_or_default();
        let number = line.number.unwrap_or(0);
        let Some(fact) = event.fact else {
            if event.message.is_some() && !is_known {
                self.unknown += 1;
                self.keep(event, None, line);
            }
            return None;
        };
        let is_near = |(input, at): &(String, u64)| *input == line.input && number <= at + NEAR;
        if fact.follows_code && self.codes.get(&process).is_some_and(is_near) {
            return None;
        }
        if event
            .message
            .is_some_and(|it| it.text.contains("uda failure"))
            && self.codes.len() < MOST_PROCESSES
        {
            self.codes.insert(process, (line.input.clone(), number));
        }
        match fact.meaning.cause.subject {
            Subject::Harmless => None,
            _ if fact.meaning.cause.id == "earlier-failure" => {
                self.keep(event, Some(fact), line);
                None
            }
            _ => Some(fact),
        }
    }

    /// Keeps the first error; one that no table has is told before one that passes another on.
    fn keep(&mut self, event: &Event<'_>, fact: Option<&'static Fact>, line: &Line) {
        let is_better = match &self.first {
            None => true,
            Some(first) => fact.is_none() && first.is_passed_on,
        };
        if is_better {
            let place = event.message.and_then(|it| it.place);
            self.first = Some(FirstError {
                line: line.clone(),
                process: event.process(),
                rank: None,
                place: place.map(str::to_owned),
                of_place: place.and_then(places::of),
                means: fact.map(|it| it.meaning.means),
                advice: fact.map(|it| it.meaning.advice),
                is_passed_on: fact.is_some(),
            });
        }
    }

    /// The first error that no cause explains, and the number of warnings that no table has.
    pub(crate) fn finish(self) -> (Option<FirstError>, u64) {
        (self.first, self.unknown)
    }
}
