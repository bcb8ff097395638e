//! Names and phrases that had to be read twice, and comment lines that are too long.

use anyhow::Result;
use regex::{Captures, Regex};

/// Parts of identifiers, between underscores or capitals, that gave way to the field's words.
const NAMES: &str = "board|desk|door|doorkeeper|far|fleet|foreign|islands?|lent|neighbourhood|stands|surroundings|ways?|wheel";

/// Identifiers with such a part that are plain English.
const ALLOWED: [&str; 2] = ["one_way", "so_far"];

/// Types that were renamed; their words may be part of other names.
const TYPES: &str = "Facts|Joined";

/// Phrases for which plain English has a plain word. `~` is space, so that this list is no fault
/// itself.
const PHRASES: &str =
    "who[e]ver|goes~on|go~on|went~on|stands~for|by~which|all~the~same|of~so~many|as~far~as";

/// Parts of `NAMES` that error texts may have: Python's packages are wheels.
const IN_ERRORS: [&str; 4] = ["wheel", "far", "way", "ways"];

/// Crates whose texts may name commands and options of `topo`: the program, its commands, chores
/// and tests of it.
pub(super) const DOORS: [&str; 5] = ["cli", "xtask", "bench", "nccl-binary", "testkit"];

/// Options of other programs that library texts name: nvcc's, Docker's, pip's and Cargo's, and
/// `--version`, which programs have.
const OTHER_OPTIONS: &str = "std=|gpu-architecture=|gpus all|shm-size|ipc=host|profile library\
    |no-deps|hash=|quiet|no-input|disable-pip-version-check|retries=|only-binary=|platform=|dest\
    |requirement|version";

/// Words with which no title begins: a noun says it.
const CLAUSES: [&str; 7] = ["What", "How", "Which", "Where", "Whether", "Why", "When"];

/// Columns of a comment line, at most.
const COLUMNS: usize = 100;

/// Finds faults in sources and documents.
pub(super) struct Words {
    names: Regex,
    phrases: Regex,
    no_code: Regex,
    errors: Regex,
    word: Regex,
    not_run: Regex,
    strings: Regex,
    options: Regex,
    hint: Regex,
    other_options: Regex,
}

impl Words {
    pub(super) fn new() -> Result<Self> {
        // A phrase may be broken between two lines of a comment.
        let phrases = PHRASES.replace('~', r"\s+(?://[/!]?\s+)?");
        Ok(Self {
            names: Regex::new(&format!(
                r"\b(?:\w+_)?(?:{NAMES})(?:_\w+)?\b|\b(?:{TYPES})\b"
            ))?,
            phrases: Regex::new(&format!(r"(?i)\b(?:{phrases})\b"))?,
            errors: Regex::new(
                r#"(?s)(?:#\[error\(|bail!\(|anyhow!\(|context\()\s*"((?:[^"\\]|\\.)*)""#,
            )?,
            word: Regex::new(&format!(r"\b(?:{NAMES})\b"))?,
            not_run: Regex::new(concat!(
                r#"(?s)(?:print|println|writeln)!\([^;]*?"not"#,
                " run"
            ))?,
            strings: Regex::new(
                r##"(?s)//[^\n]*|'(?:[^'\\]|\\.)'|r#"(?<raw>.*?)"#|"(?<plain>(?:[^"\\]|\\.)*)""##,
            )?,
            hint: Regex::new(r#"\bhint\(\s*(?:format!\(\s*)?"$"#)?,
            options: Regex::new(r"(?:^|[^\w-])--[a-z]|`topo ")?,
            other_options: Regex::new(&format!(r"--(?:{OTHER_OPTIONS})"))?,
            // Comments, strings and characters.
            no_code: Regex::new(r##"(?s)//[^\n]*|r#".*?"#|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'"##)?,
        })
    }

    /// Returns the line number and a description of each fault in a source file.
    pub(super) fn in_source(&self, text: &str) -> Vec<(usize, String)> {
        let mut faults = self.in_text(text);
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            let is_comment = ["//", "/*", "* "]
                .iter()
                .any(|it| line.trim_start().starts_with(it));
            if is_comment && columns > COLUMNS {
                let fault = format!("a comment line of {columns} columns; {COLUMNS} are allowed");
                faults.push((number, fault));
            }
        }
        let title = text.strip_prefix("//! ").unwrap_or_default();
        if CLAUSES.iter().any(|it| title.split(' ').next() == Some(it)) {
            faults.push((1, "a title that is a clause; name the thing".to_owned()));
        }
        let line = |at: usize| text[..at].lines().count().max(1);
        for found in self.errors.captures_iter(text) {
            let (Some(error), Some(said)) = (found.get(0), found.get(1)) else {
                continue;
            };
            let words = self.word.find_iter(said.as_str()).map(|it| it.as_str());
            let words = words.filter(|it| !IN_ERRORS.contains(it));
            faults.extend(words.map(|it| {
                let fault = format!("`{it}` in an error: a word that was replaced");
                (line(error.start()), fault)
            }));
        }
        let keep_lines = |found: &Captures<'_>| "\n".repeat(found[0].matches('\n').count());
        let code = self.no_code.replace_all(text, keep_lines);
        for (line, number) in code.lines().zip(1..) {
            let names = self.names.find_iter(line).map(|it| it.as_str());
            let names = names.filter(|it| !ALLOWED.contains(it));
            faults.extend(names.map(|it| (number, format!("`{it}`: a name that was replaced"))));
        }
        faults
    }

    /// Returns the line number and a description of each fault that only a library has: texts that
    /// name commands or options of the program, which callers from C, Python and a page lack.
    pub(super) fn in_library(&self, text: &str) -> Vec<(usize, String)> {
        let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        let mut faults = Vec::new();
        for found in self.strings.captures_iter(text) {
            let Some(said) = found.name("raw").or_else(|| found.name("plain")) else {
                continue;
            };
            let rest = self.other_options.replace_all(said.as_str(), "");
            // What a page hands to `hint` is shown by the program only.
            if self.options.is_match(&rest) && !self.hint.is_match(&text[..said.start()]) {
                let fault = "a library's text names a command or an option of topo; hand it to `hint` \
                             of a page, or let the program's `hints` add it";
                let line = text[..said.start()].lines().count().max(1);
                faults.push((line, fault.to_owned()));
            }
        }
        faults
    }

    /// Returns the line number and a description of each fault that only tests have.
    pub(super) fn in_test(&self, text: &str) -> Vec<(usize, String)> {
        let found = self.not_run.find_iter(text);
        let fault = "a test that did not run passes; end it with `Completion::ignored_with`";
        let line = |at: usize| text[..at].lines().count();
        found.map(|it| (line(it.end()), fault.to_owned())).collect()
    }

    /// Returns the line number and a description of each fault in a document.
    pub(super) fn in_text(&self, text: &str) -> Vec<(usize, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_in_code_alone() {
        let words = Words::new().unwrap();
        let text = "let so_far = 1; // the way\nlet a_way = \"a\n way\"; let b = '\"';\nfleet(b)\n";
        let lines: Vec<usize> = words.in_source(text).iter().map(|it| it.0).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn titles_are_nouns() {
        let words = Words::new().unwrap();
        assert_eq!(words.in_source("//! How ranks wait.\n").len(), 1);
        assert_eq!(words.in_source("//! Waiting.\n//!\n//! What\n").len(), 0);
    }

    #[test]
    fn errors_are_in_plain_words() {
        let words = Words::new().unwrap();
        let text = "fn f() {\n bail!(\n  \"{it} stands in line 1\");\n}\n";
        let lines: Vec<usize> = words.in_source(text).iter().map(|it| it.0).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn tests_that_do_not_run_do_not_pass() {
        let words = Words::new().unwrap();
        let text = concat!("x();\nprintln!(\n \"not", " run: {why}\");\n");
        assert_eq!(words.in_test(text).len(), 1);
        let text = concat!("say!(1); Completion::ignored_with(\"not", " run\")");
        assert_eq!(words.in_test(text).len(), 0);
    }

    #[test]
    fn libraries_do_not_speak_of_options() {
        let words = Words::new().unwrap();
        let text =
            "// `topo plan`\nfn f() {\n \"give --hosts 2\";\n r#\"run `topo doctor`\"#;\n}\n";
        let lines: Vec<usize> = words.in_library(text).iter().map(|it| it.0).collect();
        assert_eq!(lines, [3, 4]);
        let text = "\"start it with --shm-size=1g or --ipc=host\"; \"a--b topo --- x\";";
        assert!(words.in_library(text).is_empty());
    }

    #[test]
    fn a_phrase_may_be_broken_between_lines() {
        let words = Words::new().unwrap();
        let text = concat!("// what goes\n// ", "on here\n// undergoes one\n");
        assert_eq!(words.in_source(text).len(), 1);
        let long = format!("// {}\n", "word ".repeat(20));
        assert_eq!(words.in_source(&long).len(), 1);
    }
}
