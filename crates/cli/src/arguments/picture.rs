//! The content of pictures, and the page.

use std::path::PathBuf;

use clap::Args;
use plan::GraphKind;

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

/// Channels to draw as arrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Highlight {
    /// Their kind.
    pub kind: GraphKind,
    /// The channel; all without it.
    pub channel: Option<usize>,
}

/// Reads `ring`, `tree`, `ring:3`.
pub(crate) fn highlight(text: &str) -> Result<Highlight, String> {
    let expected = || {
        format!(
            "expected ring, tree, nvls or collnet, or one of its channels such as ring:3, not `{text}`"
        )
    };
    let (kind, channel) = match text.split_once(':') {
        Some((kind, channel)) => (kind, Some(channel)),
        None => (text, None),
    };
    let kind = match kind {
        "ring" => GraphKind::Ring,
        "tree" => GraphKind::Tree,
        "nvls" => GraphKind::Nvls,
        "collnet" => GraphKind::CollnetDirect,
        _ => return Err(expected()),
    };
    let channel = channel.map(|it| it.parse().map_err(|_| expected()));
    Ok(Highlight {
        kind,
        channel: channel.transpose()?,
    })
}
