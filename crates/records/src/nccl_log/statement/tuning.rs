//! Cost tables, thresholds, choices, calls.

use std::str::FromStr;

use plan::Algorithm;
use program::{Collective, Protocol};

use super::Statement;
use crate::nccl_log::cursor::{after, find, word_after};

/// Protocols in NCCL's order.
const PROTOCOLS: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

/// Reads lines that begin with a collective or with the head of a table.
pub(super) fn collective(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("threadThresholds ") {
        return Some(Statement::Thresholds(rest));
    }
    let letters = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (name, rest) = text.split_at(letters);
    if let Some(rest) = rest.strip_prefix(": ") {
        return call(name, rest);
    }
    if let Some(rest) = rest.strip_prefix(" [Symmetric]: ") {
        return window_kernel(name, rest);
    }
    if !text.contains('|') {
        return None;
    }
    table(text)
}

fn table(text: &str) -> Option<Statement<'_>> {
    let mut cells = text.split('|').map(str::trim);
    let name = cells.next()?;
    let cells = cells.filter(|cell| !cell.is_empty());
    match name {
        "Algorithm" => {
            let columns = cells.flat_map(|cell| {
                let algorithm = algorithm(cell);
                PROTOCOLS.map(|protocol| (algorithm, Some(protocol)))
            });
            return Some(Statement::TableHead(columns.collect()));
        }
        "Latency/AlgBw" => {
            let columns = cells.map(|cell| match cell.split_once('/') {
                Some((one, other)) => (algorithm(one.trim()), protocol(other.trim())),
                None => (None, None),
            });
            return Some(Statement::TableHead(columns.collect()));
        }
        "Protocol" | "Max NThreads" => return Some(Statement::Ignored),
        _ => {}
    }
    let collective = Collective::from_str(name).ok()?;
    let costs = cells.map(|cell| {
        let (latency, bandwidth) = cell.split_once('/')?;
        let cost = [latency.trim().parse().ok()?, bandwidth.trim().parse().ok()?];
        Some(cost)
    });
    Some(Statement::TableRow {
        collective,
        costs: costs.collect(),
    })
}

/// `AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}`, with numbers before 2.24;
/// `AllReduce: opCount 0 sendbuff …`.
fn call<'a>(name: &'a str, rest: &'a str) -> Option<Statement<'a>> {
    if rest.starts_with("opCount ") {
        return Some(Statement::Operation(name));
    }
    find(rest, " ", "Bytes -> Algo ")?;
    let choice = (|| {
        let algorithm = word_after(rest, " Algo ")?;
        let protocol = word_after(rest, " proto ")?;
        Some(Statement::Choice {
            collective: Collective::from_str(name).ok()?,
            bytes: after(rest, "")?,
            algorithm: self::algorithm(algorithm)?,
            protocol: self::protocol(protocol)?,
            channels: channels(rest),
        })
    })();
    Some(choice.unwrap_or(Statement::Ignored))
}

/// `channel{Lo..Hi}={0..15}`.
fn channels(text: &str) -> Option<[u32; 2]> {
    let (_, range) = text.split_once("{Lo..Hi}={")?;
    let (range, _) = range.split_once('}')?;
    let (first, last) = range.split_once("..")?;
    Some([first.parse().ok()?, last.parse().ok()?])
}

/// `AllGather [Symmetric]: 1024 Bytes -> Kernel AllGather_LLMC nchannels 1 nthreads 512 nWorks 1`.
fn window_kernel<'a>(name: &'a str, rest: &'a str) -> Option<Statement<'a>> {
    let kernel = word_after(rest, " -> Kernel ")?;
    let read = (|| {
        Some(Statement::WindowKernel {
            collective: Collective::from_str(name).ok()?,
            bytes: after(rest, "")?,
            kernel,
            blocks: after(rest, " nchannels ")?,
            calls: after(rest, " nWorks ").unwrap_or(1),
        })
    })();
    Some(read.unwrap_or(Statement::Ignored))
}

/// An algorithm by NCCL's names or number: `Ring`, `NVLS_TREE`, `1`.
fn algorithm(name: &str) -> Option<Algorithm> {
    if let Ok(number) = name.parse::<usize>() {
        return Algorithm::ALL.get(number).copied();
    }
    match name.contains('_') {
        true => name.replace('_', "").parse().ok(),
        false => name.parse().ok(),
    }
}

fn protocol(name: &str) -> Option<Protocol> {
    match name.parse::<usize>() {
        Ok(number) => PROTOCOLS.get(number).copied(),
        Err(_) => name.parse().ok(),
    }
}
