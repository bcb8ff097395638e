//! The question of `topo gpu-test`: which checks that need GPUs are run, and for how long.

use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "arguments")]
use program::size::parse as size;

#[cfg(feature = "arguments")]
use crate::values::within;
use crate::{Args, ValueEnum};

/// A section of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Facts about the GPU and its driver on which collectives rely
    Silicon,
    /// Collectives by every algorithm, type and operation
    Correctness,
    /// P2P, SHM and NET, with every protocol and kind of memory, and graphs
    Transports,
    /// Several GPUs by each algorithm and protocol, beside PyTorch's NCCL
    Bandwidth,
    /// Ranks that share a GPU, beside what its memory allows, and beside NCCL (--nccl-library)
    OneGpu,
    /// compute-sanitizer's tools
    Sanitizer,
}

/// The part of a process of `topo gpu-test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Says what the GPUs are
    Machine,
    /// Runs cases with all ranks on the first GPU
    Shared,
    /// Runs cases with a GPU for each rank
    Each,
    /// Runs cases of NVLS
    Nvls,
    /// Copies within the first GPU's memory
    Copy,
    /// Times collectives with all ranks on the first GPU
    OneGpu,
    /// Times NCCL with all ranks on the first GPU
    Nccl,
    /// Times launches
    Launch,
    /// Fills the queue of a stream that a kernel holds
    Queue,
    /// Lets two kernels wait for each other
    Overlap,
    /// Captures graphs while another thread asks for events
    Captures,
    /// Stores and polls lines of LL and LL128
    Lines,
    /// Stores data, and a counter behind it
    Messages,
    /// Reads the GPU's clock and stores counters
    Clock,
    /// Asks what the driver knows of mapped memory
    Mappings,
}

impl Part {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Shared => "shared",
            Self::Each => "each",
            Self::Nvls => "nvls",
            Self::Copy => "copy",
            Self::OneGpu => "one-gpu",
            Self::Nccl => "nccl",
            Self::Launch => "launch",
            Self::Queue => "queue",
            Self::Overlap => "overlap",
            Self::Captures => "captures",
            Self::Lines => "lines",
            Self::Messages => "messages",
            Self::Clock => "clock",
            Self::Mappings => "mappings",
        }
    }
}

/// Which checks are run.
#[derive(Debug, Clone, Args)]
pub struct GpuTestQuestion {
    /// Numbers of ranks: all on one GPU, and each on a GPU of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8", value_parser = within::<u32>(1..=1024))]
    pub ranks: Vec<u32>,
    /// Only these sections
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub only: Vec<Section>,
    /// Cases of collectives, types and algorithms for each number of ranks
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = within::<usize>(0..=u64::MAX))]
    pub cases: usize,
    /// Largest message that is timed; shorter ones where the GPUs have little memory
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256M", overrides_with = "end")]
    pub end: u64,
    /// Only parts with this text in their names, such as IPC or "8 ranks"
    #[arg(long = "match", value_name = "TEXT")]
    pub matching: Option<String>,
    /// No part begins after this time, minutes
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = within::<u64>(1..=10_000))]
    pub minutes: u64,
    /// How long ranks wait for each other, s; a part may take three times as long
    #[arg(short = 'T', long, value_name = "S", default_value_t = 60, value_parser = within::<u64>(1..=86_400))]
    pub timeout: u64,
    /// Launch for this long before the first figure of a part, so that the GPUs' clocks are up, ms
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = within::<u64>(0..=60_000))]
    pub warm: u64,
    /// NCCL's library (libnccl.so.2) of version 2.30 or later, to time its ranks on one GPU, too
    #[arg(long, value_name = "FILE")]
    pub nccl_library: Option<PathBuf>,
    /// Also write the page (gpu-test.md) and the results (gpu-test.json) to this folder, after each
    /// part
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// This process runs one part for another one
    #[arg(long, hide = true)]
    pub part: Option<Part>,
}

impl GpuTestQuestion {
    /// When no part begins any more.
    pub const fn limit(&self) -> Duration {
        Duration::from_secs(60 * self.minutes)
    }

    /// How long ranks wait for each other.
    pub const fn longest_wait(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// How long launches warm the GPUs' clocks up before a part's first figure.
    pub const fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm)
    }
}
