//! Lists of calls of our own: [`csv`] and [`json`] with the same fields.
//!
//! In reading order: this file (an entry as it is written, and what becomes of it), [`csv`],
//! [`json`].

pub mod csv;
pub mod json;

use std::collections::HashMap;

use plan::cost::DataType;
use program::{Collective, Reduction};
use serde::Deserialize;

use crate::call::{Call, Group, MOST_CALLS, MOST_GROUPS, MOST_REPEATS, MOST_US, Wait, Workload};
use crate::groups::Members;
use crate::tokens::{Direction, Tokens};

/// What stands in place of a collective where computation waits for calls that do not block.
pub(crate) const WAIT: &str = "wait";

/// An entry as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Entry {
    /// `NAME`, `SHAPE` or `NAME=SHAPE`.
    pub(crate) group: String,
    /// `all-reduce`, or `dispatch`.
    pub(crate) collective: String,
    /// A size.
    pub(crate) bytes: Size,
    /// The type of the elements.
    #[serde(rename = "type")]
    pub(crate) data_type: Option<String>,
    /// The reduction.
    pub(crate) op: Option<String>,
    /// Calls per step.
    pub(crate) count: Option<u64>,
    /// Its name.
    pub(crate) name: Option<String>,
    /// Computation before, µs.
    pub(crate) compute_us: Option<f64>,
    /// Computation beside, µs.
    pub(crate) overlap_us: Option<f64>,
    /// Start, µs.
    pub(crate) start_us: Option<f64>,
    /// Names of earlier entries, joined by `+`.
    pub(crate) after: Option<String>,
    /// Whether computation waits.
    pub(crate) blocks: Option<bool>,
    /// Whether each micro-batch has it.
    pub(crate) micro_batch: Option<bool>,
    /// Experts of all ranks of a communicator, of a dispatch or combine.
    pub(crate) experts: Option<u32>,
    /// Experts of a token.
    pub(crate) top_k: Option<u32>,
}

/// A number of bytes, or `64K`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    /// Bytes.
    Number(u64),
    /// With a unit.
    Text(String),
}

impl Default for Size {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// Makes a workload of entries.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    workload: Workload,
    /// Group by name.
    groups: HashMap<String, usize>,
    /// The latest entry of a name.
    names: HashMap<String, usize>,
    /// Waits before the next call.
    waits: Vec<Wait>,
    /// Waits so far.
    waiting: usize,
}

impl Builder {
    /// Declares a group.
    pub(crate) fn group(&mut self, name: &str, members: Members) -> Result<usize, String> {
        let groups = &mut self.workload.groups;
        if let Some(known) = self.groups.get(name) {
            return match groups[*known].members == members {
                true => Ok(*known),
                false => Err(format!(
                    "group {name} is {members} here and {} before; expected one of them",
                    groups[*known].members
                )),
            };
        }
        if groups.len() >= MOST_GROUPS {
            return Err(format!("more than {MOST_GROUPS} groups; expected fewer"));
        }
        groups.push(Group {
            name: name.to_owned(),
            members,
        });
        self.groups.insert(name.to_owned(), groups.len() - 1);
        Ok(groups.len() - 1)
    }

    /// The group of an entry.
    fn group_of(&mut self, text: &str) -> Result<usize, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("there is no group; expected one such as tp=8 or dp=16:8".to_owned());
        }
        if let Some((name, members)) = text.split_once('=') {
            return self.group(name.trim(), members.parse()?);
        }
        if let Some(known) = self.groups.get(text) {
            return Ok(*known);
        }
        match text.parse::<Members>() {
            Ok(members) => self.group(&members.to_string(), members),
            Err(_) => Err(format!(
                "there is no group `{text}` so far; expected NAME=SHAPE at its first use, such as \
                 tp=8 (8 ranks in a row), dp=16:8 (16 ranks, 8 apart), x={{0-3}}{{4-7}} or x=all"
            )),
        }
    }

    /// Adds an entry: a call, or a wait.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.collective.trim().eq_ignore_ascii_case(WAIT) {
            return self.wait(entry);
        }
        let at = self.workload.calls.len();
        if at >= MOST_CALLS {
            return Err(format!("more than {MOST_CALLS} entries; expected fewer"));
        }
        let group = self.group_of(&entry.group)?;
        let bytes = match &entry.bytes {
            Size::Number(bytes) if (1..=i64::MAX as u64).contains(bytes) => *bytes,
            Size::Number(bytes) => {
                return Err(format!("{bytes} bytes; expected at least 1 in 63 bits"));
            }
            Size::Text(text) => program::size::parse(text.trim())?,
        };
        let count = entry.count.unwrap_or(1);
        if !(1..=MOST_REPEATS).contains(&count) {
            return Err(format!("count {count}; expected 1 to {MOST_REPEATS}"));
        }
        let (collective, tokens) = entry.operation()?;
        let after = self.after(entry)?;
        let name = entry.name.clone().unwrap_or_default();
        if !name.is_empty() {
            self.names.insert(name.clone(), at);
        }
        self.workload.calls.push(Call {
            count,
            waits: std::mem::take(&mut self.waits),
            compute_us: time("compute_us", entry.compute_us)?,
            overlap_us: time("overlap_us", entry.overlap_us)?,
            start_us: match entry.start_us {
                None => None,
                given => Some(time("start_us", given)?),
            },
            data_type: match entry.data_type.as_deref().map(str::trim) {
                None | Some("") => DataType::F32,
                Some(text) => text.parse().map_err(in_words)?,
            },
            reduction: match entry.op.as_deref().map(str::trim) {
                None | Some("") => Reduction::Sum,
                Some(text) => text.parse().map_err(in_words)?,
            },
            after,
            blocks: entry.blocks.unwrap_or(true),
            micro_batch: entry.micro_batch.unwrap_or(false),
            name,
            tokens,
            ..Call::new(group, collective, bytes)
        });
        Ok(())
    }

    /// Adds a wait before the next call.
    fn wait(&mut self, entry: &Entry) -> Result<(), String> {
        let is_given =
            |text: &Option<String>| text.as_ref().is_some_and(|it| !it.trim().is_empty());
        let others = !entry.group.trim().is_empty()
            || !matches!(&entry.bytes, Size::Text(text) if text.trim().is_empty())
            || is_given(&entry.name)
            || entry.start_us.is_some()
            || entry.overlap_us.is_some()
            || entry.experts.is_some()
            || entry.top_k.is_some();
        if others {
            return Err(format!(
                "a {WAIT} has more than compute_us and after; expected these only"
            ));
        }
        if self.waiting >= MOST_CALLS {
            return Err(format!("more than {MOST_CALLS} waits; expected fewer"));
        }
        self.waiting += 1;
        let wait = Wait {
            compute_us: time("compute_us", entry.compute_us)?,
            after: self.after(entry)?,
        };
        self.waits.push(wait);
        Ok(())
    }

    /// The entries after which an entry comes.
    fn after(&self, entry: &Entry) -> Result<Vec<usize>, String> {
        let mut after = Vec::new();
        let names = entry.after.iter().flat_map(|it| it.split('+'));
        for name in names.map(str::trim).filter(|name| !name.is_empty()) {
            let known = self.names.get(name);
            after.push(*known.ok_or_else(|| {
                format!("after `{name}`: no earlier entry has this name; expected one")
            })?);
        }
        Ok(after)
    }

    /// The workload.
    pub(crate) fn finish(self) -> Workload {
        Workload {
            waits_after: self.waits,
            ..self.workload
        }
    }
}

impl Entry {
    /// Its collective, and what an exchange of tokens has besides.
    fn operation(&self) -> Result<(Collective, Option<Tokens>), String> {
        if let Some(direction) = Direction::named(&self.collective) {
            let tokens = Tokens::listed(direction, self.experts, self.top_k)?;
            return Ok((Collective::AllToAll, Some(tokens)));
        }
        let collective = collective(&self.collective)?;
        if self.experts.is_some() || self.top_k.is_some() {
            return Err(format!(
                "{} has experts or top_k; expected them of dispatch and combine only",
                collective.command_name()
            ));
        }
        Ok((collective, None))
    }
}

fn in_words(error: program::UnknownName) -> String {
    error.to_string()
}

/// A time of an entry, µs.
pub(crate) fn time(what: &str, given: Option<f64>) -> Result<f64, String> {
    let value = given.unwrap_or(0.0);
    match (0.0..=MOST_US).contains(&value) {
        true => Ok(value),
        false => Err(format!("{what} {value}; expected 0 to {MOST_US} µs")),
    }
}

/// A number that counts something.
pub(crate) fn from_one(what: &str, number: u32) -> Result<u32, String> {
    match number {
        0 => Err(format!("{what} 0; expected a number from 1")),
        _ => Ok(number),
    }
}

/// Reads `all-reduce`, `AllReduce` or `all_reduce`.
fn collective(text: &str) -> Result<Collective, String> {
    let plain = text.trim().replace(['-', '_'], "");
    plain.parse().map_err(|_| {
        let names = Collective::ALL.map(Collective::command_name);
        format!(
            "`{text}` is no collective; expected one of {}, or dispatch or combine",
            names.join(", ")
        )
    })
}
