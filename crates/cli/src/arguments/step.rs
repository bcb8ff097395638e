//! The arguments of `topo step`.

use std::path::PathBuf;

use answers::step::placement::ORDERS;
use answers::values::within;
use clap::{Args, ValueEnum};

use super::JobArguments;
use program::size;
use workload::megatron::Arguments;

pub(crate) const STEP_EXAMPLES: &str = "\
Examples:
  topo step calls.csv --cluster dgx-h100 --hosts 16
  topo step workload.txt --cluster dgx-h100 --hosts 1152
                                               a workload of SimAI's AICB: 9216 GPUs
  topo step workload.txt --cluster gb200-nvl72-tray --hosts 2304 --domain-hosts 18
                                               racks of 18 trays, joined by the network
  topo step --cluster dgx-h100 --hosts 128 --num-layers 96 --hidden-size 12288
      --num-attention-heads 96 --seq-length 2048 --vocab-size 51200 --global-batch-size 1536
      --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --sequence-parallel
      --use-distributed-optimizer --gpu-tflops 400
                                               GPT-3 175B by Megatron's arguments
  topo step rank0.json.gz rank1.json.gz --cluster dgx-a100 --gpus 0,1
                                               what PyTorch's profiler measured, beside it
  topo step rank0.et --cluster dgx-h100 --hosts 16
                                               an execution trace of Chakra
  topo step calls.csv --cluster topology.xml --hosts 16 --nccl 2.27
  topo step calls.csv --cluster dgx-h100 --hosts 128 --fabric fabric.toml
                                               under leaf switches
  topo step calls.csv --cluster dgx-h100 --hosts 16 --measured all_reduce.txt all_gather.txt
                                               with times corrected by what was measured
  topo step calls.csv --cluster topology.xml --hosts 16 --placement search --dir placed
                                               better places of ranks, as files of launchers
  topo step calls.csv --cluster dgx-h100 --hosts 16 --beside dgx-b200 --host-price 30,50
                                               two clusters side by side
  topo step calls.csv --cluster dgx-h100 --hosts 16 --format svg > step.svg
  topo step calls.csv --cluster dgx-h100 --hosts 16 --format trace > step.json
                                               for https://ui.perfetto.dev

A list of calls is CSV: group,collective,bytes and any of type, op, count, name, compute_us, \
overlap_us, start_us, after, blocks, micro_batch; docs/step.md explains them. A group is tp=8 (8 ranks \
in a row), dp=16:8 (16 ranks, 8 apart), x={0-3}{4-7} or x=all; later rows name it.
Exit status: 0 when the step was priced, 2 when it cannot be or the command line is wrong.";

/// How ranks are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementSearch {
    /// Orders that keep the ranks of a group together, for each order of groups; then GPUs of all
    /// hosts exchanged
    Search,
}

/// The forms of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepFormat {
    /// Tables for people
    #[default]
    Text,
    /// JSON
    Json,
    /// A trace of the predicted time line, for Perfetto and Chrome
    Trace,
    /// A picture of the time line, for browsers and documents
    Svg,
}

#[derive(Debug, Args)]
#[command(mut_arg("files", |files| files.long("cluster").value_name("MACHINE").num_args(1..).help(
    "Topology files, one per host in rank order, or known machines"
)))]
pub(crate) struct StepArguments {
    /// The calls of a step: a list (CSV or JSON), a workload of SimAI, the script that starts
    /// Megatron-LM or its log, traces of PyTorch's profiler or execution traces of Chakra or
    /// PyTorch (one for each rank; also packed with gzip), or - for standard input
    #[arg(
        value_name = "WORKLOAD",
        required_unless_present = "num_layers",
        conflicts_with = "num_layers"
    )]
    pub workload: Vec<PathBuf>,
    #[command(flatten)]
    pub job: JobArguments,
    /// Each N hosts in a row form an NVLink domain, such as the 18 trays of an NVL72
    #[arg(long, value_name = "N", conflicts_with = "nvlink_domain", value_parser = within::<u32>(1..=640))]
    pub domain_hosts: Option<u32>,
    /// Leaf switches between the hosts: a fabric file (TOML), Slurm's topology.conf or
    /// topology.yaml, or the output of ibnetdiscover
    #[arg(long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,
    /// Correct predicted times by measurements of the cluster: tables of nccl-tests, files of all
    /// ranks of NCCL's Inspector, traces of PyTorch's profiler, or a profile that `topo expect
    /// --results --fit` wrote
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub measured: Vec<PathBuf>,
    /// Another cluster of equal hosts for the same step, in one table: a topology file or a known
    /// machine, as many hosts as give the same number of ranks (repeatable)
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["placement", "print_workload", "measured"])]
    pub beside: Vec<PathBuf>,
    /// What a host costs per hour, one for --cluster and for each --beside, in their order
    #[arg(
        long,
        value_name = "PRICES",
        requires = "beside",
        value_delimiter = ','
    )]
    pub host_price: Vec<f64>,
    /// Look for the ranks' best places on GPUs and hosts
    #[arg(long, value_enum, conflicts_with_all = ["print_workload"])]
    pub placement: Option<PlacementSearch>,
    /// Orders of ranks that the search prices at most
    #[arg(long, value_name = "N", requires = "placement", default_value_t = ORDERS)]
    pub orders: usize,
    /// Write the placement as files of launchers into DIR
    #[arg(long, value_name = "DIR", requires = "placement")]
    pub dir: Option<PathBuf>,
    /// The hosts' names in these files, as Slurm lists them
    #[arg(long, value_name = "LIST", requires = "dir")]
    pub nodes: Option<String>,
    /// Memory that each GPU has for communicators
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub gpu_memory: Option<u64>,
    /// Kinds of calls that the page shows, those that take most time first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub calls: usize,
    /// What to print
    #[arg(long, value_enum, default_value_t = StepFormat::Text)]
    pub format: StepFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Print the calls as CSV instead, for a start
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub print_workload: bool,
    /// What each GPU computes, TFLOP/s, also of a script or log of Megatron [default: computation
    /// is left out]
    #[arg(long, value_name = "X")]
    pub gpu_tflops: Option<f64>,
    #[command(flatten)]
    pub model: Option<Arguments>,
}
