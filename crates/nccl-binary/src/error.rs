//! The possible failures, each as one sentence.

use std::io;

use thiserror::Error;

/// Why a library cannot be asked. The text continues a sentence that begins with the file's name.
#[derive(Debug, Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    File(io::Error),
    /// It is something else.
    #[error("is no shared library; expected NCCL's libnccl.so.2")]
    NotLibrary,
    /// It is for other processors.
    #[error("is for {0}; expected a library for x86-64, the only one that can be asked")]
    Architecture(String),
    /// This machine cannot load what is asked.
    #[error(
        "can be asked on Linux with an x86-64 processor; this is {} with {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )]
    Platform,
    /// It lacks its end.
    #[error("is truncated: it has {length} bytes and needs {expected}; copy or download it again")]
    Truncated {
        /// Bytes that its tables speak of.
        expected: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// The names of its functions are gone.
    #[error(
        "is stripped: the CUDA runtime inside it has no names, so its calls cannot be redirected; \
         expected NCCL as NVIDIA publishes it (pip, deb, rpm)"
    )]
    Stripped,
    /// It lacks a function.
    #[error("has no function {0}; expected NCCL 2.27 or newer")]
    NoFunction(&'static str),
    /// A function has other code than expected.
    #[error(
        "has {name} with {bytes} bytes of code, and a redirection takes {needed}; \
         this build of the CUDA runtime is not known"
    )]
    TooShort {
        /// The function.
        name: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes of a redirection.
        needed: usize,
    },
    /// It needs the CUDA runtime as a library.
    #[error(
        "needs {0} as a library of its own, which cannot be presented yet; \
         expected a build with the CUDA runtime inside, as NVIDIA publishes it"
    )]
    DynamicRuntime(String),
    /// The loader refuses it.
    #[error("cannot be loaded: {0}")]
    Load(String),
    /// Its code cannot be changed in memory.
    #[error(
        "cannot be redirected, because this system forbids to change code in memory ({0}); \
         run topo where it is allowed, such as in a container without SELinux"
    )]
    NotWritable(io::Error),
    /// Its devices cannot be presented.
    #[error("cannot be asked: {0}")]
    Devices(String),
}
