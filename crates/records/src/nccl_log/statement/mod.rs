//! The meaning of a message.
//!
//! In reading order: [`Statement`], [`channel`] (rings, trees, connections), [`communicator`]
//! (beginning and end of a communicator, its times), [`network`], [`topology`] (NCCL's view of the
//! machine, the graphs of its search), [`tuning`] (tables and choices), `known` (messages of no
//! interest).

pub mod channel;
pub mod communicator;
mod known;
pub mod network;
pub mod topology;
pub mod tuning;

use plan::Algorithm;
use program::{Collective, Protocol};

use crate::nccl_log::cursor::{self, Cursor, number};
use crate::nccl_log::decisions::{ChannelCounts, Neighbors};
pub use channel::{Connection, End, Transport};
pub use communicator::{Member, Stage, Timings};
pub use network::Gdr;
pub use topology::Graph;

/// The meaning of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement<'a> {
    /// NCCL's version, such as `2.27.7+cuda12.9`.
    Version(&'a str),
    /// The version of the CUDA driver, such as 12090.
    Driver(u32),
    /// A setting.
    Setting {
        /// The variable.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// A rank of a communicator begins, is ready, or ends.
    Member(Member<'a>, Stage),
    /// The times of a rank's initialisation.
    Timings(Timings<'a>),
    /// The ranks of a ring in order. NCCL cuts it after 20 in old versions.
    Ring {
        /// The channel.
        channel: u32,
        /// The number of channels.
        of: Option<u32>,
        /// The ranks.
        ranks: Vec<u32>,
    },
    /// A rank's neighbors in a ring.
    RingNeighbors {
        /// The channel.
        channel: u32,
        /// The rank that sends to it.
        previous: Option<u32>,
        /// The rank.
        rank: u32,
        /// The rank that it sends to.
        next: u32,
    },
    /// A rank's neighbors in the trees of channels.
    Trees {
        /// The channel, the rank, its neighbors.
        trees: Vec<(u32, u32, Neighbors)>,
        /// The line was too short for all channels.
        is_cut: bool,
    },
    /// A head of NVLink SHARP, and its rank in each node.
    NvlsHead {
        /// The head.
        head: u32,
        /// By node.
        ranks: Vec<u32>,
    },
    /// A rank's neighbors in the two trees of NVLink SHARP over nodes.
    NvlsTrees {
        /// The rank.
        rank: u32,
        /// The first one below is the switch.
        trees: [Neighbors; 2],
    },
    /// A connection.
    Connection(Connection<'a>),
    /// The connections of an algorithm exist, such as `rings`.
    ConnectedAll(&'a str),
    /// A graph of the search begins.
    Graph(Graph<'a>),
    /// A channel of that graph: its devices.
    GraphChannel(&'a str),
    /// NCCL's view of the machine begins: the highest and the summed bandwidth, GB/s.
    System {
        /// Highest bandwidth of one link.
        max: f32,
        /// Summed bandwidth of a GPU's links.
        total: f32,
    },
    /// A line of that view.
    SystemLine(&'a str),
    /// It ends.
    SystemEnd,
    /// The paths from a device.
    Paths(&'a str),
    /// The columns of a cost table: algorithm and protocol.
    TableHead(Vec<(Option<Algorithm>, Option<Protocol>)>),
    /// A collective's row: latency (µs) and bandwidth (GB/s) of each column.
    TableRow {
        /// The collective.
        collective: Collective,
        /// By column; `None` if it cannot be read.
        costs: Vec<Option<[f32; 2]>>,
    },
    /// Sizes at which more threads are used.
    Thresholds(&'a str),
    /// NCCL's choice for a message.
    Choice {
        /// The collective.
        collective: Collective,
        /// Bytes; of one rank if it gathers or scatters.
        bytes: u64,
        /// The algorithm.
        algorithm: Algorithm,
        /// The protocol.
        protocol: Protocol,
        /// The first and the last channel; not in logs before 2.24.
        channels: Option<[u32; 2]>,
    },
    /// The kernel for registered windows that NCCL takes for a message.
    WindowKernel {
        /// The collective.
        collective: Collective,
        /// Bytes of all calls of the kernel; of one rank if it gathers or scatters.
        bytes: u64,
        /// The kernel's name.
        kernel: &'a str,
        /// Its thread blocks (CTAs).
        blocks: u32,
        /// Calls that it carries out.
        calls: u32,
    },
    /// A collective begins.
    Operation(&'a str),
    /// Numbers of channels.
    Channels(ChannelCounts),
    /// Channels, chunk and largest chunk of trees of NVLink SHARP, bytes.
    Nvls([i64; 3]),
    /// Chunk of point-to-point transfers, bytes.
    P2pChunk(i64),
    /// NVLink SHARP can be used or not.
    NvlsAvailable(bool),
    /// The network that is taken.
    Network(&'a str),
    /// The ports of a network, in NCCL's words.
    Ports {
        /// The network, such as `IB`.
        network: &'a str,
        /// The ports.
        ports: &'a str,
    },
    /// The interface over which ranks meet.
    Bootstrap(&'a str),
    /// GPUDirect RDMA is used or not.
    Gdr(Gdr<'a>),
    /// The NVLink fabric of a GPU.
    Fabric {
        /// The id of the cluster; `0.0` is no cluster.
        cluster: &'a str,
        /// The number of the clique.
        clique: &'a str,
    },
    /// A GPU, as nccl-tests names it.
    Gpu {
        /// The rank.
        rank: u32,
        /// The host.
        host: &'a str,
        /// The model.
        model: &'a str,
    },
    /// A function returned an error to its caller: `FILE:LINE -> CODE`.
    Failed {
        /// In NCCL's sources.
        place: &'a str,
        /// NCCL's number of the error.
        code: u32,
    },
    /// Known, and of no interest here.
    Ignored,
    /// A ring, tree or channel that cannot be read.
    Broken(LineFault),
    /// Not known.
    Unknown,
}

/// Why the line of a ring, tree or channel cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFault {
    /// It ends too early.
    Cut,
    /// Another program's text follows.
    Interleaved,
    /// Its form is not known.
    Unknown,
}

impl LineFault {
    /// By the place where reading stopped. Nothing in these lines continues with a capital letter,
    /// other programs' messages mostly do.
    fn of(cursor: &Cursor<'_>, text: &str) -> Self {
        let rest = cursor.rest().trim_start();
        let first = rest.chars().next();
        match first {
            None => Self::Cut,
            Some(it) if it.is_uppercase() && rest.len() < text.len() => Self::Interleaved,
            Some(_) => Self::Unknown,
        }
    }
}

/// Reads a message of NCCL.
pub fn read(text: &str) -> Statement<'_> {
    // Forks and `[Rank 3] …` indent their lines; the dump of the machine has its own indents.
    let text = text.trim_ascii_end();
    let bare = text.trim_ascii_start();
    let found = match bare.as_bytes().first() {
        Some(b'C') => letter_c(bare),
        Some(b'R') => numbered(bare, "Ring ").map(channel::channel),
        Some(b'T') => letter_t(bare),
        Some(b'N') => letter_n(bare),
        Some(b'0'..=b'9') => communicator::counts(bare).or_else(|| topology::graph_channel(bare)),
        Some(b'A') => tuning::collective(bare),
        Some(b'c') => bare
            .strip_prefix("cudaDriverVersion ")
            .and_then(number)
            .map(Statement::Driver),
        Some(b'P') => letter_p(bare),
        Some(b'M') => network::fabric(bare),
        Some(b'=' | b'+') => topology::system(bare),
        None => Some(Statement::Ignored),
        _ => None,
    };
    found
        .or_else(|| communicator::member(bare))
        .or_else(|| network::network(bare))
        .or_else(|| tuning::collective(bare))
        .or_else(|| topology::device(bare))
        .or_else(|| failed(bare))
        .or_else(|| known::is_known(bare).then_some(Statement::Ignored))
        .unwrap_or(Statement::Unknown)
}

/// Reads a line without NCCL's head: versions, nccl-tests' GPUs, and excerpts that people made.
pub fn read_bare(line: &str) -> Statement<'_> {
    if let Some(at) = cursor::find(line, "", "NCCL version ") {
        return version(&line[at + 13..]);
    }
    let bare = line.trim();
    match bare.as_bytes().first() {
        Some(b'=') => topology::system(bare),
        Some(b'+') if bare.starts_with("+ ") => topology::system(bare),
        Some(b'P') if bare.starts_with("Pattern ") => topology::graph(bare),
        Some(b'0'..=b'9') if bare.contains(" : ") => topology::graph_channel(bare),
        Some(b'C') if bare.starts_with("CPU/") => topology::device(bare),
        _ if cursor::find(bare, " ", "Pid ").is_some() && bare.contains("Rank ") => gpu(bare),
        _ => None,
    }
    .unwrap_or(Statement::Unknown)
}

fn version(text: &str) -> Statement<'_> {
    // In JSON and CSV, quotes and escapes follow.
    let is_of_version = |it: char| it.is_ascii_alphanumeric() || ".+-_:~".contains(it);
    let end = text.find(|it| !is_of_version(it)).unwrap_or(text.len());
    let word = &text[..end];
    match word.starts_with(|it: char| it.is_ascii_digit()) {
        true => Statement::Version(word),
        false => Statement::Ignored,
    }
}

/// `#  Rank  0 Group  0 Pid  77184 on HOST device  0 [0x10] NVIDIA A100-SXM4-40GB`.
fn gpu(text: &str) -> Option<Statement<'_>> {
    let rank = crate::nccl_log::cursor::after(text, "Rank ")?;
    let (_, rest) = text.split_once(" on ")?;
    let (host, rest) = rest.trim_start().split_once(' ')?;
    let (_, model) = rest.split_once("] ")?;
    Some(Statement::Gpu {
        rank,
        host,
        model: model.trim(),
    })
}

/// The text after a word if it begins with a number, or is cut.
#[inline(always)]
fn numbered<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = cursor::strip(text, word)?;
    let first = rest.trim_start().bytes().next();
    let is_number = first.is_none_or(|it| it.is_ascii_digit());
    is_number.then_some(rest)
}

fn letter_c(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = numbered(text, "Channel ") {
        return Some(channel::channel(rest));
    }
    if let Some(rest) = text.strip_prefix("Connected all ") {
        let what = rest.split(',').next().unwrap_or(rest);
        return Some(Statement::ConnectedAll(what.trim()));
    }
    None
}

fn letter_t(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text
        .strip_prefix("Trees ")
        .filter(|rest| rest.starts_with('['))
    {
        return Some(channel::trees(rest));
    }
    numbered(text, "Tree ").map(channel::one_tree)
}

fn letter_n(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("NCCL version ") {
        return Some(version(rest));
    }
    if let Some(rest) = text.strip_prefix("NCCL_") {
        return Some(setting(text, rest));
    }
    if let Some(rest) = text.strip_prefix("NVLS ") {
        return communicator::nvls(rest);
    }
    None
}

/// `NCCL_X set by environment to Y.`, and other lines about variables.
fn setting<'a>(text: &'a str, rest: &'a str) -> Statement<'a> {
    let length = rest.find(' ').unwrap_or(rest.len());
    let name = &text[..text.len() - rest.len() + length];
    let value = text[name.len()..]
        .strip_prefix(" set by environment to ")
        .or_else(|| text[name.len()..].strip_prefix(" set to "));
    match value {
        Some(value) => Statement::Setting {
            name,
            value: value.strip_suffix('.').unwrap_or(value).trim(),
        },
        None => Statement::Ignored,
    }
}

fn letter_p(text: &str) -> Option<Statement<'_>> {
    if text.starts_with("Pattern ") {
        return topology::graph(text);
    }
    if let Some(rest) = text.strip_prefix("P2P Chunksize set to ") {
        return number(rest).map(Statement::P2pChunk);
    }
    text.starts_with("Paths from ")
        .then_some(Statement::Ignored)
}

/// `init.cc:1234 -> 6`, also with a function's name.
fn failed(text: &str) -> Option<Statement<'_>> {
    // This is asked of nearly every line: a letter is found faster than a word.
    let at = cursor::find(text, " -", "> ")?;
    let (place, code) = (&text[..at - 2], &text[at + 2..]);
    let file = place.split(' ').next()?;
    let (name, line) = file.rsplit_once(':')?;
    if !name.contains('.') || !line.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    Some(Statement::Failed {
        place: file,
        code: number(code)?,
    })
}
