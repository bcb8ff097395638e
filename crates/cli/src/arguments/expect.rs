//! The arguments of `topo expect`.

use std::path::PathBuf;

use answers::expect::ExpectQuestion;
use clap::{Args, ValueEnum};

use super::JobArguments;

pub(crate) const EXPECT_EXAMPLES: &str = "\
Examples:
  topo expect dgx-h100                         what nccl-tests should measure on a healthy host
  topo expect dgx-h100 --hosts 8 --collective all --sizes 64M..8G
  topo expect topology.xml --format json       for other tools, with the matrix of pairs
  topo expect topology.xml --format nhc        a check for Node Health Check
  topo expect topology.xml --format slurm > /etc/slurm/prolog.d/all-reduce.sh
  topo expect topology.xml --format pytest > test_all_reduce.py
  topo expect topology.xml --format kubernetes-daemonset > daemonset.yaml
                                               edit its image and GPU product, then kubectl apply
  topo expect gb200.xml --hosts 18 --nvlink-domain --format aicr
  topo expect --results job.log --topology topology.xml --expect
                                               does this run pass?

Bandwidths are those of published healthy runs that are alike. \
Files that measure (nhc, slurm, kubernetes) or read measurements (pytest) tell UNKNOWN, which is what cannot be \
measured, apart from what is below its floor; docs/acceptance.md has their statuses.";

/// The forms of expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectFormat {
    /// Tables for people
    Text,
    /// JSON
    Json,
    /// Checks and constraints for a recipe of NVIDIA's aicr
    Aicr,
    /// A check for Node Health Check
    Nhc,
    /// A prolog for Slurm that drains a slow host
    Slurm,
    /// A health check for Slurm that drains a slow idle host
    SlurmHealth,
    /// A job for Kubernetes that measures a node
    KubernetesJob,
    /// A DaemonSet for Kubernetes that taints slow nodes
    KubernetesDaemonset,
    /// A test that reads the output of nccl-tests
    Pytest,
}

#[derive(Debug, Args)]
pub(crate) struct ExpectArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: ExpectQuestion,
    /// What as many hosts of another machine reach, with the same options, in one table
    /// (repeatable)
    #[arg(long, value_name = "MACHINE")]
    pub beside: Vec<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = ExpectFormat::Text)]
    format: ExpectFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ExpectArguments {
    pub(crate) const fn format(&self) -> ExpectFormat {
        match self.json {
            true => ExpectFormat::Json,
            false => self.format,
        }
    }
}
