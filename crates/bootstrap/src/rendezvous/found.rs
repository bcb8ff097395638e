//! A job that a rank has found.

use std::net::TcpListener;

use crate::UniqueId;
use files::private::CreatedFile;

/// Where the ranks of a job meet.
#[derive(Debug)]
pub struct FoundJob {
    /// The job's id.
    pub id: UniqueId,
    /// The roots that this process holds: place in the id, and the socket that listens.
    pub roots: Vec<(u32, TcpListener)>,
    /// The file to be removed once all have met.
    pub file: Option<CreatedFile>,
    /// Whether the token derives from public data only.
    pub weak: bool,
}

impl FoundJob {
    /// The id of a job whose roots are elsewhere.
    pub const fn without_root(id: UniqueId) -> Self {
        Self {
            id,
            roots: Vec::new(),
            file: None,
            weak: false,
        }
    }
}
