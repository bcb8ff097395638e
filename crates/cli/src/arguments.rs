//! The command line.

pub(crate) mod acceptance;
pub(crate) mod bound;
pub(crate) mod checks;
pub(crate) mod compare;
pub(crate) mod concise;
pub(crate) mod diagnose;
pub(crate) mod engines;
pub(crate) mod expect;
pub(crate) mod export;
pub(crate) mod fabric;
pub(crate) mod join;
mod late;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod measured;
pub(crate) mod modes;
pub(crate) mod nccl_check;
pub(crate) mod nccl_tests;
pub(crate) mod picture;
pub(crate) mod program;
pub(crate) mod rank;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod simulate;
pub(crate) mod step;
mod tasks;
pub(crate) mod tune;
pub(crate) mod watch;

use std::path::{Path, PathBuf};

use ::program::{Schedule, Transfer};
use answers::job_options::{
    AssumeOptions, EditOptions, HostOptions, PreparationOptions, RankOptions, Variables,
};
use answers::order::AskedOrder;
use answers::values::within;
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pages::draw::plans;

use crate::output::{PlanFormat, ShowFormat};
use acceptance::{ACCEPTANCE_EXAMPLES, AcceptanceArguments};
use bound::{BOUND_EXAMPLES, BoundArguments};
use compare::{
    COST_EXAMPLES, CostArguments, DIFF_EXAMPLES, DiffArguments, FormArguments, WHAT_IF_EXAMPLES,
    WhatIfArguments,
};
use diagnose::{COLLECT_EXAMPLES, CollectArguments, DIAGNOSE_EXAMPLES, DiagnoseArguments};
use engines::{ENGINES_EXAMPLES, EnginesArguments};
use expect::{EXPECT_EXAMPLES, ExpectArguments};
use export::{EXPORT_EXAMPLES, ExportArguments};
use fabric::{FABRIC_EXAMPLES, FabricArguments};
use join::{ID_EXAMPLES, IdArguments};
use late::Late;
use log::{LOG_EXAMPLES, LogArguments};
use machine::{
    COMPLETE_EXAMPLES, CompleteArguments, DOCTOR_EXAMPLES, DoctorArguments, MATRIX_EXAMPLES,
    MatrixArguments, PROBE_EXAMPLES, ProbeArguments, VM_EXAMPLES, VmArguments,
};
use nccl_check::{NCCL_CHECK_EXAMPLES, NcclCheckArguments};
use picture::{VIEW_EXAMPLES, ViewArguments};
use program::{PROGRAM_EXAMPLES, ProgramArguments};
use rank::{RANK_EXAMPLES, RankArguments};
use results::{RESULTS_EXAMPLES, ResultsArguments};
use run::{CALIBRATE_EXAMPLES, CalibrateArguments, GPU_TEST_EXAMPLES, RUN_EXAMPLES, RunArguments};
use simulate::{SIMULATE_EXAMPLES, SimulateArguments};
use step::{STEP_EXAMPLES, StepArguments};
use tune::{TUNE_EXAMPLES, TuneArguments};
use watch::{WATCH_EXAMPLES, WatchArguments};

const EXAMPLES: &str = "\
Examples:
  topo plan topology.xml                       what NCCL would do on this machine
  topo plan topology.xml --explain             and how it came to that, attempt by attempt
  topo show topology.xml --path GPU0 NIC3      why the path between them is long
  topo cost topology.xml                       algorithm, protocol and time for each size
  topo bound topology.xml                      how far that is from the best possible
  topo tune topology.xml                       what makes NCCL faster here, and how much
  topo diff --each-failure topology.xml        what each single failure would cost
  topo diff before.xml after.xml               what changed, if anything
  topo run --ranks 4 all-reduce                run it, on the CPUs of this machine
  topo simulate topology.xml --hosts 64 --collective all-reduce --size 1G
                                               run it on a virtual clock
  topo probe > topology.xml                    the file of this machine
  topo doctor                                  what is wrong with this machine

A topology file is what topo probe writes, or NCCL with NCCL_TOPO_DUMP_FILE=topology.xml.";

const PLAN_EXAMPLES: &str = "\
Examples:
  topo plan topologies/dgx-h100                a folder with a topology.xml in it
  topo plan topology.xml --hosts 2             two such machines joined by their network
  topo plan a.xml b.xml                        two different machines in one job
  topo plan gb200.xml --hosts 18 --nvlink-domain
  topo plan topology.xml --gpus 0-3,6          a job that uses some GPUs only
  topo plan topology.xml --gpus 3,2,1,0        with rank 0 on GPU3
  topo plan topology.xml --hosts 2 --rank-order round-robin
  topo plan topology.xml --hosts 2 --connections
                                               how the bytes travel between neighbors, and why
  topo plan topology.xml -o plan.json          write the plan, for other tools and for later
  topo plan topology.xml --format nccl-graph   what NCCL reads through NCCL_GRAPH_FILE
  topo plan topology.xml --set NCCL_CROSS_NIC=0 --set NCCL_P2P_LEVEL=SYS
  topo plan vendor.xml --assume h100-sxm       a cloud vendor's file, which has no GPUs and NICs
  topo plan topology.xml --without mlx5_3 --degrade GPU2:NVSwitch=50%
  topo plan topology.xml --explain | less
  topo plan topology.xml --format quiet        one line, for scripts
  topo plan plan.json                          the page of a plan that -o wrote
  ssh node1 cat /tmp/topology.xml | topo plan -

NCCL's variables are taken from the environment, as NCCL takes them; --set comes on top.
Exit status: 0 when there is a plan, 2 when there is none or the command line is wrong.";

const SHOW_EXAMPLES: &str = "\
Examples:
  topo show topology.xml                       the tree of CPUs, switches, GPUs and NICs
  topo show topology.xml --path GPU0 NIC3      every hop, and what makes the path what it is
  topo show topology.xml --path GPU0 mlx5_3    a NIC by its name
  topo show topology.xml --path 0000:1b:00.0 CPU1
  topo show topology.xml --path GPU0 GPU5 --set NCCL_P2P_LEVEL=SYS
  topo show nvl72.xml --path host0/GPU1 host5/GPU1
  topo show plan.json                          the GPUs and NICs that a plan holds
  topo show topology.xml --format json         devices and links, for other tools

Devices: GPU0 by device number, NIC3 or NET3 by the net plug-in's number, mlx5_3 by name, \
CPU1 by NUMA node, or a PCI bus id; host1/GPU0 in a file of several hosts.";

const GEN_EXAMPLES: &str = "\
Examples:
  topo gen completions bash > ~/.local/share/bash-completion/completions/topo
  topo gen man ~/.local/share/man/man1         one page per command, into a folder
  topo gen schema plan                         what topo plan --format json prints
  topo gen schema                              the names of all schemas";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  topo gen completions bash > ~/.local/share/bash-completion/completions/topo
  topo gen completions zsh > \"${fpath[1]}/_topo\"
  topo gen completions fish > ~/.config/fish/completions/topo.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  topo gen man | man -l -                          read the page
  topo gen man ~/.local/share/man/man1             one page per command, into a folder";

/// Plan a machine's NCCL channels offline, and say why they are what they are
#[derive(Debug, Parser)]
#[command(name = "topo", bin_name = "topo", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct AnyArguments<const LATE: bool> {
    #[command(subcommand)]
    pub command: Command<LATE>,
}

/// The arguments as they are read.
pub(crate) type Arguments = AnyArguments<true>;

/// All commands with all of their arguments, for help.
pub(crate) fn all() -> clap::Command {
    AnyArguments::<false>::command()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command<const LATE: bool> {
    /// Show what NCCL would do on a machine: rings, trees, bandwidths, and how it found them
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Late<PlanArguments, LATE>),
    /// Show what one rank of a planned job does: its GPU, neighbors on every channel, connections
    #[command(after_help = RANK_EXAMPLES)]
    Rank(Late<RankArguments, LATE>),
    /// Show a machine as NCCL sees it, or one path through it
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Late<ShowArguments, LATE>),
    /// Show which algorithm and protocol NCCL takes for which message size, and the predicted time
    #[command(after_help = COST_EXAMPLES)]
    Cost(Late<CostArguments, LATE>),
    /// Show which all-reduce vLLM, SGLang, TensorRT-LLM, llama.cpp … take at which size, and why
    #[command(after_help = ENGINES_EXAMPLES)]
    Engines(Late<EnginesArguments, LATE>),
    /// Show what nccl-tests should measure on a healthy machine: expected bandwidths and floors
    #[command(after_help = EXPECT_EXAMPLES)]
    Expect(Late<ExpectArguments, LATE>),
    /// Show the most that any schedule of a collective reaches, NCCL's share, and the links that
    /// limit it
    #[command(after_help = BOUND_EXAMPLES)]
    Bound(Late<BoundArguments, LATE>),
    /// List every single failure with the channels and the speed that remain, worst first
    #[command(name = "what-if", after_help = WHAT_IF_EXAMPLES)]
    WhatIf(Late<WhatIfArguments, LATE>),
    /// Write a plan as files that NCCL obeys: graphs, nccl.conf, a tuner plug-in with its choices
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Late<ExportArguments, LATE>),
    /// Find what makes NCCL faster on a machine: rings, settings, choices; and write the files
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(Late<TuneArguments, LATE>),
    /// Compare two machines, settings or plans by what a job would notice
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Late<DiffArguments, LATE>),
    /// Write the topology of this machine, as NCCL would dump it, and say what looks wrong
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(Late<ProbeArguments, LATE>),
    /// Check a machine or a topology file
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Late<DoctorArguments, LATE>),
    /// Draw what nvidia-smi topo -m draws, of a machine or a file
    #[command(after_help = MATRIX_EXAMPLES)]
    Matrix(Late<MatrixArguments, LATE>),
    /// Open the page that plans in the browser, with a file at hand
    #[command(after_help = VIEW_EXAMPLES)]
    View(Late<ViewArguments, LATE>),
    /// List the machines that commands take by name instead of a file
    Machines(Late<FormArguments, LATE>),
    /// Add GPUs and NICs to a file of a cloud vendor
    #[command(after_help = COMPLETE_EXAMPLES)]
    Complete(Late<CompleteArguments, LATE>),
    /// Write the file of a virtual machine from that of its host
    #[command(after_help = VM_EXAMPLES)]
    Vm(Late<VmArguments, LATE>),
    /// Read what NCCL logged: what ran, what was chosen, what is odd; and compare it with the plan
    #[command(after_help = LOG_EXAMPLES)]
    Log(Late<LogArguments, LATE>),
    /// Say why a job hangs or fails, from what it left; while it lives: topo watch
    #[command(after_help = DIAGNOSE_EXAMPLES)]
    Diagnose(Late<DiagnoseArguments, LATE>),
    /// Pack what topo diagnose needs of this host into an archive
    #[command(after_help = COLLECT_EXAMPLES)]
    Collect(Late<CollectArguments, LATE>),
    /// Watch a living job through NCCL's RAS: whether it moves, waits, lacks ranks or hangs
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Late<WatchArguments, LATE>),
    /// The answers of this machine's driver
    #[command(name = "driver-answers", hide = true)]
    DriverAnswers,
    /// Read what nccl-tests measured, beside the prediction and the bound; fit the cost model to it
    #[command(after_help = RESULTS_EXAMPLES)]
    Results(Late<ResultsArguments, LATE>),
    /// Read this machine, measure its collectives and links, and judge all of it, in one report
    #[command(after_help = ACCEPTANCE_EXAMPLES)]
    Acceptance(Late<AcceptanceArguments, LATE>),
    /// Start an NCCL library on a machine's stand-ins, without a GPU, and compare it with the plan
    #[command(name = "nccl-check", after_help = NCCL_CHECK_EXAMPLES)]
    NcclCheck(Late<NcclCheckArguments, LATE>),
    /// One host of topo nccl-check
    #[command(name = "nccl-host", hide = true)]
    NcclHost,
    /// Show what one rank does for a collective, step by step, and prove that it is right
    #[command(after_help = PROGRAM_EXAMPLES)]
    Program(Late<ProgramArguments, LATE>),
    /// Run a collective on the ranks of this host or of several, check every element, and time it
    #[command(after_help = RUN_EXAMPLES)]
    Run(Late<RunArguments, LATE>),
    /// Show the switches or cables between hosts, and the rank order that suits them
    #[command(after_help = FABRIC_EXAMPLES)]
    Fabric(Late<FabricArguments, LATE>),
    /// Run a collective on a virtual clock: time, bandwidth, where the time goes, load of each link
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Late<SimulateArguments, LATE>),
    /// Show how long a training or inference step communicates, what of it computation waits for,
    /// and which collective of which group takes most
    #[command(after_help = STEP_EXAMPLES)]
    Step(Late<StepArguments, LATE>),
    /// Run every check that needs GPUs, and time collectives on them
    #[command(after_help = GPU_TEST_EXAMPLES)]
    GpuTest(Late<run::GpuTestArguments, LATE>),
    /// Print a unique id with which ranks on several hosts find each other
    #[command(after_help = ID_EXAMPLES)]
    Id(Late<IdArguments, LATE>),
    /// Measure this machine's CPU costs, which topo run uses to choose an algorithm
    #[command(after_help = CALIBRATE_EXAMPLES)]
    Calibrate(Late<CalibrateArguments, LATE>),
    /// Print completions for a shell, manual pages, or the JSON schemas of what commands print
    #[command(after_help = GEN_EXAMPLES)]
    Gen {
        /// What to print; each has arguments of its own
        #[arg(value_parser = ["completions", "man", "schema"])]
        what: String,
    },
    /// Print the JSON schema of what a command prints as JSON, or the names of all schemas
    Schema {
        /// Which one
        name: Option<String>,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print this help, or that of a command
    Help {
        /// The command, or a page of options: job, hosts, megatron
        command: Option<String>,
    },
    /// Print the manual page, or write all pages into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Folder to write topo.1, topo-plan.1 … into
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// The hosts of a job.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostsArguments {
    /// Topology files, one per host in rank order: files, folders that hold topology.xml, or - for
    /// standard input; or one plan
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: HostOptions,
}

/// Which job: machines, how many of each, and NCCL's variables.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobArguments {
    #[command(flatten)]
    pub hosts: HostsArguments,
    /// The network can reduce (SHARP), and its plug-in is installed
    #[arg(long)]
    pub collnet: bool,
    #[command(flatten)]
    pub assume: AssumeOptions,
    #[command(flatten)]
    pub ranks: RankOptions,
    #[command(flatten)]
    pub preparation: PreparationOptions,
    #[command(flatten)]
    pub edits: EditOptions,
    #[command(flatten)]
    pub variables: Variables,
}

impl JobArguments {
    /// The same job on so many hosts of another machine.
    pub(crate) fn on(&self, machine: &Path, hosts: u32) -> Self {
        let mut other = self.clone();
        other.hosts.files = vec![machine.to_owned()];
        other.hosts.options.hosts = hosts;
        other
    }

    /// Refuses options of a job beside the plan of a job.
    pub(crate) fn refuse_beside_plan(&self, plan: &str) -> Result<()> {
        if self.hosts.files.len() > 1 {
            bail!("{plan} is a plan; expected it alone, or topology files only");
        }
        let given = [
            ("--hosts", self.hosts.options.hosts > 1),
            ("--nvlink-domain", self.hosts.options.nvlink_domain),
            ("--collnet", self.collnet),
            ("--assume", self.assume != AssumeOptions::default()),
            ("--gpus", self.ranks.gpus.is_some()),
            (
                "--rank-order",
                self.ranks.rank_order != AskedOrder::default(),
            ),
            ("--as-is", self.preparation.as_is),
            ("--net-merge", self.preparation.physical_ports()),
            ("--without", !self.edits.without.is_empty()),
            ("--degrade", !self.edits.degrade.is_empty()),
        ];
        refuse_beside_plan(plan, &given)?;
        refuse_beside_plan(plan, &of_variables(&self.variables))
    }
}

/// The options of variables, and whether each is given.
pub(crate) fn of_variables(variables: &Variables) -> [(&'static str, bool); 4] {
    [
        ("--set", !variables.set.is_empty()),
        ("--nccl", variables.nccl.is_some()),
        ("--engine", variables.engine.is_some()),
        ("--driver-version", variables.driver_version.is_some()),
    ]
}

/// Refuses the first option that is given beside a plan.
pub(crate) fn refuse_beside_plan(plan: &str, options: &[(&str, bool)]) -> Result<()> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            bail!("{plan} is a plan, which {option} cannot change; expected topology files with it")
        }
        None => Ok(()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// Show the whole search: each attempt, what was relaxed next and why
    #[arg(long)]
    pub explain: bool,
    /// Show how bytes travel between neighbors: directly, through shared memory or over which NICs,
    /// and why
    #[arg(long)]
    pub connections: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    pub format: PlanFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Draw channels as arrows over the picture of --format svg: ring, tree or nvls for all of
    /// them, ring:3 for one
    #[arg(long, value_name = "CHANNELS", value_parser = plans::highlight)]
    pub highlight: Option<plans::Highlight>,
    /// Plan other channels than NCCL's search finds
    #[arg(long, value_enum, default_value_t = Strategy::Nccl, hide_default_value = true)]
    pub strategy: Strategy,
    #[command(flatten)]
    pub measured: measured::MeasuredArguments,
    /// Trees for each root, of equal shares [default: the fewest that come near the bound]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=16))]
    pub trees: Option<u64>,
    /// Check NCCL's settings instead: those of the environment, or of FILE (an nccl.conf, or what
    /// `env` printed), and of --set: which are refused, unknown, misread, hidden by others, without
    /// effect here, or refused by other versions only
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["explain", "connections", "highlight", "strategy", "output"])]
    pub check_settings: Option<Option<PathBuf>>,
    /// Write the plan (JSON) to a file
    #[arg(short, long, value_name = "PLAN")]
    pub output: Option<PathBuf>,
}

/// How channels are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// As NCCL finds them
    Nccl,
    /// The rings that carry most, for NCCL itself: --format nccl-graph prints its graph file
    Ring,
    /// Also trees that come near the most that any schedule reaches, for topo run --algorithm
    /// forest
    Forest,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// Topology file, a folder that holds topology.xml, a recording, a plan, or - for standard
    /// input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Every hop between two devices, and why the path is what it is
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    pub path: Option<Vec<String>>,
    /// What to print
    #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
    pub format: ShowFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub variables: Variables,
}

pub(crate) fn schedule() -> impl TypedValueParser<Value = Schedule> {
    PossibleValuesParser::new(Schedule::ALL.map(Schedule::name))
        .try_map(|name| name.parse::<Schedule>())
}

pub(crate) fn transfer() -> impl TypedValueParser<Value = Transfer> {
    PossibleValuesParser::new(Transfer::ALL.map(Transfer::name))
        .try_map(|name| name.parse::<Transfer>())
}
