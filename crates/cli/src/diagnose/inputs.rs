//! The inputs of `topo diagnose`: files, folders, archives, standard input.

use std::cell::Cell;
use std::fs::Metadata;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use diagnose::Pile;

use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::text_stream::TextStream;

/// Most files of folders and archives, and how deep folders are read.
const MOST_FILES: usize = 1 << 14;
const MOST_DEPTH: usize = 8;

/// Largest zip archive, bytes. It is read as a whole.
const MOST_ZIP: u64 = 64 << 20;

/// Most bytes that an archive may unpack to: this many, or so many times its own size. Logs shrink
/// to a tenth; what shrinks more than this is a trap.
const MOST_UNPACKED: u64 = 256 << 20;
const MOST_RATIO: u64 = 200;

/// The first bytes of a zip archive, and the words in the head of a tar archive with their place.
const ZIP: [u8; 4] = *b"PK\x03\x04";
const TAR: ([u8; 5], usize) = (*b"ustar", 257);

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
    if stream
        .text
        .fill_buf()
        .with_context(cannot)?
        .starts_with(&ZIP)
    {
        return zip(file, &label, pile, left);
    }
    let packed = std::fs::metadata(file).map_or(0, |it| it.len());
    let allowance = Allowance::of(packed);
    let is_tar = stream.text.fill_buf().with_context(cannot)?;
    let is_tar = is_tar.get(TAR.1..).is_some_and(|it| it.starts_with(&TAR.0));
    let show = |read| progress.set(TextStream::progress(&label, size, read));
    match (is_tar, size) {
        (true, _) => tar(&mut stream.text, &label, pile, left, &allowance),
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
    stream.finish(output);
    Ok(())
}

fn tar(
    stream: &mut impl Read,
    label: &str,
    pile: &mut Pile,
    left: &mut usize,
    allowance: &Allowance,
) {
    let mut archive = tar::Archive::new(allowance.bound(stream));
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return pile.skip(label, &format!("a damaged archive ({error})")),
    };
    for entry in entries {
        if allowance.is_spent() {
            return pile.skip(label, &allowance.why());
        }
        if *left == 0 {
            return;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return pile.skip(label, &format!("a damaged archive ({error})")),
        };
        let kind = entry.header().entry_type();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = format!("{label}: {name}");
        if kind.is_symlink() || kind.is_hard_link() {
            pile.skip(&name, "a link, so it was not read");
        }
        if !kind.is_file() {
            continue;
        }
        *left -= 1;
        member(&name, entry, allowance, pile);
    }
}

fn zip(file: &Path, label: &str, pile: &mut Pile, left: &mut usize) -> Result<()> {
    if file == Path::new("-") {
        bail!("{label} is a zip archive; expected a file, because its list of files is at its end");
    }
    let bytes = files::read(file, MOST_ZIP).with_context(|| format!("cannot read {label}"))?;
    let allowance = Allowance::of(bytes.len() as u64);
    if members(&bytes).is_none_or(|it| it > MOST_FILES) {
        bail!(
            "{label}: expected a zip archive of at most {MOST_FILES} files; unpack it, and name the folder"
        );
    }
    let archive = zip::ZipArchive::new(Cursor::new(bytes));
    let mut archive = archive.with_context(|| format!("cannot read {label}"))?;
    for place in 0..archive.len() {
        if allowance.is_spent() {
            pile.skip(label, &allowance.why());
            break;
        }
        if *left == 0 {
            break;
        }
        match archive.by_index(place) {
            Ok(entry) if entry.is_file() => {
                *left -= 1;
                let name = entry
                    .name()
                    .map_or_else(|_| format!("file {place}"), Into::into);
                let name = format!("{label}: {name}");
                member(&name, allowance.bound(entry), &allowance, pile);
            }
            Ok(entry) if !entry.is_dir() => {
                let name = entry
                    .name()
                    .map_or_else(|_| format!("file {place}"), Into::into);
                pile.skip(&format!("{label}: {name}"), "a link, so it was not read");
            }
            Ok(_) => {}
            Err(error) => pile.skip(&format!("{label}: file {place}"), &error.to_string()),
        }
    }
    Ok(())
}

/// The number of files by the end of a zip archive; `None` if it has no such end.
fn members(bytes: &[u8]) -> Option<usize> {
    let tail = &bytes[bytes.len().saturating_sub(66_000)..];
    let at = tail.windows(4).rposition(|it| it == b"PK\x05\x06")?;
    let count = tail.get(at + 10..at + 12)?;
    Some(usize::from(u16::from_le_bytes([count[0], count[1]])))
}

/// Reads a file of an archive.
fn member(name: &str, entry: impl Read, allowance: &Allowance, pile: &mut Pile) {
    let read = match gzip(entry, allowance) {
        Ok(stream) => pile.read(name, stream, |_| {}),
        Err(error) => Err(error),
    };
    if let Err(error) = read {
        pile.skip(name, &error.to_string());
    }
}

/// A file of an archive, unpacked again if it was packed by itself.
fn gzip<'a>(stream: impl Read + 'a, allowance: &'a Allowance) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut stream = BufReader::with_capacity(PIECE, stream);
    if !stream.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(stream));
    }
    let decoder = flate2::bufread::MultiGzDecoder::new(stream);
    let decoder = BufReader::with_capacity(PIECE, allowance.bound(decoder));
    Ok(Box::new(decoder))
}

/// How many bytes an archive may unpack to. Those of packed files in it count, too.
struct Allowance {
    most: u64,
    read: Cell<u64>,
}

impl Allowance {
    /// That of an archive of `packed` bytes.
    fn of(packed: u64) -> Self {
        Self {
            most: MOST_UNPACKED.max(packed.saturating_mul(MOST_RATIO)),
            read: Cell::new(0),
        }
    }

    fn is_spent(&self) -> bool {
        self.read.get() > self.most
    }

    fn why(&self) -> String {
        let most = self.most >> 20;
        format!("it unpacks to more than {most} MB, far more than logs do")
    }

    const fn bound<R>(&self, inner: R) -> Bounded<'_, R> {
        Bounded {
            inner,
            allowance: self,
        }
    }
}

/// A stream whose bytes are counted.
struct Bounded<'a, R> {
    inner: R,
    allowance: &'a Allowance,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let total = &self.allowance.read;
        total.set(total.get().saturating_add(read as u64));
        match self.allowance.is_spent() {
            true => Err(io::Error::other(self.allowance.why())),
            false => Ok(read),
        }
    }
}
