//! Errors of a plug-in.

use thiserror::Error;

use crate::log;

/// Why a plug-in cannot be used, or what failed in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No library of that name can be opened.
    #[error(
        "the net plug-in {wanted} cannot be opened: {why}; expected a library's path, its name, or NAME of \
             libnccl-net-NAME.so, in a folder where the loader looks (LD_LIBRARY_PATH)"
    )]
    Open {
        /// The name.
        wanted: String,
        /// The loader's message.
        why: String,
    },
    /// A library hangs while it is loaded and started.
    #[error("the net plug-in {wanted} does not start: {why}; NCCL_NET_PLUGIN=none does without it")]
    Silent {
        /// The libraries that were tried.
        wanted: String,
        /// How long it was waited for.
        why: String,
    },
    /// The library exports no table of a supported version.
    #[error("{library} exports none of ncclNetPlugin_v8 to ncclNetPlugin_v12{}; expected a net plug-in of ABI v8 and newer, \
             as made for NCCL 2.20 and newer", older.map_or_else(String::new, |it| format!(", but ncclNetPlugin_v{it}")))]
    NoTable {
        /// Its path.
        library: String,
        /// An older version that it exports.
        older: Option<u32>,
    },
    /// A required function is missing.
    #[error(
        "{library} (net plug-in ABI v{version}) has no function {function}; expected one, so the library is broken: \
             install another build of it"
    )]
    Missing {
        /// Its path.
        library: String,
        /// The version of its table.
        version: u32,
        /// The function.
        function: &'static str,
    },
    /// A function failed.
    #[error("{library} (net plug-in ABI v{version}): {function} failed with {} ({code}){}; {}", name_of(*code),
            said.as_ref().map_or_else(String::new, |it| format!(", saying: {it}")), advice(*code))]
    Failed {
        /// Its path.
        library: String,
        /// The version of its table.
        version: u32,
        /// The function.
        function: &'static str,
        /// Its result.
        code: i32,
        /// The last warnings that it logged.
        said: Option<String>,
    },
    /// A function returned something invalid.
    #[error("{library} (net plug-in ABI v{version}): {function} gives {what}")]
    Absurd {
        /// Its path.
        library: String,
        /// The version of its table.
        version: u32,
        /// The function.
        function: &'static str,
        /// The value, and what was expected.
        what: String,
    },
    /// The requested plug-in does not exist or does not work.
    #[error("{0}")]
    Name(String),
}

impl Error {
    /// Whether the plug-in blames the other side or the network, not this side.
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Failed { code: 6 | 8, .. })
    }
}

/// The name of a result of NCCL.
const fn name_of(code: i32) -> &'static str {
    match code {
        0 => "ncclSuccess",
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        8 => "ncclTimeout",
        _ => "a result that NCCL does not know",
    }
}

const fn advice(code: i32) -> &'static str {
    match code {
        1 => "it needs a GPU and its driver, which may be missing",
        2 => "check its devices, drivers and permissions",
        6 => "the other side or the network failed",
        8 => "the other side or the network may be down",
        _ => "NCCL_DEBUG=INFO shows its log, NCCL_NET_PLUGIN=none disables it",
    }
}

/// A library and the version of its table, for errors.
#[derive(Debug, Clone)]
pub struct Place {
    pub library: String,
    pub version: u32,
}

impl Place {
    pub fn missing(&self, function: &'static str) -> Error {
        Error::Missing {
            library: self.library.clone(),
            version: self.version,
            function,
        }
    }

    pub fn absurd(&self, function: &'static str, what: impl Into<String>) -> Error {
        Error::Absurd {
            library: self.library.clone(),
            version: self.version,
            function,
            what: what.into(),
        }
    }

    /// Checks the result of a call.
    pub fn check(&self, function: &'static str, code: i32) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        Err(Error::Failed {
            library: self.library.clone(),
            version: self.version,
            function,
            code,
            said: log::last_warnings(),
        })
    }
}
