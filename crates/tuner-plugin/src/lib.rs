//! A tuner plug-in for NCCL that takes algorithm, protocol, channels and chunk of each operation
//! from a file, and leaves NCCL its own choice where the file has none.
//!
//! The crate is compiled twice: as a library for the program that writes such files, and by
//! `build.rs` as `libnccl-tuner-topo.so`, which the library holds as bytes ([`LIBRARY`]).
//!
//! In reading order: [`names`] (NCCL's numbers), [`table`] (the values of a file), [`text`] (its
//! text), [`choose`] (the choice for an operation), [`abi`] (NCCL's structures), `file` (where the
//! file is), `plugin` (what NCCL calls). The last two are for Linux alone, as NCCL is.
//!
//! ```
//! use tuner_plugin::table::Table;
//!
//! let text = "topo-tuner 1\n\
//!             communicator nodes 1 ranks 8\n\
//!             choose all-reduce 0 65536 tree ll channels 2\n\
//!             end\n";
//! let table = Table::parse(text)?;
//! assert_eq!(table.communicators[0].choices[0].channels, Some(2));
//! assert_eq!(table.to_text(), text);
//! # Ok::<(), tuner_plugin::text::LineError>(())
//! ```

pub mod abi;
pub mod choose;
#[cfg(target_os = "linux")]
mod file;
pub mod names;
#[cfg(target_os = "linux")]
pub mod plugin;
pub mod table;
pub mod text;

/// The variable that names the file.
pub const VARIABLE: &str = "TOPO_TUNER_FILE";

/// The file's name beside the plug-in, if the variable is not set.
pub const TABLE_FILE: &str = "topo-tuner.table";

/// Largest file that is read, bytes.
pub const LARGEST_FILE: u64 = 16 << 20;

/// The plug-in's file name.
pub const LIBRARY_FILE: &str = "libnccl-tuner-topo.so";

/// The plug-in, compiled for this program's processor; empty where NCCL does not exist, or in a
/// program that is linked statically.
#[cfg(not(topo_plugin))]
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnccl-tuner-topo.so"));
