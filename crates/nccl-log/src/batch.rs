//! Batches of lines: while one is taken, other threads parse the next one.

use std::io::{BufRead, Result};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::line::Lines;

/// Bytes of a batch, unless its last line is longer.
const BYTES: usize = 1 << 20;

/// Most lines of a batch, which may all be empty. What a line says takes a few hundred bytes.
const MOST_LINES: usize = 1 << 14;

/// Bytes of a part of a batch, which one thread parses. Starting a thread takes as long as parsing
/// a tenth of them.
const PART_BYTES: usize = 64 << 10;

/// Most threads that help: with more, the one that takes lines is the slowest.
const MOST_HELPERS: usize = 3;

/// Reads lines in two steps.
pub trait LineReader {
    /// What a line says by itself.
    type Parsed<'a>: Send;

    /// Reads what a line says by itself, or after the line before it.
    fn parse<'a>(line: &'a str, before: &str) -> Self::Parsed<'a>;

    /// Takes the next line.
    fn take(&mut self, parsed: Self::Parsed<'_>);
}

/// Reads all lines. `progress` is called now and then with the bytes that were read.
///
/// # Errors
/// The stream cannot be read.
pub fn read<R: LineReader>(
    lines: &mut Lines<impl BufRead>,
    reader: &mut R,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let [mut one, mut other] = [(); 2].map(|()| Batch::default());
    one.fill(lines, "")?;
    let mut parsed = together(reader, Vec::new(), &one);
    loop {
        let before = one.line(one.count());
        other.fill(lines, before)?;
        let next = together(reader, parsed, &other);
        progress(lines.bytes());
        let before = other.line(other.count());
        one.fill(lines, before)?;
        parsed = together(reader, next, &one);
        progress(lines.bytes());
        if one.count() == 0 {
            return Ok(());
        }
    }
}

/// Parses a batch while the lines of the one before are taken. Returns what the lines of each part
/// say.
fn together<'a, R: LineReader>(
    reader: &mut R,
    parsed: Vec<Vec<R::Parsed<'_>>>,
    batch: &'a Batch,
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
        let helpers = batch.helpers.min(parts.saturating_sub(1));
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
    /// Where the line before and each line end in the text.
    ends: Vec<usize>,
    /// Threads that help to parse it.
    helpers: usize,
}

impl Default for Batch {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            text: String::new(),
            ends: vec![0],
            helpers: (threads - 1).min(MOST_HELPERS),
        }
    }
}

impl Batch {
    /// Reads the next lines, none at the stream's end, in place of those before.
    fn fill(&mut self, lines: &mut Lines<impl BufRead>, before: &str) -> Result<()> {
        self.text.clear();
        self.text.push_str(before);
        self.ends.clear();
        self.ends.push(before.len());
        while self.text.len() < BYTES && self.count() < MOST_LINES {
            let Some(line) = lines.next()? else {
                break;
            };
            self.text.push_str(&line);
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    const fn count(&self) -> usize {
        self.ends.len() - 1
    }

    /// A line; 0 is the one before the batch.
    fn line(&self, at: usize) -> &str {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[at]]
    }

    /// Parses one of equal parts of the lines.
    fn part<R: LineReader>(&self, number: usize, parts: usize) -> Vec<R::Parsed<'_>> {
        let [begin, end] = [number, number + 1].map(|it| it * self.count() / parts);
        let lines = begin + 1..=end;
        lines
            .map(|at| R::parse(self.line(at), self.line(at - 1)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that lines come in order, each with the line before it.
    #[derive(Default)]
    struct Numbers {
        count: usize,
        last: String,
    }

    impl LineReader for Numbers {
        type Parsed<'a> = (&'a str, String);

        fn parse<'a>(line: &'a str, before: &str) -> Self::Parsed<'a> {
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
            read(&mut lines, &mut numbers, |it| bytes = it).unwrap();
            assert_eq!((numbers.count, bytes), (count, text.len() as u64));
        }
    }

    #[test]
    fn empty_lines_fill_a_batch() {
        let text = "\n".repeat(2 * MOST_LINES + 1);
        let mut lines = Lines::new(text.as_bytes());
        let mut batch = Batch::default();
        for count in [MOST_LINES, MOST_LINES, 1, 0] {
            batch.fill(&mut lines, "").unwrap();
            assert_eq!(batch.count(), count);
        }
    }

    #[test]
    fn empty_lines_are_taken() {
        let mut collector = crate::Collector::default();
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
        let mut batch = Batch {
            helpers: 3,
            ..Batch::default()
        };
        batch.fill(&mut Lines::new(text.as_bytes()), "").unwrap();
        let mut numbers = Numbers::default();
        let parsed = together(&mut numbers, Vec::new(), &batch);
        assert_eq!(parsed.len(), 3);
        together(&mut numbers, parsed, &Batch::default());
        assert_eq!(numbers.count, all.len());
    }
}
