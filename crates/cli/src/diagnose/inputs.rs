//! The inputs of `topo diagnose`: files, folders, archives, standard input.

use std::fs::Metadata;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use diagnose::Pile;
use diagnose::archive::{self, Allowance, MOST_FILES};
use files::TextStream;

use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;

/// How deep folders are read.
const MOST_DEPTH: usize = 8;

/// Largest zip archive, bytes. It is read as a whole.
const MOST_ZIP: u64 = 64 << 20;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Reads all inputs.
pub(super) fn read(
    files: &[PathBuf],
    pile: &mut Pile,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let progress = Progress::new(environment, "reading");
    let mut left = MOST_FILES;
    for file in files {
        if file != Path::new("-") && file.is_dir() {
            folder(file, pile, MOST_DEPTH, &mut left, &progress, output)?;
        } else {
            one(file, pile, &mut left, &progress, output)?;
        }
    }
    if left == 0 {
        output.warnings.push(format!(
            "more than {MOST_FILES} files; the rest is left out"
        ));
    }
    Ok(())
}

fn folder(
    path: &Path,
    pile: &mut Pile,
    depth: usize,
    left: &mut usize,
    progress: &Progress,
    output: &mut Output,
) -> Result<()> {
    let entries =
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let entries = entries
        .filter_map(|it| Some(it.ok()?.path()))
        .take(MOST_FILES);
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    for path in paths {
        if *left == 0 {
            return Ok(());
        }
        // A link could lead in a circle, or out of the folder.
        let kind = std::fs::symlink_metadata(&path);
        match kind {
            Ok(it) if it.is_dir() && depth > 0 => {
                folder(&path, pile, depth - 1, left, progress, output)?
            }
            Ok(it) if it.is_file() => {
                if let Err(error) = one(&path, pile, left, progress, output) {
                    pile.skip(
                        &path.display().to_string(),
                        &format!("{:#}", error.root_cause()),
                    );
                }
            }
            kind => pile.skip(&path.display().to_string(), &unread(kind)),
        }
    }
    Ok(())
}

/// Why an entry of a folder is not read.
fn unread(kind: io::Result<Metadata>) -> String {
    match kind {
        Ok(it) if it.is_symlink() => "a link, so it was not read; name its target".to_owned(),
        Ok(it) if it.is_dir() => {
            format!("more than {MOST_DEPTH} folders deep, so it was not read; name the folder")
        }
        Ok(_) => "neither a file nor a folder, so it was not read".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn one(
    file: &Path,
    pile: &mut Pile,
    left: &mut usize,
    progress: &Progress,
    output: &mut Output,
) -> Result<()> {
    let mut stream = TextStream::open(file)?;
    let label = stream.label.clone();
    let cannot = || format!("cannot read {label}");
    let size = stream.size();
    *left = left.saturating_sub(1);
    if archive::is_zip(stream.text.fill_buf().with_context(cannot)?) {
        return zip(file, &label, pile, left);
    }
    let packed = std::fs::metadata(file).map_or(0, |it| it.len());
    let allowance = Allowance::of(packed);
    let is_tar = archive::is_tar(stream.text.fill_buf().with_context(cannot)?);
    let show = |read| progress.set(TextStream::progress(&label, size, read));
    match (is_tar, size) {
        (true, _) => archive::tar(&mut stream.text, &label, pile, left, &allowance),
        (false, Some(_)) => pile
            .read(&label, &mut stream.text, show)
            .with_context(cannot)?,
        // Compressed, or standard input.
        (false, None) if file == Path::new("-") => pile
            .read(&label, &mut stream.text, show)
            .with_context(cannot)?,
        (false, None) => {
            let bounded = allowance.bound(&mut stream.text);
            let bounded = BufReader::with_capacity(PIECE, bounded);
            pile.read(&label, bounded, show).with_context(cannot)?;
        }
    }
    output.warnings.extend(stream.finish());
    Ok(())
}

fn zip(file: &Path, label: &str, pile: &mut Pile, left: &mut usize) -> Result<()> {
    if file == Path::new("-") {
        bail!("{label} is a zip archive; expected a file, because its list of files is at its end");
    }
    let bytes = files::read(file, MOST_ZIP).with_context(|| format!("cannot read {label}"))?;
    archive::zip(&bytes, label, pile, left).map_err(|why| anyhow!(why))
}
