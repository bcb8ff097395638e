//! Lines by themselves, whatever came before them.

use std::ops::Range;

use crate::message::{Level, Message, messages_after};
use crate::statement::{self, Statement};

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
    /// Reads a line. `last`: the line before, if that was read with it.
    pub fn of(line: &'a str, last: Option<&Self>) -> Self {
        let mut first: Option<Message<'a>> = None;
        let last = last.and_then(|it| Some((it.text, it.message()?)));
        messages_after(line, last, |message| {
            first.get_or_insert(message);
        });
        let only = first.filter(|it| !it.is_interrupted);
        let only = only.map(|it| (it, statement_of(&it, line)));
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

    /// Its message, if it has one alone.
    pub fn message(&self) -> Option<Message<'a>> {
        self.only.as_ref().map(|it| it.0)
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
