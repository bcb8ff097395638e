//! Linux and macOS.

mod input;
mod output;

use rustix::fs::FileType;

pub(crate) use input::{bytes_of, open_file, open_standard_input, read, standard_input};
pub(crate) use output::{builder, place, within_limit, write_to};

/// The name of a file type for messages.
pub(crate) const fn kind(of: FileType) -> &'static str {
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
