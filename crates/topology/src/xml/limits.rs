//! Limits on the files that are read.

/// Most elements of a host that NCCL has room for, as its ranks describe it together (2.27 to 2.32,
/// source, binaries).
pub const NCCL_ELEMENTS: usize = 256;

/// Most elements of a file that NCCL reads: it asks for room before it sees the end (2.27 to 2.32,
/// binaries).
pub const NCCL_FILE_ELEMENTS: usize = NCCL_ELEMENTS - 1;

/// Limits on a file. A file beyond a limit is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Elements of the topology. More than [`NCCL_FILE_ELEMENTS`] are a warning.
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
