//! What keeps GPUs from being used.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Why GPUs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver's library is not there.
    #[error(
        "there is no NVIDIA driver: the library {library} was not found; install the driver (580 or newer), or in a container \
         start it with the NVIDIA runtime (docker run --gpus all); without a GPU, take --backend cpu"
    )]
    NoDriver {
        /// What was looked for.
        library: &'static str,
    },
    /// The driver is older than what this program calls.
    #[error(
        "the NVIDIA driver is too old: it lacks {symbol}; install 580 or newer, or take --backend cpu"
    )]
    OldDriver {
        /// What it lacks.
        symbol: &'static str,
    },
    /// The driver finds no GPU.
    #[error(
        "the NVIDIA driver finds no GPU ({why}); see whether nvidia-smi lists one, whether /dev/nvidia0 is there, and whether \
         CUDA_VISIBLE_DEVICES hides it; without a GPU, take --backend cpu"
    )]
    NoDevice {
        /// What the driver says.
        why: String,
    },
    /// A device that is not there.
    #[error("there is no GPU {device}; this machine has {count}, numbered from 0")]
    NoSuchDevice {
        /// The number that was given.
        device: u32,
        /// GPUs of this machine.
        count: u32,
    },
    /// No kernels for a GPU.
    #[error("there are no kernels for {device} (compute capability {major}.{minor}): {why}")]
    NoKernels {
        /// The GPU.
        device: String,
        /// Its compute capability.
        major: i32,
        /// The second number of it.
        minor: i32,
        /// What was tried, and what to do.
        why: String,
    },
    /// The driver refused something.
    #[error("{what}: the driver says {why}")]
    Driver {
        /// What was to be done.
        what: String,
        /// What it says.
        why: String,
    },
}

/// What the driver says of an error.
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

/// Turns what the driver answers into an error that says what was to be done.
pub(crate) trait Driver<T> {
    /// Says what was to be done.
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
