//! The arguments of `topo watch`.

use std::path::PathBuf;

use answers::values::within;
use clap::Args;

use super::compare::FormArguments;

pub(crate) const WATCH_EXAMPLES: &str = "\
Examples:
  topo watch                                   the job on this host
  topo watch node1 node2 node3:28029           ask hosts by turns: NCCL_RAS_ADDR=0.0.0.0:28028
  topo watch --hang-after 600                  a checkpoint of rank 0 may take 10 minutes
  topo watch --folder hang --hook 'logger $TOPO_WATCH_WHAT'
  topo watch --json --prometheus /var/lib/node_exporter/topo.prom

Asks NCCL's RAS (2.27 or newer; one host is enough) once a second at most, and changes nothing in \
the job. States: moves; waits for a rank, when counts differ and nothing moves for 10 s; gone, when a \
process does not answer and the others stand; hang, when it waits for longer than any pause; unknown, \
when equal counts stand still, which may be rest or a hang, or when there are none. Only moves is \
well.
Exit status: 0 when the job ended after it moved, or still moves at --time-limit; 1 when it hangs or \
ranks are gone for 30 s; 3 when that cannot be told; 2 when the command line is wrong.";

/// Which hosts are asked, and what is done with the answers.
#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// Hosts of the job, or HOST:PORT [default: NCCL_RAS_ADDR, or this host]
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// The port of hosts that name none
    #[arg(long, value_name = "PORT", default_value_t = 28028)]
    pub port: u16,
    /// Seconds between two polls; several hosts are asked by turns
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = within::<u64>(1..=60))]
    pub interval: u64,
    /// The longest pause in which some ranks wait for others: a longer one is a hang, unless the
    /// job has shown a longer one
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = within::<u64>(10..=86_400))]
    pub hang_after: u64,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = within::<u64>(1..=31_536_000))]
    pub time_limit: Option<u64>,
    /// Where the last answers and the diagnosis are written when the job hangs or ranks are gone
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Run this then, by sh with TOPO_WATCH_STATE, TOPO_WATCH_WHAT and TOPO_WATCH_FOLDER, and keep
    /// watching
    #[arg(long, value_name = "COMMAND")]
    pub hook: Option<String>,
    /// Keep the state in a file for Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    #[command(flatten)]
    pub form: FormArguments,
}
