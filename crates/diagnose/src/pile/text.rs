//! Texts: logs, reports and listings of any kind, line by line.

use std::io::{BufRead, Result};

use findings::causes::Subject;
use findings::facts::Meaning;
use records::Reader;
use records::evidence::watchdog;
use records::evidence::{inspector, ras};
use records::nccl_log::batch::{self, LineReader};
use records::nccl_log::line::Lines;
use records::nccl_log::wrapper::bare;
use records::nccl_log::{Known, ParsedLine};

use super::Pile;
use crate::events::{self, At, Event};
use crate::runs::{self, Run};
use crate::verdict::{Line, UNRECOGNIZED};
use crate::words::{Found, Words};
use crate::{beside, listing, outputs, timings};

/// What is read of a text so far.
struct TextReader<'p, 'a> {
    pile: &'p mut Pile,
    name: &'a str,
    /// The number of the line, from 1.
    number: u64,
    listing: Option<Reader<'a>>,
    ras: ras::Reader,
    run: Run,
    /// It has lines of PyTorch's watchdog.
    watchdog: bool,
    /// It has lines of NCCL's Inspector.
    inspector: bool,
    /// It has stacks of py-spy or gdb.
    stacks: bool,
}

impl LineReader for TextReader<'_, '_> {
    type Parsed<'a> = (ParsedLine<'a>, Found, Vec<Event<'a>>, bool);
    type Memory<'a> = Known<'a>;

    fn parse<'a>(line: &'a str, before: &str, known: &mut Known<'a>) -> Self::Parsed<'a> {
        let parsed = ParsedLine::of(line, known);
        // PyTorch prints the last warning below this line.
        let is_warning = ends_with(before, "Last error:");
        let found = Words::all().find(line, parsed.head.clone(), is_warning);
        let events = Event::all(line, parsed.message(), is_warning, found.fact);
        let is_limit = || ends_with(before, "ulimit -l") || line.starts_with("max locked memory");
        let is_unlimited = ends_with(line, "unlimited") && is_limit();
        (parsed, found, events, is_unlimited)
    }

    fn take(&mut self, (parsed, found, events, is_unlimited): Self::Parsed<'_>) {
        self.pile.events.is_unlimited |= is_unlimited;
        self.number += 1;
        let (name, number, line) = (self.name, self.number, parsed.text);
        let (message, is_call) = (parsed.message(), parsed.is_call());
        self.pile.log.line(parsed);
        if let Some(message) = message.filter(|_| is_call)
            && let Some(process) = events::process(&message)
        {
            let calls = &mut self.pile.collectives;
            calls.add(process, message.text, || Line::new(name, number, line));
        }
        let place = u32::try_from(number).unwrap_or(u32::MAX);
        // What NCCL logs is no listing.
        let is_logged = message.is_some_and(|it| it.source.is_some());
        let listing = self.listing.as_mut().filter(|_| !is_logged);
        // A matrix that contradicts itself shows nothing.
        if listing.is_some_and(|it| it.line(place, bare(line)).is_err()) {
            self.listing = None;
        }
        let event = match found.watchdog {
            true => watchdog::read(line),
            false if found.frame => watchdog::frame(line),
            false => None,
        };
        let is_event = event
            .as_ref()
            .is_some_and(|it| !matches!(it, watchdog::Event::Frame(_)));
        self.watchdog |= is_event;
        if let Some(event) = event {
            self.pile.timeouts.add(event, Line::new(name, number, line));
        }
        if found.inspector
            && let Some(ended) = inspector::read(line)
        {
            self.inspector = true;
            self.pile.late.add(ended, || Line::new(name, number, line));
        }
        if found.ras {
            self.ras.line(bare(line), number);
        }
        if found.output || self.pile.stacks.is_next {
            let of = || Line::new(name, number, line);
            self.stacks |= self.pile.stacks.line(bare(line), found.output, of);
            if let Some(meaning) = outputs::errors(bare(line)) {
                self.pile.meaning(meaning, At::default(), &of());
            }
        }
        if found.run {
            self.run.line(line, || Line::new(name, number, line));
        }
        // One line gives one verdict: what its event says, or what its words mean.
        let slow = found.timings.then(|| timings::cause(line)).flatten();
        if is_event {
            return;
        }
        let by_words = found.cause.or(slow);
        let mut is_known = false;
        for event in &events {
            let of = Line::new(name, number, line);
            is_known |= event.fact.is_some();
            if let Some(fact) = self.pile.events.add(event, by_words.is_some(), &of) {
                self.pile.meaning(fact.meaning, event.at(fact, line), &of);
            }
        }
        if let Some((cause, certainty)) = by_words.filter(|_| !is_known) {
            let of = Line::new(name, number, line);
            self.pile.meaning(
                Meaning::of(cause, certainty),
                At::of_line(line, |_| true),
                &of,
            );
        }
    }
}

/// Whether a line ends with a word, but for spaces.
fn ends_with(line: &str, word: &str) -> bool {
    match line.as_bytes().last() {
        Some(b'!'..=b'~') => line.ends_with(word),
        _ => line.trim_end().ends_with(word),
    }
}

impl Pile {
    /// Reads a text. Returns what it is, and that it was read.
    pub(super) fn text(
        &mut self,
        name: &str,
        stream: &mut dyn BufRead,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(String, bool)> {
        let helpers = self.helpers;
        let nccl = self.log.counts().recognized;
        self.log.begin(name);
        let first = stream.fill_buf()?;
        if memchr::memmem::find(first, b"\"pg_config\": {").is_some() {
            let says =
                "a flight recorder within other text is not read: give it as a file of its own";
            self.says.push(says.to_owned());
        }
        let listing = listing::is_listing(first).then(|| Reader::new(name));
        let mut text = TextReader {
            pile: self,
            name,
            number: 0,
            listing,
            ras: ras::Reader::default(),
            run: Run::default(),
            watchdog: false,
            inspector: false,
            stacks: false,
        };
        let mut lines = Lines::new(stream);
        batch::read(&mut lines, &mut text, helpers, progress)?;
        text.pile.log.end(lines.bytes());
        let TextReader {
            number,
            listing,
            ras,
            run,
            watchdog,
            inspector,
            stacks,
            ..
        } = text;
        runs::keep(&mut self.runs, run);
        let mut kinds = Vec::new();
        if self.log.counts().recognized > nccl {
            kinds.push("NCCL's log");
        }
        if watchdog {
            kinds.push("PyTorch's watchdog");
        }
        if inspector {
            kinds.push("NCCL's Inspector");
        }
        if stacks {
            kinds.push("stacks of threads");
            self.says.extend(self.stacks.says());
        }
        if let Some(report) = ras.finish() {
            kinds.push(self.keep(name, report));
        }
        match listing.map(Reader::finish) {
            Some(Ok(Some(facts))) => {
                kinds.push("listing of a machine");
                self.listing(name, &facts);
            }
            Some(Err(why)) if kinds.is_empty() => return Ok((why.to_string(), false)),
            _ => {}
        }
        Ok((kind_of_text(&kinds, number), true))
    }

    /// Notes a line of a cause, and who is at fault.
    fn meaning(&mut self, meaning: Meaning, at: At, of: &Line) {
        // Who reports a failure of another one is not at fault.
        let at = match meaning.cause.subject {
            Subject::Consequence => At::default(),
            _ => at,
        };
        for it in beside::with_others(meaning, &of.text) {
            self.hits.add(it, &at, Vec::new(), of.clone());
        }
    }
}

/// The kind of a text with this number of lines.
fn kind_of_text(kinds: &[&str], number: u64) -> String {
    let kind = match kinds.is_empty() {
        true => UNRECOGNIZED.to_owned(),
        false => kinds.join(", "),
    };
    let lines = match number {
        1 => "1 line".to_owned(),
        _ => format!("{number} lines"),
    };
    format!("{kind}, {lines}")
}
