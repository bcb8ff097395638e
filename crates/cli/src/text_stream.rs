//! Text of any length: plain or compressed files, and standard input.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use files::Stream;
use flate2::bufread::MultiGzDecoder;

use crate::output::Output;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// The first bytes of a file that gzip wrote, and of one that zstd wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A text that is read in pieces.
pub(crate) struct TextStream {
    /// The name of the file in messages.
    pub label: String,
    /// The text.
    pub text: Box<dyn BufRead>,
    size: Option<u64>,
    /// Why the text ends before its end.
    damage: Rc<RefCell<Option<String>>>,
}

impl TextStream {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(file: &Path) -> Result<Self> {
        let is_input = file == Path::new("-");
        let label = match is_input {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        };
        let stream = match is_input {
            true => Stream::standard_input(),
            false => Stream::open(file),
        };
        let stream = stream.with_context(|| format!("cannot read {label}"))?;
        let size = stream.size();
        let mut stream = BufReader::with_capacity(PIECE, stream);
        let first = stream.fill_buf();
        let first = first.with_context(|| format!("cannot read {label}"))?;
        if first.starts_with(&ZSTD) {
            bail!(
                "{label} is compressed with zstd; expected plain text or gzip: `zstdcat {label} | topo … -`"
            );
        }
        let damage = Rc::default();
        if !first.starts_with(&GZIP) {
            return Ok(Self {
                label,
                text: Box::new(stream),
                size,
                damage,
            });
        }
        let decoded = Decoder {
            decoder: MultiGzDecoder::new(stream),
            damage: Rc::clone(&damage),
        };
        Ok(Self {
            label,
            text: Box::new(BufReader::with_capacity(PIECE, decoded)),
            size: None,
            damage,
        })
    }

    /// How many of its bytes were read, in words.
    pub(crate) fn progress(label: &str, size: Option<u64>, read: u64) -> String {
        match size {
            Some(all) => format!("reading {label}: {} of {} MB", read >> 20, all >> 20),
            None => format!("reading {label}: {} MB of text", read >> 20),
        }
    }

    /// Its bytes, if that is known.
    pub(crate) const fn size(&self) -> Option<u64> {
        self.size
    }

    /// Warns if the text ended before its end.
    pub(crate) fn finish(self, output: &mut Output) {
        if let Some(why) = self.damage.borrow().as_ref() {
            let label = &self.label;
            output.warnings.push(format!(
                "{label}: {why}; what was read until there is shown"
            ));
        }
    }
}

/// Text out of compressed bytes. It ends where these are damaged.
struct Decoder<R> {
    decoder: MultiGzDecoder<R>,
    damage: Rc<RefCell<Option<String>>>,
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.damage.borrow().is_some() {
            return Ok(0);
        }
        match self.decoder.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "the compressed file ends early".to_owned(),
                    _ => format!("the compressed file is damaged ({error})"),
                };
                *self.damage.borrow_mut() = Some(why);
                Ok(0)
            }
            read => read,
        }
    }
}
