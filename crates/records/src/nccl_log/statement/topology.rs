//! NCCL's view of the machine, and the graphs of its search.

use super::Statement;
use crate::nccl_log::cursor::{Cursor, after, word_after};

/// The head of a graph of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Graph<'a> {
    /// NCCL's number of the pattern.
    pub pattern: u32,
    /// Channels may leave through another port than they entered.
    pub cross_nic: u32,
    /// Channels.
    pub channels: u32,
    /// Bandwidth inside a node, GB/s.
    pub inside: f32,
    /// Bandwidth between nodes, GB/s.
    pub between: f32,
    /// Path types inside a node and to the network, such as `NVL/PIX`.
    pub types: &'a str,
}

/// `Pattern 4, crossNic 0, nChannels 1, bw 24.0/24.0, type NVL/PIX, sameChannels 1`; `speed` before
/// 2.12.
pub(super) fn graph(text: &str) -> Option<Statement<'_>> {
    let speeds = word_after(text, " bw ").or_else(|| word_after(text, " speed "));
    let graph = (|| {
        let (inside, between) = speeds?.trim_end_matches(',').split_once('/')?;
        Some(Graph {
            pattern: after(text, "Pattern ")?,
            cross_nic: after(text, "crossNic ")?,
            channels: after(text, "nChannels ")?,
            inside: inside.parse().ok()?,
            between: between.parse().ok()?,
            types: word_after(text, " type ")?.trim_end_matches(','),
        })
    })();
    Some(graph.map_or(Statement::Ignored, Statement::Graph))
}

/// ` 0 : NET/0 GPU/0 GPU/1 NET/0`; also the numbers that some forks print alone.
pub(super) fn graph_channel(text: &str) -> Option<Statement<'_>> {
    let mut cursor = Cursor::new(text);
    cursor.number::<u64>()?;
    cursor.spaces();
    if cursor.is_at_end() {
        return Some(Statement::Ignored);
    }
    if !cursor.skip(":") {
        return None;
    }
    let devices = cursor.rest().trim();
    let known = ["GPU/", "NET/", "NVS/", "DEV/", "CPU/"];
    let is_device = known.iter().any(|it| devices.starts_with(it));
    is_device.then_some(Statement::GraphChannel(text))
}

/// `=== System : maxBw 240.0 totalBw 240.0 ===`, `====…`, `+ PCI[24.0] - GPU/17000 (0)`.
pub(super) fn system(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("=== System : ") {
        let of = |name| word_after(rest, name)?.parse().ok();
        let max = of("maxBw ").or_else(|| of("maxWidth "))?;
        let total = of("totalBw ").or_else(|| of("totalWidth "))?;
        return Some(Statement::System { max, total });
    }
    if text.starts_with("=====") {
        return Some(Statement::SystemEnd);
    }
    text.starts_with("+ ")
        .then_some(Statement::SystemLine(text))
}

/// Lines that begin with a device: `CPU/0 (1/1/2)`, `GPU/17000 :GPU/17000 (0/5000.0/LOC) …`.
pub(super) fn device(text: &str) -> Option<Statement<'_>> {
    let kinds = [
        "CPU/", "GPU/", "NET/", "NVS/", "PCI/", "NIC/", "DEV/", "GIN/",
    ];
    let begins = |it: &&str| text.as_bytes().first_chunk::<4>() == it.as_bytes().first_chunk();
    if !kinds.iter().any(begins) {
        return None;
    }
    if text.contains(" :") {
        return Some(Statement::Paths(text));
    }
    text.starts_with("CPU/")
        .then_some(Statement::SystemLine(text))
}
