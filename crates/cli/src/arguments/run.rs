//! The commands that run collectives.

use std::path::PathBuf;

use answers::gpu_test::GpuTestQuestion;
use answers::job_options::Variables;
use answers::values::one;
use answers::values::within;
use clap::{ArgAction, Args, ValueEnum};
use program::{ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};
use serde::{Deserialize, Serialize};

use super::compare::{FormArguments, TextOrJson};
use super::join::JoinArguments;
use super::nccl_tests::{NcclTestsArguments, check, root};
use program::size::parse as size;

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  topo run --ranks 4 all-reduce                four ranks here, 8 bytes to 256 MiB, checked
  topo run --ranks 8 all-reduce --backend cuda  on the GPUs of this machine
  topo run plan.json all-reduce                the rings and trees of a plan from topo plan -o
  topo run topology.xml all-gather             of a machine, which is planned first
  topo run all-reduce -b 8 -e 128M -f 2 -g 8   as all_reduce_perf of nccl-tests: 8 ranks
  topo run --ranks 8 all-reduce --algorithm tree --protocol ll128 --type bf16 --op max
  topo run --backend cuda --pairs > pairs.txt  bandwidths between all GPUs, for --measured
  mpirun -n 4 topo run all-reduce              ranks that a launcher starts (topo help hosts)
  topo run all-reduce --rank 0 --world 2 --rendezvous file:/shared/job
                                               one of two ranks, started by hand

Collectives: all-reduce all-gather reduce-scatter broadcast reduce all-to-all gather scatter \
send-recv
Algorithms: ring tree reduce-broadcast halving-doubling mesh two-phase-mesh leader \
bruck recursive-doubling recursive-halving forest nvls.
Sizes and bandwidths are defined as in nccl-tests: a size is that of the larger side where a \
collective gathers or scatters. Options that only nccl-tests has are refused, with others named.
Exit status: 0 when all elements are right, 1 when some are wrong, 2 when something failed.";

pub(crate) const GPU_TEST_EXAMPLES: &str = "\
Examples:
  topo gpu-test > page.md                      all GPUs of this machine, less than 15 minutes
  topo gpu-test -o results                     also gpu-test.json, and what was done if it is cut
                                               short
  topo gpu-test --ranks 8 --only bandwidth --end 1G
                                               times on 8 GPUs, up to 1 GiB
  topo gpu-test --cases 20 --end 1M            a short one
  topo gpu-test --only one-gpu --nccl-library libnccl.so.2
                                               ranks on one GPU, beside those of NCCL

Parts are processes with deadlines: one that fails or hangs is named, and does not end \
the others. What was not run is named with the reason.
Exit status: 0 when nothing failed, 1 when something did, 2 when there is no GPU.";

pub(crate) const CALIBRATE_EXAMPLES: &str = "\
Examples:
  topo run --calibrate                               measure the choices here, and use the times
                                                     from now on
  topo run --calibrate -o cpu.toml                   write the profile to a file instead
  topo run --ranks 4 all-reduce --cost-profile cpu.toml
  topo run --calibrate --ranks 2,8 --seconds 30      other numbers of ranks, more time";

/// A time, s.
fn seconds(text: &str) -> Result<f64, String> {
    let time = text.parse().ok().filter(|it| (0.1..=86_400.0).contains(it));
    time.ok_or_else(|| "expected a number of 0.1 to 86400".to_owned())
}

/// Where ranks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bind {
    /// Each rank on a core of its own, if there are enough
    Cores,
    /// Where the kernel places it
    None,
}

/// Whose memory the buffers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BufferOwner {
    /// The communicator's, which other processes map
    Own,
    /// The program's, as of any program that calls a library
    Caller,
}

/// The runner of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum BackendName {
    /// The processors of this machine
    Cpu,
    /// Its NVIDIA GPUs: rank i on GPU i; with more ranks than GPUs, several ranks share one
    Cuda,
    /// Emulated GPUs for tests, one per process
    #[cfg(feature = "emulator")]
    #[value(hide = true)]
    Emulator,
}

#[derive(Debug, Args)]
pub(crate) struct GpuTestArguments {
    #[command(flatten)]
    pub question: GpuTestQuestion,
    #[command(flatten)]
    pub form: FormArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A plan or a topology file (or a folder that holds topology.xml, or -), then the collective;
    /// without a file, --ranks or -g is needed
    #[arg(value_name = "[FILE] COLLECTIVE", required_unless_present_any = ["member", "pairs"], num_args = 1..=2)]
    pub what: Vec<String>,
    /// Number of ranks, without a file
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=1024))]
    pub ranks: Option<u32>,
    /// Threads of this process, each with -g ranks; as in nccl-tests, -t times -g is --ranks
    #[arg(short = 't', long, value_name = "N", value_parser = within::<u32>(1..=1024))]
    pub nthreads: Option<u32>,
    /// GPUs (or cores) of a thread, each with one rank
    #[arg(short = 'g', long, value_name = "N", value_parser = within::<u32>(1..=1024))]
    pub ngpus: Option<u32>,
    /// One process per rank, not one thread
    #[arg(long)]
    pub processes: bool,
    /// Let the processes act as N hosts: only ranks of one host share memory, the others use TCP or
    /// --net-plugin
    #[arg(long, value_name = "N", requires = "processes", default_value_t = 1, hide_default_value = true,
          value_parser = within::<u32>(1..=1024))]
    pub hosts: u32,
    /// Where the ranks run
    #[arg(long, value_enum, default_value_t = BackendName::Cpu)]
    pub backend: BackendName,
    /// Instead of a collective: time copies between all pairs of this machine's GPUs, in one
    /// direction, in both, and all at once; --measured reads what is printed. Copies are of 64 MiB,
    /// or of --end if that is less
    #[arg(long, conflicts_with_all = ["what", "processes", "ranks", "nthreads", "ngpus", "trace", "profile", "graph",
          "explain", "algorithm", "protocol", "transfer", "channels"])]
    pub pairs: bool,
    /// Write a trace for Chrome or Perfetto: when each channel of each launch began and ended on
    /// the GPUs
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print when each channel of the last launch began and ended on the GPUs
    #[arg(long)]
    pub profile: bool,
    /// On GPUs: launch for this long before the first figure, so that their clocks are up, ms
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = within::<u64>(0..=60_000))]
    pub warm: u64,
    /// Most thread blocks of each rank on a GPU, unless --channels asks for more; 0: all that fit
    /// [default: 32, and a quarter of those that fit]
    #[arg(long, value_name = "N", value_parser = within::<u32>(0..=65_536))]
    pub blocks: Option<u32>,
    /// On GPUs: put the buffers where NVSwitches reduce and store them without copies (NVLS), as
    /// topo_comm_register does
    #[arg(long)]
    pub register: bool,
    /// Launch N timed launches at once, as a CUDA graph
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=16384))]
    pub graph: Option<u32>,
    /// Explain the choices: the expected times of the fastest, in parts
    #[arg(long)]
    pub explain: bool,
    /// Only this algorithm
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<Schedule>,
    /// Only this protocol: LL, LL128, Simple
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// How data moves: fifo, direct (from buffer to buffer), staged (through scratch memory that
    /// peers read), or hierarchical (direct on each host, fifo between their leaders)
    #[arg(long, value_name = "NAME")]
    pub transfer: Option<Transfer>,
    /// Channels, at most those of the plan
    #[arg(long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub channels: Option<u16>,
    /// Type of the elements: i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64, or nccl-tests' names
    #[arg(short = 'd', long = "type", alias = "datatype", value_name = "TYPE", default_value = "f32", value_parser = one::<ElementType>)]
    pub element: ElementType,
    /// Operation: sum prod min max avg mulsum
    #[arg(short, long, value_name = "OP", default_value = "sum", value_parser = one::<Reduction>)]
    pub op: Reduction,
    /// The root
    #[arg(short, long, value_name = "RANK", default_value_t = 0, allow_negative_numbers = true, value_parser = root)]
    pub root: u32,
    /// Smallest size, bytes
    #[arg(short, long, alias = "minbytes", value_name = "SIZE", value_parser = size, default_value = "8")]
    pub begin: u64,
    /// Largest size, bytes
    #[arg(short, long, alias = "maxbytes", value_name = "SIZE", value_parser = size, default_value = "256M")]
    pub end: u64,
    /// Factor from one size to the next [default: 2]
    #[arg(short, long, alias = "stepfactor", value_name = "N", value_parser = within::<u64>(1..=u64::MAX))]
    pub factor: Option<u64>,
    /// Instead of a factor: bytes from one size to the next
    #[arg(short = 'i', long, alias = "stepbytes", value_name = "SIZE", value_parser = size)]
    pub step: Option<u64>,
    /// Timed launches of each size [default: as many as --time allows]
    #[arg(short = 'n', long, alias = "iters", value_name = "N", value_parser = within::<u32>(1..=u64::from(u32::MAX)))]
    pub iterations: Option<u32>,
    /// Untimed launches before the timed ones
    #[arg(
        short,
        long,
        alias = "warmup_iters",
        value_name = "N",
        default_value_t = 3,
        value_parser = within::<u32>(0..=u64::from(u32::MAX))
    )]
    pub warmup: u32,
    /// Time to spend on each figure, ms
    #[arg(long, value_name = "MS", default_value_t = 30, value_parser = within::<u64>(1..=600_000))]
    pub time: u64,
    /// Check every element: 1 or 0
    #[arg(short, long, value_name = "0|1", default_value = "1", action = ArgAction::Set, value_parser = check)]
    pub check: bool,
    /// Do not run in place
    #[arg(long)]
    pub no_in_place: bool,
    /// Answer each broadcast by a broadcast from the last rank; the reported time is half of both
    #[arg(long)]
    pub reply: bool,
    /// Whose memory the buffers are
    #[arg(long, value_enum, default_value_t = BufferOwner::Own)]
    pub buffers: BufferOwner,
    /// Which cores ranks run on
    #[arg(long, value_enum, default_value_t = Bind::Cores)]
    pub bind: Bind,
    /// Fail when a rank waits longer than this, s
    #[arg(short = 'T', long, value_name = "S", default_value_t = 60, value_parser = within::<u64>(1..=86_400))]
    pub timeout: u64,
    /// CPU cost profile: a file of topo run --calibrate -o, or built-in [default:
    /// TOPO_COST_PROFILE, or the one that topo run --calibrate kept]
    #[arg(long, value_name = "FILE")]
    pub cost_profile: Option<PathBuf>,
    /// Also measure the other choices, and show the fastest one
    #[arg(long)]
    pub best: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
    /// Short for --format json
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub variables: Variables,
    #[command(flatten)]
    pub join: JoinArguments,
    #[command(flatten)]
    pub others: NcclTestsArguments,
    /// This process is a rank that another one started and instructs through standard input
    #[arg(long, hide = true, exclusive = true)]
    pub member: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Numbers of ranks to measure
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4", value_parser = within::<u32>(2..=64))]
    pub ranks: Vec<u32>,
    /// Numbers of hosts as which processes of this machine act, which use TCP between them
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = within::<u32>(1..=64))]
    pub hosts: Vec<u32>,
    /// Whose memory the buffers of processes are
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "own,caller"
    )]
    pub buffers: Vec<BufferOwner>,
    /// Time to spend in all, s
    #[arg(long, value_name = "S", default_value_t = 6.0, value_parser = seconds)]
    pub seconds: f64,
    /// Message sizes to measure, ascending [default: seven from 8 bytes to 4 MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    pub sizes: Vec<u64>,
    /// Name of the profile
    #[arg(long, value_name = "NAME", default_value = "calibrated")]
    pub name: String,
    /// Write the profile to a file instead of keeping it for this machine
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
