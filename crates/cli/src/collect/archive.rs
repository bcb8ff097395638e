//! The archive that is written: files of one host, packed.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::redaction::Redaction;

/// Most bytes of all files.
const MOST_BYTES: u64 = 1 << 30;

/// Permissions of a file in the archive.
const MODE: u32 = 0o644;

/// An archive that is being filled.
pub struct Archive {
    folder: String,
    tar: tar::Builder<GzEncoder<Vec<u8>>>,
    left: u64,
    redaction: Option<Redaction>,
}

impl Archive {
    /// All files are in a folder of this name.
    pub fn new(folder: String, redaction: Option<Redaction>) -> Self {
        Self {
            folder,
            tar: tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast())),
            left: MOST_BYTES,
            redaction,
        }
    }

    /// Adds a file; returns why it is left out, if it is.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<Option<String>> {
        let hidden;
        let mut bytes = bytes;
        let mut name = name.to_owned();
        if let Some(redaction) = &mut self.redaction {
            match std::str::from_utf8(bytes) {
                Ok(text) => {
                    redaction.add_of_log(text);
                    hidden = redaction.text(text);
                    bytes = hidden.as_bytes();
                }
                Err(_) if redaction.is_in(bytes) => {
                    return Ok(Some("it is no text, and holds a host's name".to_owned()));
                }
                Err(_) => {}
            }
            name = redaction.text(&name);
        }
        let size = bytes.len() as u64;
        let Some(left) = self.left.checked_sub(size) else {
            let most = MOST_BYTES >> 20;
            return Ok(Some(format!("an archive has at most {most} MiB")));
        };
        self.left = left;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(MODE);
        let path = format!("{}/{name}", self.folder);
        self.tar.append_data(&mut header, path, bytes)?;
        Ok(None)
    }

    /// The bytes of the archive.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        let mut packed = self.tar.into_inner()?;
        packed.flush()?;
        packed.finish()
    }
}
