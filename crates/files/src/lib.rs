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
//! is never held), [`text`] (plain or compressed), `private` (files that only this user can
//! access; on Linux), [`write`](mod@write) (files that are whole or absent), `unix` and
//! `windows` (what each system does for them), [`printable`](mod@printable) (text for terminals).

pub mod printable;
#[cfg(target_os = "linux")]
pub mod private;
pub mod read;
pub mod stream;
pub mod text;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
pub mod write;

pub use printable::printable;
#[cfg(target_os = "linux")]
pub use private::{Folder, Replaces};
pub use read::{ReadError, read, read_text, standard_input};
pub use stream::Stream;
pub use text::TextStream;
#[cfg(target_os = "linux")]
pub use write::write_private;
pub use write::{WriteError, write, write_all};

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// Time limit for another process to open the other end of a FIFO.
const OPEN_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Time limit for the next byte of a pipe.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);
