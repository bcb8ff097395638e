//! Megatron-LM's arguments where people have them: in the script that starts a job, or in its log,
//! which begins with a list of all arguments.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::arguments::{MOST_RANKS, number};
use super::{Arguments, MOST_SIZE};
use crate::call::Workload;
use crate::error::WorkloadError;

/// Variables that a value may be made of, one in another.
const MOST_DEPTH: usize = 16;

/// Most characters of a value that an error shows.
const MOST_SHOWN: usize = 80;

/// The arguments with a number.
const NUMBERS: [&str; 21] = [
    "context-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "ffn-hidden-size",
    "global-batch-size",
    "hidden-size",
    "kv-channels",
    "micro-batch-size",
    "moe-ffn-hidden-size",
    "moe-router-topk",
    "num-attention-heads",
    "num-experts",
    "num-layers",
    "num-layers-per-virtual-pipeline-stage",
    "num-query-groups",
    "padded-vocab-size",
    "pipeline-model-parallel-size",
    "seq-length",
    "tensor-model-parallel-size",
    "vocab-size",
    "world-size",
];

/// The arguments that are given or not.
const SWITCHES: [&str; 6] = [
    "group-query-attention",
    "overlap-grad-reduce",
    "sequence-parallel",
    "swiglu",
    "untie-embeddings-and-output-weights",
    "use-distributed-optimizer",
];

/// Arguments that change what is sent in ways that the formulas do not have.
const NOT_MODELLED: [&str; 8] = [
    "hybrid-override-pattern",
    "moe-layer-freq",
    "moe-shared-expert-intermediate-size",
    "mtp-num-layers",
    "multi-latent-attention",
    "tp-comm-overlap",
    "use-megatron-fsdp",
    "use-torch-fsdp2",
];

/// The argument that every model has.
const LAYERS: &str = "num-layers";

/// The arguments without which there is no model.
const NEEDED: [&str; 4] = [LAYERS, "hidden-size", "num-attention-heads", "seq-length"];

/// Whether a text has Megatron's arguments.
pub fn is_one(text: &str) -> bool {
    let is_layers = |(_, word): &(u64, &str)| {
        let argument = word.strip_prefix("--");
        argument.is_some_and(|it| it.split('=').next() == Some(LAYERS))
    };
    is_log(text) || words(text).iter().any(is_layers)
}

/// Whether a text lists all arguments.
fn is_log(text: &str) -> bool {
    let mut found = text.lines().filter_map(listed);
    found.any(|(name, _)| name == LAYERS)
}

/// The calls of the step whose arguments a script or a log has, of a job with so many ranks.
/// `tflops` is what a GPU computes, TFLOP/s.
///
/// # Errors
/// An argument is missing, is no number, or has two values, or the sizes do not fit each other.
pub fn read(
    file: &str,
    text: &str,
    ranks: u32,
    tflops: Option<f64>,
) -> Result<Workload, WorkloadError> {
    let found = match is_log(text) {
        true => Found::of_log(text),
        false => Found::of_script(text),
    };
    let found = found.map_err(|(line, why)| WorkloadError::new(file, line, why))?;
    let wrong = |(line, why)| WorkloadError::new(file, line, why);
    if let Some(world) = found.number("world-size", MOST_RANKS).map_err(wrong)?
        && world != u64::from(ranks)
    {
        let line = found.line("world-size");
        let why = format!(
            "the job has {world} ranks, the cluster {ranks}; expected a cluster of as many GPUs"
        );
        return Err(WorkloadError::new(file, line, why));
    }
    let arguments = found.arguments().map_err(wrong)?;
    let workload = arguments.training(ranks, tflops).workload();
    let mut workload = workload.map_err(|why| WorkloadError::new(file, 0, why))?;
    // A frequency of 1, as logs list it, is that of the formulas.
    let ignored = NOT_MODELLED.into_iter().filter(|name| {
        let given = found.values.get(name);
        given.is_some_and(|(value, _)| value != "1")
    });
    let ignored: Vec<&str> = ignored.collect();
    if !ignored.is_empty() {
        let names = ignored.join(", ");
        workload.notes.push(format!(
            "{file} has arguments that the formulas do not have: {names}."
        ));
    }
    Ok(workload)
}

/// An argument of a log: `  num_layers ............ 24`, perhaps after the rank that printed it.
fn listed(line: &str) -> Option<(String, &str)> {
    let (before, value) = line.split_once(" ..")?;
    if before.trim_start().starts_with('#') {
        return None;
    }
    let name = before.split_whitespace().next_back()?;
    let is_name = name.starts_with(|it: char| it.is_ascii_lowercase())
        && name
            .chars()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
    let value = value.trim_start_matches('.');
    (is_name && value.starts_with(' ')).then(|| (name.replace('_', "-"), value.trim()))
}

/// Why a line cannot be read, after its number.
type Wrong = (u64, String);

/// The arguments that were found, each with the line that has it.
#[derive(Debug, Default)]
struct Found {
    values: BTreeMap<&'static str, (String, u64)>,
}

impl Found {
    /// The arguments that a log lists.
    fn of_log(text: &str) -> Result<Self, Wrong> {
        let mut found = Self::default();
        for (at, line) in text.lines().enumerate() {
            if let Some((name, value)) = listed(line)
                && value != "None"
                && value != "False"
            {
                found.add(&name, value, at as u64 + 1)?;
            }
        }
        Ok(found)
    }

    /// The arguments that a script gives, with its variables.
    fn of_script(text: &str) -> Result<Self, Wrong> {
        let words = words(text);
        let mut variables: BTreeMap<&str, Variable<'_>> = BTreeMap::new();
        let mut found = Self::default();
        let mut at = 0;
        while let Some((line, word)) = words.get(at) {
            at += 1;
            let next = || {
                let next = words.get(at).map(|(_, word)| *word);
                next.filter(|it| !it.starts_with("--"))
            };
            if let Some(argument) = word.strip_prefix("--") {
                let (name, given) = match argument.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (argument, next()),
                };
                let is_number = NUMBERS.contains(&name);
                let value = match given {
                    Some(value) if is_number => resolved(value, &variables, 0)
                        .map_err(|why| (*line, format!("{name} is {value}, {why}")))?,
                    None if is_number => {
                        return Err((*line, format!("{name} has no value; expected a number")));
                    }
                    Some(value) if NOT_MODELLED.contains(&name) => value,
                    _ => "True",
                };
                found.add(name, value, *line)?;
            } else if let Some((name, value)) = word.split_once('=') {
                let value = if value.is_empty() {
                    next()
                } else {
                    Some(value)
                };
                match value {
                    Some(written) => {
                        let value = resolved(written, &variables, 0).ok();
                        variables.insert(
                            name,
                            Variable {
                                value,
                                written,
                                line: *line,
                            },
                        )
                    }
                    None => variables.remove(name),
                };
            }
        }
        Ok(found)
    }

    /// Adds an argument, if it is one that counts.
    fn add(&mut self, name: &str, value: &str, line: u64) -> Result<(), Wrong> {
        let mut known = NUMBERS.iter().chain(&SWITCHES).chain(&NOT_MODELLED);
        let Some(name) = known.find(|it| **it == name) else {
            return Ok(());
        };
        match self.values.get(name) {
            Some((other, before)) if other != value => Err((
                line,
                format!(
                    "{name} is {value} here and {other} in line {before}; expected the arguments of one job"
                ),
            )),
            _ => {
                self.values.insert(name, (value.to_owned(), line));
                Ok(())
            }
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The line that has an argument; 0: none.
    fn line(&self, name: &str) -> u64 {
        self.values.get(name).map_or(0, |(_, line)| *line)
    }

    fn number(&self, name: &str, most: u64) -> Result<Option<u64>, Wrong> {
        let Some((value, line)) = self.values.get(name) else {
            return Ok(None);
        };
        let number = number(value, most);
        number
            .map(Some)
            .map_err(|why| (*line, format!("{name} is {value}; {why}")))
    }

    fn arguments(&self) -> Result<Arguments, Wrong> {
        for name in NEEDED {
            if !self.is_on(name) {
                let why = format!(
                    "there is no {name}; expected the script that starts the job, or its log"
                );
                return Err((0, why));
            }
        }
        let mut fields = Map::new();
        for name in NUMBERS {
            let most = match name.ends_with("-parallel-size") {
                true => MOST_RANKS,
                false => MOST_SIZE,
            };
            if let Some(number) = self.number(name, most)? {
                fields.insert(name.replace('-', "_"), number.into());
            }
        }
        for name in SWITCHES.into_iter().filter(|name| self.is_on(name)) {
            fields.insert(name.replace('-', "_"), true.into());
        }
        // Without this switch Megatron does not look at the number (source: `arguments.py`).
        if fields.remove("group_query_attention").is_none() {
            fields.remove("num_query_groups");
        }
        fields.remove("world_size");
        if let Some(padded) = fields.remove("padded_vocab_size") {
            fields.entry("vocab_size").or_insert(padded);
        }
        Arguments::deserialize(Value::Object(fields)).map_err(|why| (0, why.to_string()))
    }
}

/// The words of a script with their lines, without comments, quotes, brackets and commas.
fn words(text: &str) -> Vec<(u64, &str)> {
    let mut words = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let is_between = |it: char| it.is_whitespace() || "\"'()[],;\\".contains(it);
        let parts = line.split(is_between).filter(|it| !it.is_empty());
        let code = parts.take_while(|it| !it.starts_with('#'));
        words.extend(code.map(|word| (at as u64 + 1, word)));
    }
    words
}

/// A variable of a script.
struct Variable<'t> {
    /// Its value; `None` if it is not known.
    value: Option<&'t str>,
    /// What is written in place of the value.
    written: &'t str,
    line: u64,
}

/// A value in place of a variable: `$NAME`, `${NAME}`, `${NAME:-value}`.
fn resolved<'t>(
    value: &'t str,
    variables: &BTreeMap<&str, Variable<'t>>,
    depth: usize,
) -> Result<&'t str, String> {
    let Some(variable) = value.strip_prefix('$') else {
        return Ok(value);
    };
    if variable.is_empty() {
        return Err("which is computed; expected a number".to_owned());
    }
    let inner = variable
        .strip_prefix('{')
        .and_then(|it| it.strip_suffix('}'));
    let (name, otherwise) = match inner.unwrap_or(variable).split_once(":-") {
        Some((name, value)) => (name, Some(value)),
        None => (inner.unwrap_or(variable), None),
    };
    let set = variables.get(name);
    match (set.and_then(|it| it.value), otherwise, set) {
        (Some(value), _, _) => Ok(value),
        (None, Some(_), _) if depth == MOST_DEPTH => Err(format!(
            "which refers to more than {MOST_DEPTH} variables, one in another; expected a number"
        )),
        (None, Some(value), _) => resolved(value, variables, depth + 1),
        (None, None, Some(set)) => {
            let written: String = set.written.chars().take(MOST_SHOWN).collect();
            Err(format!(
                "which line {} sets to {written}, whose value is not known there; expected a \
                 number: write {name}=… into a copy of it",
                set.line
            ))
        }
        (None, None, None) => Err(format!(
            "which the script does not set; expected a number: write {name}=… into a copy of it"
        )),
    }
}
