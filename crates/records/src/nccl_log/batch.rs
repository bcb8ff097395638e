//! Batches of lines: while one is taken, other threads parse the next one.

use std::hint::black_box;
use std::io::{BufRead, Result};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::nccl_log::line::Lines;
use crate::nccl_log::wrapper::is_frame;

/// Bytes of a batch, unless its last line is longer.
const BYTES: usize = 1 << 20;

/// Most lines of a batch, which may all be empty. What a line says takes a few hundred bytes.
const MOST_LINES: usize = 1 << 14;

/// Bytes of a part of a batch, which one thread parses. Starting a thread takes as long as parsing
/// a tenth of them.
const PART_BYTES: usize = 64 << 10;

/// Bytes below which the allocator keeps what a batch frees for the next one. glibc learns this
/// from the largest piece that was ever freed, if that is below 32 MiB; otherwise each batch pays
/// for new pages, a tenth of all.
const KEPT_BYTES: usize = (32 << 20) - (64 << 10);

/// Most threads that help: with more, the one that takes lines is the slowest.
const MOST_HELPERS: usize = 3;

/// Reads lines in two steps.
pub trait LineReader {
    /// What a line says by itself.
    type Parsed<'a>: Send;

    /// What is remembered of lines that are read together.
    type Memory<'a>: Default;

    /// Reads what a line says by itself, or after the line before it.
    fn parse<'a>(line: &'a str, before: &str, memory: &mut Self::Memory<'a>) -> Self::Parsed<'a>;

    /// Takes the next line.
    fn take(&mut self, parsed: Self::Parsed<'_>);
}

/// Reads all lines, with at most so many threads that help to parse them. `progress` is called now
/// and then with the bytes that were read.
///
/// # Errors
/// The stream cannot be read. The lines before are taken.
pub fn read<R: LineReader>(
    lines: &mut Lines<impl BufRead>,
    reader: &mut R,
    helpers: usize,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    drop(black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
    let [mut one, mut other] = [(); 2].map(|()| Batch::default());
    let mut outcome = Ok(());
    one.fill(lines, "", &mut outcome);
    let mut parsed = together(reader, Vec::new(), &one, helpers);
    loop {
        let before = one.before(one.count());
        other.fill(lines, before, &mut outcome);
        let next = together(reader, parsed, &other, helpers);
        progress(lines.bytes());
        let before = other.before(other.count());
        one.fill(lines, before, &mut outcome);
        parsed = together(reader, next, &one, helpers);
        progress(lines.bytes());
        if one.count() == 0 {
            return outcome;
        }
    }
}

/// Parses a batch while the lines of the one before are taken. Returns what the lines of each part
/// say.
fn together<'a, R: LineReader>(
    reader: &mut R,
    parsed: Vec<Vec<R::Parsed<'_>>>,
    batch: &'a Batch,
    helpers: usize,
) -> Vec<Vec<R::Parsed<'a>>> {
    // Lines may all be empty.
    let parts = batch.text.len().div_ceil(PART_BYTES).max(1);
    let next = AtomicUsize::new(0);
    // A thread that has time takes the next part.
    let work = || {
        let mut done = Vec::new();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return done;
            }
            done.push((part, batch.part::<R>(part, parts)));
        }
    };
    let mut done = thread::scope(|scope| {
        let helpers = helpers.min(MOST_HELPERS).min(parts - 1);
        let helpers: Vec<_> = (0..helpers)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        parsed.into_iter().flatten().for_each(|it| reader.take(it));
        let mut done = work();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|it| it.0);
    done.into_iter().map(|it| it.1).collect()
}

/// Lines, with the line before them.
#[derive(Debug)]
struct Batch {
    text: String,
    /// Where the line before and each line are in the text.
    places: Vec<Range<usize>>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            text: String::new(),
            places: vec![Range::default()],
        }
    }
}

impl Batch {
    /// Reads the next lines, none at the stream's end or after an error, in place of those before.
    fn fill(&mut self, lines: &mut Lines<impl BufRead>, before: &str, outcome: &mut Result<()>) {
        self.text.clear();
        self.text.push_str(before);
        self.places.clear();
        self.places.push(0..before.len());
        while outcome.is_ok() && self.text.len() < BYTES && self.count() < MOST_LINES {
            let room = (BYTES - self.text.len(), MOST_LINES - self.count());
            *outcome = match lines.plain(room, &mut self.text, &mut self.places) {
                Ok(0) => match lines.next() {
                    Ok(Some(line)) => {
                        let begin = self.text.len();
                        self.text.push_str(&line);
                        self.places.push(begin..self.text.len());
                        Ok(())
                    }
                    Ok(None) => break,
                    Err(error) => Err(error),
                },
                more => more.map(drop),
            };
        }
    }

    const fn count(&self) -> usize {
        self.places.len() - 1
    }

    /// A line; 0 is the one before the batch.
    fn line(&self, at: usize) -> &str {
        &self.text[self.places[at].clone()]
    }

    /// The last line up to one that does not only frame others.
    fn before(&self, last: usize) -> &str {
        let lines = (0..=last).rev().map(|at| self.line(at));
        lines.into_iter().find(|it| !is_frame(it)).unwrap_or("")
    }

    /// Parses one of equal parts of the lines.
    fn part<R: LineReader>(&self, number: usize, parts: usize) -> Vec<R::Parsed<'_>> {
        let [begin, end] = [number, number + 1].map(|it| it * self.count() / parts);
        let mut parsed = Vec::with_capacity(end - begin);
        let (mut before, mut memory) = (self.before(begin), R::Memory::default());
        for at in begin + 1..=end {
            let line = self.line(at);
            parsed.push(R::parse(line, before, &mut memory));
            before = if is_frame(line) { before } else { line };
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Checks that lines come in order, each with the line before it.
    #[derive(Default)]
    struct Numbers {
        count: usize,
        last: String,
    }

    impl LineReader for Numbers {
        type Parsed<'a> = (&'a str, String);

        type Memory<'a> = ();

        fn parse<'a>(line: &'a str, before: &str, (): &mut ()) -> Self::Parsed<'a> {
            (line, before.to_owned())
        }

        fn take(&mut self, (line, before): Self::Parsed<'_>) {
            assert_eq!(
                (line, before),
                (&*format!("line {}", self.count), self.last.clone())
            );
            line.clone_into(&mut self.last);
            self.count += 1;
        }
    }

    #[test]
    fn lines_keep_their_order_and_know_the_line_before() {
        for count in [0, 1, 1000, 200_000, 300_000] {
            let all: Vec<String> = (0..count).map(|it| format!("line {it}")).collect();
            let text = all.join("\n");
            let mut numbers = Numbers::default();
            let mut bytes = 0;
            let mut lines = Lines::new(text.as_bytes());
            read(&mut lines, &mut numbers, 1, |it| bytes = it).unwrap();
            assert_eq!((numbers.count, bytes), (count, text.len() as u64));
        }
    }

    /// Ends with an error.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }

    #[test]
    fn lines_before_an_error_are_taken() {
        for count in [0, 3, 200_000] {
            let text: String = (0..count).map(|it| format!("line {it}\n")).collect();
            let stream = std::io::BufReader::new(text.as_bytes().chain(Broken));
            let mut numbers = Numbers::default();
            let error = read(&mut Lines::new(stream), &mut numbers, 1, |_| {}).unwrap_err();
            assert_eq!((numbers.count, &*error.to_string()), (count, "broken"));
        }
    }

    #[test]
    fn empty_lines_fill_a_batch() {
        let text = "\n".repeat(2 * MOST_LINES + 1);
        let mut lines = Lines::new(text.as_bytes());
        let mut batch = Batch::default();
        for count in [MOST_LINES, MOST_LINES, 1, 0] {
            batch.fill(&mut lines, "", &mut Ok(()));
            assert_eq!(batch.count(), count);
        }
    }

    #[test]
    fn empty_lines_are_taken() {
        let mut collector = crate::nccl_log::Collector::default();
        let text = "\n".repeat(MOST_LINES + 2);
        collector.read("job.log", text.as_bytes(), |_| {}).unwrap();
        let counts = collector.counts();
        assert_eq!(
            (counts.lines, counts.others),
            (MOST_LINES as u64 + 2, MOST_LINES as u64 + 2)
        );
    }

    #[test]
    fn threads_share_a_batch() {
        let all: Vec<String> = (0..16_000).map(|it| format!("line {it}")).collect();
        let text = all.join("\n");
        let mut batch = Batch::default();
        batch.fill(&mut Lines::new(text.as_bytes()), "", &mut Ok(()));
        let mut numbers = Numbers::default();
        let parsed = together(&mut numbers, Vec::new(), &batch, 3);
        assert_eq!(parsed.len(), 3);
        together(&mut numbers, parsed, &Batch::default(), 3);
        assert_eq!(numbers.count, all.len());
    }
}
