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

/// Most bytes that an archive may unpack to: this many, or so many times its own size. Logs shrink
/// to a tenth; what shrinks more than this is a trap.
const MOST_UNPACKED: u64 = 256 << 20;
const MOST_RATIO: u64 = 200;

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
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return pile.skip(label, &damaged(error)),
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
            Err(error) => return pile.skip(label, &damaged(error)),
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
        if entry.is_dir() {
            continue;
        }
        let name = String::from_utf8_lossy(entry.file_path().as_bytes());
        let name = format!("{label}: {name}");
        if entry.mode().is_symlink() {
            pile.skip(&name, "a link, so it was not read");
            continue;
        }
        *left -= 1;
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
