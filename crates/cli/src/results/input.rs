//! The files of `topo expect --results`: tables, and what NCCL logged beside them.

use std::io::{BufRead, Read};
use std::path::PathBuf;

use answers::results::ReadTable;
use answers::results::read::{ReadFile, Reader, is_json, no_measurement, read as read_whole};
use anyhow::{Context, Result, bail};
use files::TextStream;
use records::results::inspector::Timed;

use crate::environment::{Environment, helpers};
use crate::output::Output;
use crate::progress::Progress;

/// Largest JSON file that is read, bytes.
const JSON_LIMIT: u64 = 256 << 20;

/// Reads all files. Returns their tables, and the files without one or of which a part is left out.
pub(super) fn read(
    files: &[PathBuf],
    environment: &Environment,
    output: &mut Output,
) -> Result<(Vec<ReadTable>, Vec<String>)> {
    let progress = Progress::new(environment, "reading");
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    let mut timed = Timed::default();
    for file in files {
        let mut stream = TextStream::open(file)?;
        let label = stream.label.clone();
        let cannot = || format!("cannot read {label}");
        let first = stream.text.fill_buf().with_context(cannot)?;
        let read = match is_json(first) {
            true => read_json(&mut stream, &mut timed)?,
            false => {
                let size = stream.size();
                let show = |read| progress.set(TextStream::progress(&label, size, read));
                let reader = Reader::new(&label, &mut timed);
                let read = reader.read(&mut stream.text, helpers(), show);
                read.with_context(cannot)?
            }
        };
        if read.is_full {
            output.warnings.push(format!(
                "{label}: more tables, rows or ranks than are kept; the rest is left out"
            ));
        }
        let has_none = read.tables.is_empty() && !read.is_of_job;
        if read.is_full || !read.unread.is_empty() || has_none {
            unread.push(label.clone());
        }
        output.warnings.extend(stream.finish());
        let is_told = !read.unread.is_empty();
        output.warnings.extend(read.unread);
        if has_none && !is_told {
            output.warnings.push(no_measurement(&label));
        }
        all.extend(read.tables);
    }
    all.extend(ReadTable::of_job(timed));
    Ok((all, unread))
}

fn read_json(stream: &mut TextStream, timed: &mut Timed) -> Result<ReadFile> {
    let label = &stream.label;
    let mut text = Vec::new();
    let read = stream
        .text
        .by_ref()
        .take(JSON_LIMIT + 1)
        .read_to_end(&mut text);
    read.with_context(|| format!("cannot read {label}"))?;
    if text.len() as u64 > JSON_LIMIT {
        bail!(
            "{label} is too large; expected at most {} MB of JSON",
            JSON_LIMIT >> 20
        );
    }
    Ok(read_whole(label, &String::from_utf8_lossy(&text), timed)?)
}
