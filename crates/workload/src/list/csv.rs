//! A list of calls as comma-separated values. The first line names the columns; `#` begins a
//! comment.

use super::{Builder, Entry, Size, WAIT};
use crate::call::{Call, Wait, Workload};
use crate::error::WorkloadError;
use crate::tokens::Tokens;

/// The columns; the first three are required.
pub const COLUMNS: [&str; 15] = [
    "group",
    "collective",
    "bytes",
    "type",
    "op",
    "count",
    "name",
    "compute_us",
    "overlap_us",
    "start_us",
    "after",
    "blocks",
    "micro_batch",
    "experts",
    "top_k",
];

/// Columns that are required.
const REQUIRED: usize = 3;

/// Whether a text is meant as such a list: its first line names the columns that are required.
pub fn is_one(text: &str) -> bool {
    let mut lines = text.lines().filter(|it| !it.starts_with('#'));
    let head = lines.next().unwrap_or_default();
    let has = |name: &&str| head.split(',').any(|it| it.trim() == *name);
    COLUMNS[..REQUIRED].iter().all(has)
}

/// Reads a list.
///
/// # Errors
/// A line is wrong.
pub fn read(file: &str, text: &str) -> Result<Workload, WorkloadError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let wrong = |line, why: String| WorkloadError::new(file, line, why);
    let headers = reader.headers().map_err(|it| of_csv(file, &it))?.clone();
    let line = headers.position().map_or(1, csv::Position::line);
    let mut columns = Vec::new();
    for name in &headers {
        let found = COLUMNS.iter().position(|known| known == &name);
        let found = found.ok_or_else(|| {
            let is_json = text.trim_start().starts_with(['[', '{']);
            let known = match is_json {
                true => " (traces of PyTorch and Chakra are, those of NCCL's profilers are not)",
                false => "",
            };
            let why = format!(
                "`{name}` is no column of a list of calls, and the file is no other workload that is \
                 known{known}; expected a first line with some of {}",
                COLUMNS.join(",")
            );
            wrong(line, why)
        })?;
        if columns.contains(&found) {
            return Err(wrong(line, format!("the column {name} is there twice")));
        }
        columns.push(found);
    }
    if let Some(missing) = (0..REQUIRED).find(|it| !columns.contains(it)) {
        let why = format!("there is no column {}; expected it", COLUMNS[missing]);
        return Err(wrong(line, why));
    }
    let mut builder = Builder::default();
    for record in reader.records() {
        let record = record.map_err(|it| of_csv(file, &it))?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() > columns.len() {
            let why = format!(
                "{} values; expected at most {}, as many as columns",
                record.len(),
                columns.len()
            );
            return Err(wrong(line, why));
        }
        let mut entry = Entry::default();
        for (column, value) in columns.iter().zip(&record) {
            if !value.is_empty() {
                set(&mut entry, *column, value).map_err(|why| wrong(line, why))?;
            }
        }
        builder.add(&entry).map_err(|why| wrong(line, why))?;
    }
    Ok(builder.finish())
}

fn of_csv(file: &str, error: &csv::Error) -> WorkloadError {
    let line = error.position().map_or(1, csv::Position::line);
    WorkloadError::new(
        file,
        line,
        format!("{error}; expected comma-separated values"),
    )
}

fn set(entry: &mut Entry, column: usize, value: &str) -> Result<(), String> {
    let name = COLUMNS[column];
    let number = || {
        let read = value.parse::<f64>().ok();
        read.ok_or_else(|| format!("{name} `{value}`; expected a number of µs"))
    };
    let whole = || {
        let read = value.parse::<u32>().ok();
        read.ok_or_else(|| format!("{name} `{value}`; expected a whole number from 1"))
    };
    let truth = || match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err(format!("{name} `{value}`; expected yes or no")),
    };
    let text = value.to_owned();
    match column {
        0 => entry.group = text,
        1 => entry.collective = text,
        2 => entry.bytes = Size::Text(text),
        3 => entry.data_type = Some(text),
        4 => entry.op = Some(text),
        5 => {
            let read = value.parse().ok();
            let wrong = || format!("count `{value}`; expected a whole number from 1");
            entry.count = Some(read.ok_or_else(wrong)?);
        }
        6 => entry.name = Some(text),
        7 => entry.compute_us = Some(number()?),
        8 => entry.overlap_us = Some(number()?),
        9 => entry.start_us = Some(number()?),
        10 => entry.after = Some(text),
        11 => entry.blocks = Some(truth()?),
        12 => entry.micro_batch = Some(truth()?),
        13 => entry.experts = Some(whole()?),
        _ => entry.top_k = Some(whole()?),
    }
    Ok(())
}

/// Writes a workload as a list that [`read`] reads again. Entries that others wait for need a name
/// that no later one has. What a list cannot say is left out: the number of ranks, the pipeline,
/// computation after the last call, notes.
pub fn write(workload: &Workload) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    let mut known = vec![false; workload.groups.len()];
    for call in &workload.calls {
        waits(&mut text, &call.waits, workload);
        let group = &workload.groups[call.group];
        let cell = match std::mem::replace(&mut known[call.group], true) {
            true => group.name.clone(),
            false => format!("{}={}", group.name, group.members),
        };
        let cells = [quoted(&cell), call.operation().to_owned()];
        text.push_str(&cells.join(","));
        text.push_str(&rest(call, workload));
        text.push('\n');
    }
    waits(&mut text, &workload.waits_after, workload);
    text
}

/// Lines of waits.
fn waits(text: &mut String, waits: &[Wait], workload: &Workload) {
    for wait in waits {
        let cells = [
            String::new(),
            WAIT.to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            number(wait.compute_us),
            String::new(),
            String::new(),
            quoted(&names(&wait.after, workload)),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
}

/// The names of entries.
fn names(after: &[usize], workload: &Workload) -> String {
    let calls = after.iter().filter_map(|at| workload.calls.get(*at));
    let names: Vec<&str> = calls.map(|call| call.name.as_str()).collect();
    names.join("+")
}

/// A number of µs; nothing for 0.
fn number(value: f64) -> String {
    match value {
        0.0 => String::new(),
        _ => value.to_string(),
    }
}

/// The columns from the bytes on.
fn rest(call: &Call, workload: &Workload) -> String {
    let whole = |of: fn(Tokens) -> u32| {
        let tokens = call.tokens.map(of);
        tokens.map_or_else(String::new, |it| it.to_string())
    };
    let truth = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let cells = [
        String::new(),
        call.bytes.to_string(),
        call.data_type.to_string(),
        call.reduction.to_string(),
        call.count.to_string(),
        quoted(&call.name),
        number(call.compute_us),
        number(call.overlap_us),
        call.start_us.map_or_else(String::new, |it| it.to_string()),
        quoted(&names(&call.after, workload)),
        truth(call.blocks),
        truth(call.micro_batch),
        whole(|it| it.experts),
        whole(|it| it.top_k),
    ];
    cells.join(",")
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r', '#']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
