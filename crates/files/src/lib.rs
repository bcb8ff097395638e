//! Reads inputs within limits on size and time, and writes files whole and for one user.
//!
//! ```
//! let path = std::env::temp_dir().join(format!("files-example-{}", std::process::id()));
//! files::write(&path, b"whole")?;
//! assert_eq!(files::read(&path, 16)?, b"whole");
//! assert!(files::read(&path, 4).is_err());
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`read`](mod@read) (bounded input), [`stream`] (input that
//! is never held), [`private`] (files that only this user can
//! access), [`write`](mod@write) (files that are whole or absent).

pub mod private;
pub mod read;
pub mod stream;
pub mod write;

pub use private::Folder;
pub use read::{ReadError, read, read_text, standard_input};
pub use stream::Stream;
pub use write::{WriteError, write};

use rustix::fs::FileType;

/// Time limit for another process to open the other end of a FIFO.
const OPEN_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Time limit for the next byte of a pipe.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The name of a file type for messages.
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
