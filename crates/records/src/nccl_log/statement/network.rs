//! Networks, ports, GPUDirect RDMA, NVLink fabrics.

use super::Statement;
use crate::nccl_log::cursor;

/// Whether GPUDirect RDMA is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gdr<'a> {
    /// It is used.
    pub enabled: bool,
    /// The port or the pair of GPU and port, in NCCL's words.
    pub device: &'a str,
    /// Why, in NCCL's words; empty if it does not say.
    pub why: &'a str,
}

/// Reads lines about networks.
pub(super) fn network(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("NET/") {
        return net(text, rest);
    }
    if let Some(rest) = text.strip_prefix("Using network ") {
        return Some(Statement::Network(rest.trim()));
    }
    if let Some(rest) = text.strip_prefix("Bootstrap") {
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        return rest.strip_prefix("Using ").map(Statement::Bootstrap);
    }
    if let Some(rest) = text.strip_prefix("Using internal Network ") {
        return Some(Statement::Network(rest.trim()));
    }
    gdr(text)
}

fn net<'a>(text: &'a str, rest: &'a str) -> Option<Statement<'a>> {
    if let Some(gdr) = gdr(text) {
        return Some(gdr);
    }
    let (name, rest) = rest.split_once(':')?;
    let ports = rest.trim_start().strip_prefix("Using ")?;
    // Ports are numbered; `Using 6 threads` is another line.
    if !ports.starts_with('[') {
        return None;
    }
    let network = name.trim();
    let ports = ports.split(" ; OOB").next().unwrap_or(ports);
    let ports = ports.split("; OOB").next().unwrap_or(ports);
    Some(Statement::Ports {
        network,
        ports: ports.trim(),
    })
}

/// `MNNVL busId 0x901000 fabric UUID 51b9a2.c45fd8 cliqueId 0x1 state 3 healthMask 0x0`.
pub(super) fn fabric(text: &str) -> Option<Statement<'_>> {
    Some(Statement::Fabric {
        cluster: cursor::word_after(text, " UUID ")?,
        clique: cursor::word_after(text, " cliqueId ")?,
    })
}

/// `GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`, `… for GPU 3000 / HCA 1 (distance 7 > 4)`.
fn gdr(text: &str) -> Option<Statement<'_>> {
    let word = "GPU Direct RDMA ";
    let rest = &text[cursor::find(text, "", word)? + word.len()..];
    let (enabled, rest) = match rest.split_once(' ')? {
        ("Enabled", rest) => (true, rest),
        ("Disabled", rest) => (false, rest),
        _ => return None,
    };
    let rest = rest.strip_prefix("for ").unwrap_or(rest);
    let (device, why) = match rest.split_once('(') {
        Some((device, why)) => (device, why.split(')').next().unwrap_or(why)),
        None => (rest, ""),
    };
    Some(Statement::Gdr(Gdr {
        enabled,
        device: device.trim(),
        why,
    }))
}
