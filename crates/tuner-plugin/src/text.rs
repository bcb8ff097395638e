//! The text of a file.
//!
//! ```text
//! topo-tuner 1
//! # a comment
//! communicator nodes 1 ranks 8
//! gpus 0-7
//! cost all-reduce simple 56 205.7
//! choose all-reduce 0 65536 tree ll channels 2 chunk 32768
//! choose all-reduce 65537 max ring simple
//! end
//! ```

use std::fmt::{self, Write as _};
use std::str::SplitAsciiWhitespace;

use crate::names::{ALGORITHMS, COLLECTIVES, PROTOCOLS, name, number};
use crate::table::{Choice, Communicator, RingCost, Table};

/// The first line.
const HEAD: &str = "topo-tuner 1";

/// The last line, which a truncated file lacks.
const END: &str = "end";

/// The word for the largest size.
const MAX: &str = "max";

/// Most communicators of a file.
const MOST_COMMUNICATORS: usize = 4096;

/// Most lines below one communicator.
const MOST_LINES: usize = 4096;

/// Most nodes and ranks.
const MOST_RANKS: u64 = 1 << 24;

/// Most channels of a communicator.
const MOST_CHANNELS: u8 = 64;

/// Limits of a chunk, bytes. NCCL rounds chunks down, so a smaller one could become empty.
const CHUNKS: std::ops::RangeInclusive<u32> = 8192..=16_777_216;

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1 on.
    pub line: usize,
    /// The expected value.
    pub expected: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for LineError {}

/// The words of a line.
struct Words<'a> {
    line: usize,
    rest: SplitAsciiWhitespace<'a>,
}

impl Words<'_> {
    fn malformed(&self, expected: &str) -> LineError {
        LineError {
            line: self.line,
            expected: expected.to_owned(),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), LineError> {
        match self.rest.next() {
            Some(found) if found == word => Ok(()),
            _ => Err(self.malformed(&format!("`{word}`"))),
        }
    }

    fn one_of(&mut self, names: &[&str]) -> Result<u8, LineError> {
        let found = self.rest.next().and_then(|word| number(names, word));
        found.ok_or_else(|| self.malformed(&format!("one of {}", names.join(", "))))
    }

    fn number(&mut self, range: std::ops::RangeInclusive<u64>) -> Result<u64, LineError> {
        let found = self.rest.next().and_then(|word| word.parse().ok());
        found.filter(|it| range.contains(it)).ok_or_else(|| {
            self.malformed(&format!(
                "a number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    /// A number above or equal to `least`.
    fn real(&mut self, least: f32) -> Result<f32, LineError> {
        let found: Option<f32> = self.rest.next().and_then(|word| word.parse().ok());
        let found = found.filter(|it| it.is_finite() && *it >= least);
        found.ok_or_else(|| self.malformed("a time in µs and a bandwidth above 0 in GB/s"))
    }

    fn end(mut self) -> Result<(), LineError> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => Err(self.malformed("the end of the line")),
        }
    }
}

impl Table {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A line has another form, there are too many, or the last one is not there.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut table = Self::default();
        let mut lines = (1..).zip(text.lines());
        let mut last = 1;
        match lines.next() {
            Some((_, head)) if head.trim_end() == HEAD => {}
            _ => {
                return Err(LineError {
                    line: 1,
                    expected: format!("`{HEAD}`"),
                });
            }
        }
        for (line, text) in &mut lines {
            last = line;
            let mut words = Words {
                line,
                rest: text.split_ascii_whitespace(),
            };
            match words.rest.next() {
                None => {}
                Some(word) if word.starts_with('#') => {}
                Some(END) => {
                    words.end()?;
                    return table.finished(lines.map(|(line, text)| (line, text.trim())));
                }
                Some("communicator") => table.communicators.push(communicator(words)?),
                Some(word) => table.line(word, words)?,
            }
            if table.communicators.len() > MOST_COMMUNICATORS {
                return Err(LineError {
                    line,
                    expected: format!("at most {MOST_COMMUNICATORS} communicators"),
                });
            }
        }
        Err(LineError {
            line: last + 1,
            expected: format!("`{END}`; the file is truncated"),
        })
    }

    /// Nothing follows the last line.
    fn finished<'a>(
        self,
        mut rest: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Self, LineError> {
        match rest.find(|(_, text)| !text.is_empty()) {
            Some((line, _)) => Err(LineError {
                line,
                expected: format!("nothing after `{END}`"),
            }),
            None => Ok(self),
        }
    }

    /// Reads a line below a communicator.
    fn line(&mut self, word: &str, words: Words<'_>) -> Result<(), LineError> {
        let communicator = match self.communicators.last_mut() {
            Some(communicator) => communicator,
            None => return Err(words.malformed("`communicator nodes N ranks R` first")),
        };
        let (gpus, costs) = (&communicator.gpus, &communicator.costs);
        if gpus.len() + costs.len() + communicator.choices.len() >= MOST_LINES {
            let most = format!("at most {MOST_LINES} lines for a communicator");
            return Err(words.malformed(&most));
        }
        match word {
            "gpus" => {
                let names: Vec<&str> = words.rest.collect();
                communicator.gpus.push(names.join(" "));
            }
            "cost" => communicator.costs.push(cost(words)?),
            "choose" => {
                let line = words.line;
                let choice = choice(words)?;
                if let Some(before) = communicator.choices.last()
                    && (before.collective, before.most) >= (choice.collective, choice.least)
                {
                    return Err(LineError {
                        line,
                        expected: format!(
                            "collectives in the order {}, and larger sizes than those before",
                            COLLECTIVES.join(", ")
                        ),
                    });
                }
                communicator.choices.push(choice);
            }
            _ => {
                return Err(words.malformed(&format!(
                    "communicator, gpus, cost, choose, a comment or {END}"
                )));
            }
        }
        Ok(())
    }

    /// The text of a file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for communicator in &self.communicators {
            // A text takes everything that is written.
            let _ = communicator.write(&mut text);
        }
        text.push_str(END);
        text.push('\n');
        text
    }
}

fn communicator(mut words: Words<'_>) -> Result<Communicator, LineError> {
    words.keyword("nodes")?;
    let nodes = words.number(1..=MOST_RANKS)?;
    words.keyword("ranks")?;
    let ranks = words.number(1..=MOST_RANKS)?;
    words.end()?;
    Ok(Communicator {
        nodes,
        ranks,
        ..Communicator::default()
    })
}

fn cost(mut words: Words<'_>) -> Result<RingCost, LineError> {
    let cost = RingCost {
        collective: words.one_of(&COLLECTIVES)?,
        protocol: words.one_of(&PROTOCOLS)?,
        latency: words.real(0.0)?,
        bandwidth: words.real(f32::MIN_POSITIVE)?,
    };
    words.end()?;
    Ok(cost)
}

fn choice(mut words: Words<'_>) -> Result<Choice, LineError> {
    let collective = words.one_of(&COLLECTIVES)?;
    let least = words.number(0..=u64::MAX)?;
    let most = match words.rest.clone().next() {
        Some(MAX) => {
            words.rest.next();
            u64::MAX
        }
        _ => words.number(least..=u64::MAX)?,
    };
    let mut choice = Choice {
        collective,
        least,
        most,
        algorithm: words.one_of(&ALGORITHMS)?,
        protocol: words.one_of(&PROTOCOLS)?,
        channels: None,
        chunk: None,
    };
    while let Some(word) = words.rest.next() {
        match word {
            "channels" if choice.channels.is_none() => {
                let channels = words.number(1..=MOST_CHANNELS.into())?;
                choice.channels = u8::try_from(channels).ok();
            }
            "chunk" if choice.chunk.is_none() => {
                let chunk = words.number((*CHUNKS.start()).into()..=(*CHUNKS.end()).into())?;
                choice.chunk = u32::try_from(chunk).ok();
            }
            _ => return Err(words.malformed("`channels N` or `chunk BYTES`, each once")),
        }
    }
    Ok(choice)
}

impl Communicator {
    fn write(&self, to: &mut String) -> fmt::Result {
        writeln!(to, "communicator nodes {} ranks {}", self.nodes, self.ranks)?;
        for gpus in &self.gpus {
            writeln!(to, "gpus {gpus}")?;
        }
        for cost in &self.costs {
            writeln!(
                to,
                "cost {} {} {} {}",
                name(&COLLECTIVES, cost.collective),
                name(&PROTOCOLS, cost.protocol),
                cost.latency,
                cost.bandwidth
            )?;
        }
        for choice in &self.choices {
            let collective = name(&COLLECTIVES, choice.collective);
            write!(to, "choose {collective} {} ", choice.least)?;
            match choice.most {
                u64::MAX => write!(to, "{MAX}")?,
                most => write!(to, "{most}")?,
            }
            let algorithm = name(&ALGORITHMS, choice.algorithm);
            write!(to, " {algorithm} {}", name(&PROTOCOLS, choice.protocol))?;
            if let Some(channels) = choice.channels {
                write!(to, " channels {channels}")?;
            }
            if let Some(chunk) = choice.chunk {
                write!(to, " chunk {chunk}")?;
            }
            to.push('\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "topo-tuner 1\n\
                        communicator nodes 1 ranks 8\n\
                        gpus 0-7\n\
                        cost all-reduce simple 56 205.71428\n\
                        choose broadcast 0 max ring ll\n\
                        choose all-reduce 0 65536 tree ll channels 2 chunk 32768\n\
                        choose all-reduce 65537 max ring simple\n\
                        end\n";

    #[test]
    fn what_was_read_is_written() {
        assert_eq!(Table::parse(TEXT).unwrap().to_text(), TEXT);
    }

    #[test]
    fn other_lines_are_refused_with_their_number() {
        let replaced = |from: &str, to: &str| Table::parse(&TEXT.replace(from, to));
        for (from, to, line) in [
            ("topo-tuner 1", "topo-tuner 2", 1),
            ("ranks 8", "ranks 0", 2),
            ("communicator nodes 1 ranks 8", "", 4),
            ("56 205", "-1 205", 4),
            ("56 205", "NaN 205", 4),
            ("205.71428", "0", 4),
            ("65537", "65536", 7),
            ("ring simple\n", "ring simple chunk 1\n", 7),
            ("channels 2", "channels 65", 6),
            ("tree", "three", 6),
            ("end\n", "", 8),
            ("end\n", "end\nend\n", 9),
        ] {
            // The second line is the first that is empty, so gpus has no communicator.
            let line = if to.is_empty() && line == 4 { 3 } else { line };
            assert_eq!(replaced(from, to).unwrap_err().line, line, "{from} {to}");
        }
    }

    #[test]
    fn a_choice_has_a_range_of_sizes() {
        let table = Table::parse(&TEXT.replace("65537 max", "70000 80000")).unwrap();
        let choice = |bytes| {
            table.communicators[0]
                .choice(4, bytes)
                .map(|it| it.algorithm)
        };
        assert_eq!(choice(0), Some(0));
        assert_eq!(choice(65536), Some(0));
        assert_eq!(choice(65537), None);
        assert_eq!(choice(80000), Some(1));
        assert_eq!(choice(80001), None);
        assert_eq!(table.communicators[0].choice(3, 5), None);
    }
}
