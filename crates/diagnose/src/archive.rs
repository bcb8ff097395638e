//! Archives: tar and zip, and files that are packed by themselves. What they may unpack to is
//! bounded.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord, ZipSliceArchive};

use crate::Pile;

/// Most files of all archives and folders together.
pub const MOST_FILES: usize = 1 << 14;

/// Most bytes that an archive may unpack to: `LEAST_ALLOWANCE` or `MOST_RATIO` times its own size,
/// and never more than `MOST_UNPACKED`. Logs shrink to a tenth; what shrinks more is a trap.
const LEAST_ALLOWANCE: u64 = 256 << 20;
const MOST_RATIO: u64 = 200;
const MOST_UNPACKED: u64 = 16 << 30;

/// Most bytes of a name, of a link's target, and of the pax records of a file.
const MOST_NAME: u64 = 4 << 10;

/// Most characters of a name in a label. An archive has many files, and each label is kept.
const MOST_LABEL: usize = 200;

/// The first bytes of a zip archive and of a file that gzip wrote, and the words in the head of a
/// tar archive with their place.
const ZIP: [u8; 4] = *b"PK\x03\x04";
const GZIP: [u8; 2] = [0x1f, 0x8b];
const TAR: ([u8; 5], usize) = (*b"ustar", 257);

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Whether a file that begins like this is a zip archive.
pub fn is_zip(first: &[u8]) -> bool {
    first.starts_with(&ZIP)
}

/// Whether a file that begins like this is a tar archive.
pub fn is_tar(first: &[u8]) -> bool {
    first.get(TAR.1..).is_some_and(|it| it.starts_with(&TAR.0))
}

/// Reads a whole file of any kind, packed or not; `left` is how many files may still be read.
///
/// # Errors
/// A sentence: it is damaged, or it unpacks to too much.
pub fn file(bytes: &[u8], label: &str, pile: &mut Pile, left: &mut usize) -> Result<(), String> {
    if is_zip(bytes) {
        return zip(bytes, label, pile, left);
    }
    let allowance = Allowance::of(bytes.len() as u64);
    let in_words = |error: io::Error| format!("cannot read {label}: {error}");
    let mut stream = gzip(bytes, &allowance).map_err(in_words)?;
    *left = left.saturating_sub(1);
    match is_tar(stream.fill_buf().map_err(in_words)?) {
        true => tar(&mut stream, label, pile, left, &allowance),
        false => pile.read(label, stream, |_| {}).map_err(in_words)?,
    }
    Ok(())
}

/// Reads a tar archive; `left` is how many files may still be read.
pub fn tar(
    stream: &mut impl Read,
    label: &str,
    pile: &mut Pile,
    left: &mut usize,
    allowance: &Allowance,
) {
    let mut archive = tar::Archive::new(allowance.bound(stream));
    // Only raw entries have names whose length can be seen before they are read.
    let entries = match archive.entries() {
        Ok(entries) => entries.raw(true),
        Err(error) => return pile.skip(label, &damaged(error)),
    };
    let mut described = Described::default();
    for entry in entries {
        if allowance.is_spent() {
            return pile.skip(label, &allowance.why());
        }
        if *left == 0 {
            return;
        }
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) => return pile.skip(label, &damaged(error)),
        };
        match described.read(&mut entry) {
            Ok(true) => continue,
            Ok(false) => (),
            Err(error) => return pile.skip(label, &damaged(error)),
        }
        let Described { name, excess } = std::mem::take(&mut described);
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = member_label(label, &name);
        *left -= 1;
        let header = entry.header();
        let kind = header.entry_type();
        if let Some(bytes) = excess {
            pile.skip(&name, &too_long(bytes));
        } else if kind.is_symlink() || kind.is_hard_link() {
            pile.skip(&name, "a link, so it was not read");
        } else if kind.is_gnu_sparse() {
            pile.skip(
                &name,
                "a sparse file, so it was not read; pack it again as a plain file",
            );
            // More of its map is between its header and the next one, and takes memory.
            if header.as_gnu().is_some_and(tar::GnuHeader::is_extended) {
                return pile.skip(label, "the rest, behind a sparse file, was not read");
            }
        } else if kind.is_file() {
            member(&name, entry, allowance, pile);
        }
    }
}

/// What entries before a file's own say of it.
#[derive(Default)]
struct Described {
    name: Option<Vec<u8>>,
    /// The length of a name, a link's target or pax records that are too long, bytes.
    excess: Option<u64>,
}

impl Described {
    /// Reads an entry that describes the next one. Returns `false` if it does not.
    fn read(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        let is_name = kind.is_gnu_longname();
        let is_pax = kind.is_pax_local_extensions();
        if !is_name && !is_pax && !kind.is_gnu_longlink() && !kind.is_pax_global_extensions() {
            return Ok(false);
        }
        let bytes = entry.header().entry_size()?;
        if bytes > MOST_NAME {
            self.excess = Some(bytes);
        } else if is_name || is_pax {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            let name = match is_name {
                true => Some(content.strip_suffix(&[0]).unwrap_or(&content)),
                false => tar::PaxExtensions::new(&content)
                    .filter_map(Result::ok)
                    .find(|it| it.key_bytes() == b"path")
                    .map(|it| it.value_bytes()),
            };
            self.name = name.map(<[u8]>::to_vec).or(self.name.take());
        }
        Ok(true)
    }
}

/// Why a file with such a description is not read.
fn too_long(bytes: u64) -> String {
    format!(
        "its name, link or pax records have {bytes} bytes; expected at most {MOST_NAME}, so it was not read"
    )
}

/// The label of a file in an archive. The end of a long name is kept, where a rank's number is.
fn member_label(archive: &str, name: &[u8]) -> String {
    let cut = |text: &str| {
        let more = text.chars().count().saturating_sub(MOST_LABEL);
        match more {
            0 => text.to_owned(),
            more => format!("…{}", text.chars().skip(more).collect::<String>()),
        }
    };
    format!("{}: {}", cut(archive), cut(&String::from_utf8_lossy(name)))
}

/// Reads a zip archive; `left` is how many files may still be read.
///
/// # Errors
/// A sentence: it is damaged, or has too many files.
pub fn zip(bytes: &[u8], label: &str, pile: &mut Pile, left: &mut usize) -> Result<(), String> {
    let allowance = Allowance::of(bytes.len() as u64);
    let archive = ZipArchive::from_slice(bytes);
    let archive = archive.map_err(|error| format!("cannot read {label}: {}", damaged(error)))?;
    if archive.entries_hint() > MOST_FILES as u64 {
        return Err(format!(
            "{label}: expected a zip archive of at most {MOST_FILES} files; unpack it, and name the folder"
        ));
    }
    let mut entries = archive.entries();
    loop {
        if allowance.is_spent() {
            pile.skip(label, &allowance.why());
            break;
        }
        if *left == 0 {
            break;
        }
        let entry = match entries.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                pile.skip(label, &damaged(error));
                break;
            }
        };
        *left -= 1;
        let path = entry.file_path();
        let name = member_label(label, path.as_bytes());
        if path.as_bytes().len() as u64 > MOST_NAME {
            pile.skip(&name, &too_long(path.as_bytes().len() as u64));
            continue;
        }
        if entry.is_dir() {
            continue;
        }
        if entry.mode().is_symlink() {
            pile.skip(&name, "a link, so it was not read");
            continue;
        }
        match unpacked(&archive, &entry) {
            Ok(content) => member(&name, allowance.bound(content), &allowance, pile),
            Err(why) => pile.skip(&name, &why),
        }
    }
    Ok(())
}

/// A file of a zip archive. Its end is an error if size or checksum differ from the archive's.
fn unpacked<'a>(
    archive: &'a ZipSliceArchive<&[u8]>,
    entry: &ZipFileHeaderRecord<'_>,
) -> Result<impl Read + 'a, String> {
    if entry.flags().is_encrypted() {
        return Err("encrypted, so it was not read".to_owned());
    }
    let found = archive.get_entry(entry.wayfinder());
    let found = found.map_err(damaged)?;
    let packed = found.data();
    let content: Box<dyn Read + 'a> = match entry.compression_method() {
        CompressionMethod::STORE => Box::new(packed),
        CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(packed)),
        other => {
            return Err(format!(
                "packed by method {other}; expected deflate, so pack it with the usual settings of zip"
            ));
        }
    };
    Ok(found.verifying_reader(content))
}

/// Why an archive or a file of it cannot be read.
fn damaged(error: impl Display) -> String {
    format!("a damaged archive ({error})")
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
    if !stream.fill_buf()?.starts_with(&GZIP) {
        return Ok(Box::new(stream));
    }
    let decoder = flate2::bufread::MultiGzDecoder::new(stream);
    let decoder = BufReader::with_capacity(PIECE, allowance.bound(decoder));
    Ok(Box::new(decoder))
}

/// How many bytes an archive may unpack to. Those of packed files in it count, too.
#[derive(Debug)]
pub struct Allowance {
    most: u64,
    read: Cell<u64>,
}

impl Allowance {
    /// That of an archive of `packed` bytes.
    pub fn of(packed: u64) -> Self {
        Self {
            most: packed
                .saturating_mul(MOST_RATIO)
                .clamp(LEAST_ALLOWANCE, MOST_UNPACKED),
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

    /// A stream that ends with an error where the archive unpacks to more.
    pub const fn bound<R>(&self, inner: R) -> Bounded<'_, R> {
        Bounded {
            inner,
            allowance: self,
        }
    }
}

/// A stream whose bytes are counted.
#[derive(Debug)]
pub struct Bounded<'a, R> {
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
