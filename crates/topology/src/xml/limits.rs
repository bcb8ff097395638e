//! Limits on the files that are read.

/// Most elements of a file that NCCL 2.30 reads.
pub const NCCL_ELEMENTS: usize = 256;

/// Limits on a file. A file beyond a limit is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Elements of the topology. NCCL 2.30 has room for 256 per host; more are a warning.
    pub elements: usize,
    /// Children of one element; the default is NCCL's own limit.
    pub children: usize,
    /// Elements inside one another, those that are skipped included.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            elements: 65_536,
            children: 640,
            depth: 64,
        }
    }
}
