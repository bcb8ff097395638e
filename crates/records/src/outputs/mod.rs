//! Output of commands about the condition of a host: counters of ports, GIDs, limits, and tests
//! of DCGM, metrics of NCCL's Inspector.

mod dcgm;
mod prometheus;

use std::net::Ipv4Addr;

use findings::facts::counters;

use crate::text::{MOST, has, trim_start};
pub use dcgm::{MOST_BYTES, MOST_TESTS, Test, Verdict, json, read as dcgm_tests};
pub use prometheus::Metric;

/// What such commands say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outputs {
    /// Counters of `perfquery`, `ethtool -S` and files of sysfs.
    pub counters: Vec<Counts>,
    /// `show_gids`.
    pub gids: Vec<Gid>,
    /// `ulimit -a`: the memory that a process may lock, KiB; `u64::MAX`: as much as it wants.
    pub locked_memory: Option<u64>,
    /// `ulimit -a`: files that a process may open.
    pub open_files: Option<u64>,
    /// `dcgmi diag`.
    pub tests: Vec<Test>,
    /// NCCL's Inspector.
    pub metrics: Vec<Metric>,
    /// The lines before were counters.
    is_counting: bool,
}

/// The counters of one port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// The port; of it what the text says.
    pub port: String,
    /// Counters that were read.
    pub count: usize,
    /// Those of the table that were read.
    pub known: usize,
    /// Those of the table that are not 0: name and value.
    pub set: Vec<(String, u64)>,
}

/// An entry of a port's table of GIDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// The device.
    pub device: String,
    /// Its place in the table.
    pub index: u32,
    /// It is of RoCE v2.
    pub is_v2: bool,
    /// It has an IPv4 address.
    pub has_ipv4: bool,
}

/// Most counters of a port that are kept.
const MOST_SET: usize = 64;

/// Most ports.
const MOST_PORTS: usize = 256;

impl Outputs {
    /// Reads a line. Returns `true` if nothing else is in it.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if self.limit(line) {
            return true;
        }
        if let Some(port) = port(line) {
            if self.counters.len() < MOST_PORTS
                && self.counters.last().is_none_or(|it| it.port != port)
            {
                self.counters.push(Counts {
                    port,
                    ..Counts::default()
                });
            }
            self.is_counting = true;
            if !line.contains('/') {
                return true;
            }
        }
        if let Some(counts) = self.counters.last_mut().filter(|_| self.is_counting) {
            let counter = counter(line);
            self.is_counting = counter.is_some() || line.trim().is_empty();
            if let Some((name, value)) = counter {
                counts.add(name, value);
                return true;
            }
        }
        if let Some(gid) = gid(line) {
            if self.gids.len() < MOST {
                self.gids.push(gid);
            }
            return true;
        }
        if let Some(metric) = prometheus::metric(line) {
            if self.metrics.len() < MOST {
                self.metrics.push(metric);
            }
            return true;
        }
        dcgm::line(&mut self.tests, line)
    }

    /// Reads a line of `ulimit -a`. Returns `true` if it is one.
    fn limit(&mut self, line: &str) -> bool {
        let limits = [
            ("max locked memory", "-l)", &mut self.locked_memory),
            ("open files", "-n)", &mut self.open_files),
        ];
        let mut limits = limits.into_iter();
        let is_it = |(name, option, _): &(&str, &str, &mut Option<u64>)| {
            trim_start(line).starts_with(name) && line.contains(option)
        };
        let Some((_, _, limit)) = limits.find(is_it) else {
            return false;
        };
        *limit = match line.split_whitespace().last() {
            Some("unlimited") => Some(u64::MAX),
            word => word.and_then(|it| it.parse().ok()),
        };
        true
    }
}

impl Counts {
    fn add(&mut self, name: &str, value: u64) {
        self.count += 1;
        let known = counters::of(name);
        self.known += usize::from(known.is_some());
        if known.is_some() && value > 0 && self.set.len() < MOST_SET {
            self.set.push((name.to_owned(), value));
        }
    }
}

/// The port whose counters follow, or are in the line: `# Port counters: Lid 133 port 1 (…)`,
/// `NIC statistics:`, `/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0`.
fn port(line: &str) -> Option<String> {
    if !has(line, "NIC statistics:") && !has(line, "counters/") && !has(line, "Lid ") {
        return None;
    }
    let line = line.trim();
    if let Some((_, place)) = line.split_once(" counters: Lid ") {
        let place = place.split(" (").next()?;
        return (line.starts_with('#') && place.len() < 40).then(|| format!("LID {place}"));
    }
    if line == "NIC statistics:" {
        return Some("the NIC".to_owned());
    }
    let (place, _) = line
        .split_once("/counters/")
        .or_else(|| line.split_once("/hw_counters/"))?;
    let mut parts = place.rsplit('/');
    let (port, ports, device) = (parts.next()?, parts.next()?, parts.next()?);
    (ports == "ports" && device.len() < 64 && port.len() < 4)
        .then(|| format!("{device} port {port}"))
}

/// A counter and its value, `PortXmitWait:....0` or `rx_discards_phy: 7`.
fn counter(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.trim().rsplit_once(':')?;
    let name = name.rsplit('/').next()?;
    let value = value.trim_start_matches(['.', ' ', '\t']);
    let value = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => value.parse(),
    };
    let value = value.ok()?;
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    (!name.is_empty() && name.len() < 64 && name.chars().all(is_name)).then_some((name, value))
}

/// A row of `show_gids`: device, port, index, GID, perhaps an IPv4 address, version, interface.
fn gid(line: &str) -> Option<Gid> {
    let cells: Vec<&str> = line.split_whitespace().take(8).collect();
    let [device, port, index, gid, rest @ ..] = cells.as_slice() else {
        return None;
    };
    let is_gid = gid.len() == 39 && gid.matches(':').count() == 7;
    if !is_gid || port.parse::<u8>().is_err() || device.len() >= 64 {
        return None;
    }
    Some(Gid {
        device: (*device).to_owned(),
        index: index.parse().ok()?,
        is_v2: rest.contains(&"v2"),
        has_ipv4: rest
            .first()
            .is_some_and(|it| it.parse::<Ipv4Addr>().is_ok()),
    })
}
