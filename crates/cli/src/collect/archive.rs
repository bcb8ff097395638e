//! The archive that is written: files of one host, packed.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::redaction::Redaction;

/// Permissions of a file in the archive.
const MODE: u32 = 0o644;

/// A file that was collected.
pub(super) struct CollectedFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Packs files into a folder of an archive, without what is to be hidden. Returns its bytes, and
/// the names of files that are left out because they cannot be cleaned.
pub(super) fn pack(
    folder: &str,
    files: &[CollectedFile],
    redaction: Option<&Redaction>,
) -> io::Result<(Vec<u8>, Vec<String>)> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut left_out = Vec::new();
    for CollectedFile { name, bytes } in files {
        let (name, bytes) = match (redaction, std::str::from_utf8(bytes)) {
            (None, _) => (name.clone(), Cow::Borrowed(bytes.as_slice())),
            (Some(it), Ok(text)) => (it.text(name), Cow::Owned(it.text(text).into_bytes())),
            (Some(it), Err(_)) if it.is_in(bytes) => {
                left_out.push(name.clone());
                continue;
            }
            (Some(it), Err(_)) => (it.text(name), Cow::Borrowed(bytes.as_slice())),
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
