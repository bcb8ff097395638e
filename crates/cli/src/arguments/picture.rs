//! The page.

use std::path::PathBuf;

use clap::Args;

pub(crate) const VIEW_EXAMPLES: &str = "\
Examples:
  topo view                                    the page, with machines to choose from
  topo view topology.xml                       with this machine
  topo view dgx-h100 -o dgx-h100.html          written, not opened";

#[derive(Debug, Args)]
pub(crate) struct ViewArguments {
    /// Topology file, a folder that holds topology.xml, a machine's name, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write the page to a file and open nothing
    #[arg(short, long, value_name = "PAGE")]
    pub output: Option<PathBuf>,
}
