//! Names and phrases that had to be read twice, and comment lines that are too long.

use anyhow::Result;
use regex::Regex;

/// Parts of identifiers, between underscores or capitals, that gave way to the field's words.
const NAMES: &str = "board|desk|door|doorkeeper|far|fleet|foreign|lent|neighbourhood|stands|surroundings|ways?|wheel";

/// Types that were renamed; their words may be part of other names.
const TYPES: &str = "Facts|Joined";

/// Phrases for which plain English has a plain word. `~` is space, so that this list is no fault itself.
const PHRASES: &str =
    "who[e]ver|goes~on|go~on|went~on|stands~for|by~which|all~the~same|of~so~many|as~far~as";

/// Columns of a comment line, at most.
const COLUMNS: usize = 100;

/// Finds faults in sources and documents.
pub(super) struct Words {
    names: Regex,
    phrases: Regex,
    strings: Regex,
}

impl Words {
    pub fn new() -> Result<Self> {
        // A phrase may be broken between two lines of a comment.
        let phrases = PHRASES.replace('~', r"\s+(?://[/!]?\s+)?");
        Ok(Self {
            names: Regex::new(&format!(
                r"\b(?:\w+_)?(?:{NAMES})(?:_\w+)?\b|\b(?:{TYPES})\b"
            ))?,
            phrases: Regex::new(&format!(r"(?i)\b(?:{phrases})\b"))?,
            strings: Regex::new(r#""(?:[^"\\]|\\.)*""#)?,
        })
    }

    /// Returns the line number and a description of each fault in a source file.
    pub fn in_source(&self, text: &str) -> Vec<(usize, String)> {
        let mut faults = self.in_text(text);
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            let (code, _) = line.split_once("//").unwrap_or((line, ""));
            if code.trim().is_empty() && columns > COLUMNS {
                let fault = format!("a comment line of {columns} columns; {COLUMNS} are allowed");
                faults.push((number, fault));
            }
            let code = self.strings.replace_all(code, "");
            let names = self.names.find_iter(&code);
            faults.extend(names.map(|it| {
                (
                    number,
                    format!("`{}`: a name that was replaced", it.as_str()),
                )
            }));
        }
        faults
    }

    /// Returns the line number and a description of each fault in a document.
    pub fn in_text(&self, text: &str) -> Vec<(usize, String)> {
        let line = |at: usize| text[..at].lines().count().max(1);
        let found = self.phrases.find_iter(text);
        found
            .map(|it| {
                (
                    line(it.end()),
                    format!("\"{}\": say it in plain words", it.as_str()),
                )
            })
            .collect()
    }
}
