//! Collects warnings so that a file with a thousand oddities of one kind gives a handful of them.

use crate::error::{Place, Warning};

/// Different warnings of one kind that are listed one by one; the rest is only counted.
const LISTED_PER_KIND: usize = 8;

/// Warnings in the order of their first place.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Note {
    kind: &'static str,
    detail: Box<str>,
    warning: Warning,
    times: usize,
    others: usize,
}

impl Notes {
    /// Adds a warning. Equal kind and `detail` are one warning with a count. Place and message are
    /// made only for the first.
    pub(super) fn add(
        &mut self,
        kind: &'static str,
        detail: &str,
        place: impl FnOnce() -> Place,
        message: impl FnOnce() -> String,
    ) {
        let mut listed = 0;
        let mut last = None;
        for (index, note) in self
            .notes
            .iter_mut()
            .enumerate()
            .filter(|(_, note)| note.kind == kind)
        {
            if *note.detail == *detail {
                note.times += 1;
                return;
            }
            listed += 1;
            last = Some(index);
        }
        match last.and_then(|index| self.notes.get_mut(index)) {
            Some(note) if listed >= LISTED_PER_KIND => note.others += 1,
            _ => self.notes.push(Note {
                kind,
                detail: detail.into(),
                warning: Warning {
                    place: place(),
                    message: message(),
                },
                times: 1,
                others: 0,
            }),
        }
    }

    /// The warnings.
    pub(super) fn into_warnings(self) -> Vec<Warning> {
        let finish = |note: Note| {
            let mut warning = note.warning;
            if note.times > 1 {
                warning
                    .message
                    .push_str(&format!(" ({} times in this file, first here)", note.times));
            }
            if note.others > 0 {
                warning.message.push_str(&format!(
                    " (and {} more of this kind in this file)",
                    note.others
                ));
            }
            warning
        };
        self.notes.into_iter().map(finish).collect()
    }
}

/// Text from a file, shortened and escaped for a terminal.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 48;
    let mut excerpt = String::from("`");
    let mut characters = text.chars();
    for character in characters.by_ref().take(LONGEST) {
        match character {
            '"' | '\'' | '\\' => excerpt.push(character),
            _ => excerpt.extend(character.escape_debug()),
        }
    }
    excerpt.push_str(if characters.next().is_some() {
        "…`"
    } else {
        "`"
    });
    excerpt
}
