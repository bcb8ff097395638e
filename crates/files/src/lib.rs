//! Files that come from outside, or that others could put where a file is looked for.
//!
//! In reading order: [`read`](mod@read) (any input, within bounds of bytes and of time), [`private`] (files that only this user
//! can use), [`write`](mod@write) (files that are there whole or not at all).

pub mod private;
pub mod read;
pub mod write;

pub use private::Folder;
pub use read::{ReadError, read, read_text, standard_input};
pub use write::{WriteError, write};

use rustix::fs::FileType;

/// How long another process may take to open the other end of a FIFO.
const OPEN_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// How long a pipe may stand still.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// What something is that was found in place of a file.
const fn kind(of: FileType) -> &'static str {
    match of {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "thing of an unknown kind",
    }
}
