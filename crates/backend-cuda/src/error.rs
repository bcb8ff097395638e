//! Errors of this crate.

use std::path::PathBuf;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Why GPUs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library is missing.
    #[error(
        "there is no NVIDIA driver: the library {library} was not found; install the driver (525 or newer), or in a container \
         start it with the NVIDIA runtime (docker run --gpus all); without a GPU, take the CPU backend"
    )]
    NoDriver {
        /// The library's name.
        library: &'static str,
    },
    /// The driver's library hangs.
    #[error(
        "the NVIDIA driver does not answer ({library}: {why}); see whether nvidia-smi answers and what dmesg says of the GPUs \
         (Xid), and restart the machine if they do not come back; without a GPU, take the CPU backend"
    )]
    Silent {
        /// The library's name.
        library: &'static str,
        /// The call, and how long it was waited for.
        why: String,
    },
    /// The driver lacks a function that this program calls.
    #[error(
        "the NVIDIA driver is too old: it lacks {symbol}; install 525 or newer, or take the CPU backend"
    )]
    OldDriver {
        /// The function.
        symbol: &'static str,
    },
    /// The loader finds two libraries.
    #[error(
        "the loader finds one driver as {library} and another library as libcuda.so, probably a stub for compiling; take its \
         folder out of LD_LIBRARY_PATH"
    )]
    TwoDrivers {
        /// The library's name.
        library: &'static str,
        /// The file that the loader finds by that name, without links; `None` if nobody knows.
        file: Option<PathBuf>,
    },
    /// The driver finds no GPU.
    #[error(
        "the NVIDIA driver finds no GPU ({why}); see whether nvidia-smi lists one, whether /dev/nvidia0 is there, and whether \
         CUDA_VISIBLE_DEVICES hides it; without a GPU, take the CPU backend"
    )]
    NoDevice {
        /// The driver's message.
        why: String,
    },
    /// The number of a GPU is too high.
    #[error("there is no GPU {device}; this machine has {count}, numbered from 0")]
    NoSuchDevice {
        /// The given number.
        device: u32,
        /// GPUs of this machine.
        count: u32,
    },
    /// The kind of memory that is shared with other processes is unknown.
    #[error("`{name}` is no kind of memory; expected fabric, descriptor or ipc")]
    NoSuchMemory {
        /// The given name.
        name: String,
    },
    /// There are no kernels for a GPU.
    #[error("there are no kernels for {device} (compute capability {major}.{minor}): {why}")]
    NoKernels {
        /// The GPU.
        device: String,
        /// Its compute capability, major number.
        major: i32,
        /// The minor number.
        minor: i32,
        /// The attempts and their errors.
        why: String,
    },
    /// A call of the driver failed.
    #[error("{what}: the driver says {why}")]
    Driver {
        /// The operation.
        what: String,
        /// The driver's message.
        why: String,
    },
}

/// The driver's name and text of an error.
pub(crate) fn words(error: DriverError) -> String {
    let name = error
        .error_name()
        .map(|name| name.to_string_lossy().into_owned());
    let text = error
        .error_string()
        .map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{name}: {text}"),
        _ => format!("error {:?}", error.0),
    }
}

/// Whether the answer to a question about work is "not yet": the work has not ended, or a capture
/// of the program forbids the question.
pub(crate) const fn is_pending(error: DriverError) -> bool {
    matches!(
        error.0,
        CUresult::CUDA_ERROR_NOT_READY
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
    )
}

impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// Adds the operation to an error of the driver.
pub(crate) trait Driver<T> {
    /// Returns [`Error::Driver`] with this operation on failure.
    fn to(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Driver<T> for Result<T, DriverError> {
    fn to(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Driver {
            what: what(),
            why: words(error),
        })
    }
}

impl Driver<()> for CUresult {
    fn to(self, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.result().to(what)
    }
}
