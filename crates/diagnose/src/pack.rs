//! Files of one host as an archive that [`archive`](crate::archive) reads.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::redaction::{Content, Redaction};

/// Permissions of a file in the archive.
const MODE: u32 = 0o644;

/// A file that was collected.
#[derive(Debug)]
pub struct CollectedFile {
    /// Its name in the archive.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Packs files into a folder of an archive, without what is to be hidden. Returns its bytes, and
/// the names of files that are left out because they cannot be cleaned.
///
/// # Errors
/// A name is too long for an archive.
pub fn pack(
    folder: &str,
    files: &[CollectedFile],
    redaction: Option<&Redaction>,
) -> io::Result<(Vec<u8>, Vec<String>)> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut left_out = Vec::new();
    for CollectedFile { name, bytes } in files {
        let (name, bytes) = match redaction {
            None => (name.clone(), Cow::Borrowed(bytes.as_slice())),
            Some(it) => match Content::of(bytes) {
                Some(content) => {
                    let hidden = content.with(it.text(&content.text))?;
                    (it.text(name), Cow::Owned(hidden))
                }
                None => {
                    left_out.push(name.clone());
                    continue;
                }
            },
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        tar.append_data(&mut header, format!("{folder}/{name}"), &*bytes)?;
    }
    let mut packed = tar.into_inner()?;
    packed.flush()?;
    Ok((packed.finish()?, left_out))
}
