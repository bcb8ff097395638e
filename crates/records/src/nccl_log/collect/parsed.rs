//! Lines by themselves, whatever came before them.

use std::hash::BuildHasher;
use std::ops::Range;

use rustc_hash::FxBuildHasher;

use crate::nccl_log::message::{Heads, Level, Message, messages_after};
use crate::nccl_log::statement::{self, Statement};

/// A line, and what it says by itself.
#[derive(Debug)]
pub struct ParsedLine<'a> {
    /// The line.
    pub text: &'a str,
    /// The part of it that is of known form and has no words of other programs: the head of its
    /// first message if that is no warning, from the host's name to the text, and of a connection
    /// also the ranks, up to the transport.
    pub head: Option<Range<usize>>,
    /// Its message and what that means. `None`: it has several, which known names of hosts part.
    pub(super) only: Option<(Message<'a>, Statement<'a>)>,
}

impl<'a> ParsedLine<'a> {
    /// Reads a line.
    pub fn of(line: &'a str, known: &mut Known<'a>) -> Self {
        let mut first: Option<Message<'a>> = None;
        messages_after(line, &mut known.heads, |message| {
            first.get_or_insert(message);
        });
        let only = first.filter(|it| !it.is_interrupted);
        let only = only.map(|it| match (it.source, it.level) {
            (Some(_), Level::Info) => (it, known.statement(it.text)),
            _ => (it, statement_of(&it, line)),
        });
        let head = first.filter(|it| it.source.is_some());
        let head = head.filter(|it| it.level == Level::Info && it.place.is_none());
        let head = head.map(|message| {
            let begin = message.text.as_ptr() as usize - line.as_ptr() as usize;
            let ranks = match &only {
                Some((_, Statement::Connection(it))) => {
                    bytes_of_ranks(message.text, it.transport.text())
                }
                _ => 0,
            };
            message.begin..(begin + ranks).clamp(message.begin, line.len())
        });
        Self {
            text: line,
            head,
            only,
        }
    }

    /// Whether it says that a collective begins.
    pub fn is_call(&self) -> bool {
        matches!(self.only, Some((_, Statement::Operation(_))))
    }

    /// Its message, if it has one alone.
    pub fn message(&self) -> Option<Message<'a>> {
        self.only.as_ref().map(|it| it.0)
    }
}

/// Most texts that are remembered.
const MOST_TEXTS: usize = 64;

/// What is remembered of lines that are read together: ranks often say the same.
#[derive(Debug)]
pub struct Known<'a> {
    heads: Heads<'a>,
    /// By a hash a text, and what it means.
    texts: [Option<(&'a str, Statement<'a>)>; MOST_TEXTS],
}

impl Default for Known<'_> {
    fn default() -> Self {
        Self {
            heads: Heads::default(),
            texts: [const { None }; MOST_TEXTS],
        }
    }
}

impl<'a> Known<'a> {
    /// What the text of a message of NCCL means.
    fn statement(&mut self, text: &'a str) -> Statement<'a> {
        // Most lines are of channels, and seldom again the same.
        if text.starts_with("Channel ") {
            return statement::read(text);
        }
        let place = FxBuildHasher.hash_one(text) % MOST_TEXTS as u64;
        let last = &mut self.texts[place as usize];
        if let Some((known, statement)) = last
            && *known == text
        {
            return statement.clone();
        }
        let statement = statement::read(text);
        // A connection is also asked where in its line the transport is; lists would be copied.
        let is_short = !matches!(
            statement,
            Statement::Connection(_)
                | Statement::Ring { .. }
                | Statement::Trees { .. }
                | Statement::NvlsHead { .. }
                | Statement::Timings(_)
                | Statement::TableHead(_)
                | Statement::TableRow { .. }
        );
        if is_short {
            *last = Some((text, statement.clone()));
        }
        statement
    }
}

/// What a message of a line means.
pub(super) fn statement_of<'a>(message: &Message<'a>, line: &str) -> Statement<'a> {
    match (message.source, message.level) {
        (Some(_), Level::Info) => statement::read(message.text),
        (None, Level::Info | Level::Other) => match statement::read_bare(message.text) {
            // The head was lost, the text is whole.
            Statement::Unknown if message.text.len() < line.len() => statement::read(message.text),
            found => found,
        },
        _ => Statement::Unknown,
    }
}

/// Longest part of a connection's text that is taken for ranks alone, bytes:
/// `Channel 00/0 : 0[1b000] -> 8[1b000] [receive] via `.
const MOST_RANK_BYTES: usize = 64;

/// How many bytes of a connection's text come before its transport and the word before that, such
/// as `P2P/`; 0 if there are too many.
fn bytes_of_ranks(text: &str, transport: &str) -> usize {
    const BEFORE: usize = 4;
    let at = (transport.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let bytes = at.saturating_sub(BEFORE);
    match bytes <= MOST_RANK_BYTES && text.is_char_boundary(bytes) {
        true => bytes,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_read_the_same() {
        let texts = [
            "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
            "NCCL_IB_HCA set by environment to mlx5_0",
            "AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
            "Trees [0] 1/-1/-1->0->-1",
            "Ring 00 : 1 -> 0 -> 1",
            "Using network IB",
            "no such message",
            "",
        ];
        let heads = [
            "host-of-a-job:1234:5678 [0] NCCL INFO ",
            "host-of-a-job:1235:5679 [1] NCCL INFO ",
            "[1,3]<stdout>:host-of-a-job:1235:5679 [1] NCCL INFO ",
            "host-of-a-job:1234:5678 [0] init.cc:12 NCCL WARN ",
            "a:1:2 [0] NCCL INFO ",
            "other words ",
        ];
        let lines = heads
            .iter()
            .flat_map(|head| texts.map(|text| format!("{head}{text}")));
        let lines: Vec<String> = lines.collect();
        let mut known = Known::default();
        for line in lines.iter().chain(lines.iter().rev()) {
            let [one, other] =
                [&mut known, &mut Known::default()].map(|it| ParsedLine::of(line, it));
            let place = one.message().and_then(|it| it.place);
            let is_in_line = |it: &str| line.as_bytes().as_ptr_range().contains(&it.as_ptr());
            assert!(place.is_none_or(is_in_line), "{line}");
            assert_eq!((one.only, one.head), (other.only, other.head), "{line}");
        }
    }
}
