//! The commands that price and compare plans.

use std::path::PathBuf;

use answers::communicators::MemoryQuestion;
use answers::engines::Engine;
use answers::job_options::{PreparationOptions, degrade, driver_version, variable, without};
use answers::sizes::Sizes;
use answers::values::one;
use answers::values::within;
use answers::what_if::WhatIfQuestion;
use clap::{Args, ValueEnum};
use planner::NcclVersion;
use planner::settings::CtaPolicy;
use topology::edit::Edit;

use super::JobArguments;
use super::measured::MeasuredArguments;

pub(crate) const COST_EXAMPLES: &str = "\
Examples:
  topo cost topology.xml                       what NCCL takes for an all-reduce of 1 KiB to 8 GiB
  topo cost plan.json --collective all         a plan from topo plan -o, all collectives
  topo cost topology.xml --hosts 16 --sizes 64K..1G --factor 4
  topo cost topology.xml --sizes 1M,10M,100M --algorithm ring --protocol ll128,simple
  topo cost topology.xml --set NCCL_ALGO=^NVLS
                                               what NCCL takes under this setting
  topo cost topology.xml --table               bandwidth and latency of every algorithm and protocol
  topo cost topology.xml --profile mine.toml   constants that were measured here
  topo cost --built-in-profile > mine.toml     a file to start from
  topo cost topology.xml --op avg --type bf16  averages, as FSDP calls them: NVSwitches do not scale
  topo cost topology.xml --calls 8             eight calls of a size in one group, and their channels
  topo cost topology.xml --window symmetric    kernels for registered windows, and what they gain
  topo cost topology.xml --window symmetric --cta-policy zero   all-gathers by copy engines
  topo cost topology.xml --memory              what a communicator allocates, and what runs out first
  topo cost topology.xml --hosts 2 --memory --groups 8,2:8 --peers
                                               tensor and data parallelism, with transfers

Sizes are those of the whole message in bytes; K, M, G and T are powers of 1024. ▸ marks a size at \
which the choice changes. Time and bandwidths are predictions of NCCL's own model, not measurements.";

pub(crate) const WHAT_IF_EXAMPLES: &str = "\
Examples:
  topo diff --each-failure topology.xml        each GPU, NIC, switch and NVLink fails once, and all
                                               NVLinks of each GPU
  topo diff --each-failure topology.xml --hosts 16  the device fails on one of 16 hosts
  topo diff --each-failure topology.xml --only nic,nvlink --sizes 1M,8G
  topo diff --each-failure topology.xml --json  with every difference of the two plans
  topo diff --each-failure topology.xml --time-limit 10  the failures that fit into 10 s

Each row compares two whole plans; topo plan with the options in the row shows the second one.
Exit status: 0 when every failure was examined, 1 when --time-limit left some out (the report and \
standard error say how many), 2 when something is wrong.";

pub(crate) const DIFF_EXAMPLES: &str = "\
Examples:
  topo diff before.xml after.xml               two machines
  topo diff plan.json topology.xml             does the machine still give this plan?
  topo diff topology.xml --set-b NCCL_CROSS_NIC=0
  topo diff topology.xml --nccl 2.27 --nccl 2.32   what an upgrade of NCCL changes here
  topo diff topology.xml --hosts 16 --without-b host3/mlx5_3
  topo diff a.xml b.xml --format json
  topo diff nodes/*.xml                        which of many machines is odd, and in what

topo diff compares what a job would notice. With three or more files it groups equal machines, takes \
the largest group as the reference, and names the files of the others with what differs. Bus ids, \
names, numbers of devices and NUMA nodes, and \
settings that change nothing do not count.
Exit status: 0 when the plans mean the same, 1 when they differ, 2 when something is wrong. Equal \
files print nothing.";

/// The forms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// Tables for people
    Text,
    /// JSON
    Json,
}

/// The output of a command.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormArguments {
    /// What to print
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormArguments {
    pub(crate) const fn format(self) -> TextOrJson {
        match self.json {
            true => TextOrJson::Json,
            false => self.format,
        }
    }
}

/// The forms of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Tables for people
    Text,
    /// JSON
    Json,
    /// A page with pictures of both machines, for browsers
    Html,
}

impl DiffArguments {
    pub(crate) const fn format(&self) -> DiffFormat {
        match self.json {
            true => DiffFormat::Json,
            false => self.format,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CostArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: MemoryQuestion,
    /// What collectives spare, as NCCL_CTA_POLICY and ncclConfig_t::CTAPolicy say: default,
    /// efficiency (thread blocks; registered buffers) or zero (all of them; symmetric windows)
    #[arg(long, value_name = "POLICY", value_parser = one::<CtaPolicy>)]
    pub cta_policy: Option<CtaPolicy>,
    /// Cost profile with the model's constants (TOML) [default: the one of the version of NCCL]
    #[arg(long, alias = "cost-profile", value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Print the built-in cost profile, to start another one from
    #[arg(long, exclusive = true)]
    pub built_in_profile: bool,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// Show the memory, channels, connections and multicast slots of communicators that call the
    /// collectives, instead of sizes
    #[arg(long, conflicts_with_all = ["table", "algorithm", "protocol", "cta_policy", "profile"])]
    pub memory: bool,
    /// The same messages on as many hosts of another machine, with the same options, in one table
    /// (repeatable)
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["table", "memory", "measured"])]
    pub beside: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArguments,
}

#[derive(Debug, Args)]
#[command(mut_arg("files", |files| files.help("Topology files, one per host in rank order: files, folders that hold topology.xml, or - for standard input")))]
pub(crate) struct WhatIfArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: WhatIfQuestion,
    /// Stop after this time and report the failures examined so far; the exit status is 1 if some
    /// are missing
    #[arg(long, value_name = "SECONDS", value_parser = within::<u64>(1..=86_400))]
    pub time_limit: Option<u64>,
    #[command(flatten)]
    pub form: FormArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// Topology files, folders that hold topology.xml, recordings or plans; - for standard input.
    /// One file: A, and the same as B with other settings or edits; two: A and B; more: groups of
    /// equal machines
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Hosts in the job, each like the file [default: those of a plan on the other side, or 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within::<u32>(1..=1_048_576))]
    pub hosts: Option<u32>,
    /// All hosts form one NVLink domain (MNNVL, such as GB200 NVL72)
    #[arg(long)]
    pub nvlink_domain: bool,
    /// The network reduces (SHARP) and its plug-in is there
    #[arg(long)]
    pub collnet: bool,
    #[command(flatten)]
    pub preparation: PreparationOptions,
    /// Set one of NCCL's variables, over the environment (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub set: Vec<(String, String)>,
    /// Decide as this version of NCCL, such as 2.27 or 2.30.7; given twice, A as the first and B as
    /// the second [default: 2.32]
    #[arg(long, value_name = "VERSION")]
    pub nccl: Vec<NcclVersion>,
    /// Set what this inference engine sets, such as sglang, where nothing else does
    #[arg(long, value_name = "NAME", value_parser = Engine::read)]
    pub engine: Option<Engine>,
    /// The job's oldest driver by its CUDA, such as 13.2: LL128 on Rubin [default: new enough]
    #[arg(long, value_name = "VERSION", value_parser = driver_version)]
    pub driver_version: Option<String>,
    /// Set one of NCCL's variables for A only
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub set_a: Vec<(String, String)>,
    /// Set one of NCCL's variables for B only
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub set_b: Vec<(String, String)>,
    /// Plan A without a device or a link
    #[arg(long, value_name = "DEVICE", value_parser = without)]
    pub without_a: Vec<Edit>,
    /// Plan B without a device or a link
    #[arg(long, value_name = "DEVICE", value_parser = without)]
    pub without_b: Vec<Edit>,
    /// Plan A with a slower link
    #[arg(long, value_name = "LINK=SHARE", value_parser = degrade)]
    pub degrade_a: Vec<Edit>,
    /// Plan B with a slower link
    #[arg(long, value_name = "LINK=SHARE", value_parser = degrade)]
    pub degrade_b: Vec<Edit>,
    /// Sizes for which choices are compared
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1K..8G"
    )]
    pub sizes: Vec<Sizes>,
    /// What to print
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}
