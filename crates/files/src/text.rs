//! Text of any length: plain or compressed files, and standard input.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

use crate::Stream;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// The first bytes of a file that gzip wrote, and of one that zstd wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why no text can be read.
#[derive(Debug, Error)]
pub enum TextError {
    /// The file is not there, or no file.
    #[error("cannot read {label}")]
    Unreadable {
        /// The name of the file.
        label: String,
        /// What the system says.
        #[source]
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another compression than gzip.
    #[error(
        "{label} is compressed with zstd; expected plain text or gzip: `zstdcat {label} | topo … -`"
    )]
    Zstd {
        /// The name of the file.
        label: String,
    },
}

/// A text that is read in pieces.
pub struct TextStream {
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
    ///
    /// # Errors
    /// It cannot be read, or zstd wrote it.
    pub fn open(file: &Path) -> Result<Self, TextError> {
        let is_input = file == Path::new("-");
        let label = match is_input {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        };
        let stream = match is_input {
            true => Stream::standard_input(),
            false => Stream::open(file),
        };
        let cannot = |why: Box<dyn std::error::Error + Send + Sync>| TextError::Unreadable {
            label: label.clone(),
            why,
        };
        let stream = stream.map_err(|why| cannot(why.into()))?;
        let size = stream.size();
        let mut stream = BufReader::with_capacity(PIECE, stream);
        let first = stream.fill_buf();
        let first = first.map_err(|why| cannot(why.into()))?;
        if first.starts_with(&ZSTD) {
            return Err(TextError::Zstd { label });
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
    pub fn progress(label: &str, size: Option<u64>, read: u64) -> String {
        match size {
            Some(all) => format!("reading {label}: {} of {} MB", read >> 20, all >> 20),
            None => format!("reading {label}: {} MB of text", read >> 20),
        }
    }

    /// Its bytes, if that is known.
    pub const fn size(&self) -> Option<u64> {
        self.size
    }

    /// A warning if the text ended before its end.
    pub fn finish(self) -> Option<String> {
        let why = self.damage.borrow();
        let label = &self.label;
        why.as_ref()
            .map(|why| format!("{label}: {why}; what was read until there is shown"))
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
