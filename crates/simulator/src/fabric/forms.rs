//! The forms in which programs write switches: Slurm's `topology.conf` and `topology.yaml`, and
//! what `ibnetdiscover` prints.

use std::collections::{BTreeMap, BTreeSet};

use super::host_list::names;

/// The name of the network that joins blocks, or leaf switches with other switches above.
const NETWORK: &str = "network";

/// A switch as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The line, from 1; 0: none.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) hosts: Vec<String>,
    /// Switches below.
    pub(super) switches: Vec<String>,
}

/// Why a line cannot be read, after its number.
pub(super) type Wrong = (usize, String);

/// A form of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Slurm's `topology.conf`.
    Conf,
    /// Slurm's `topology.yaml`.
    Yaml,
    /// `ibnetdiscover`, or with `-p`.
    Discovered,
}

impl Form {
    /// The form of a text; `None`: it has no switches.
    pub(super) fn of(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = lines.next()?;
        let begins = |key: &str| {
            let begin = first.get(..key.len());
            begin.is_some_and(|it| it.eq_ignore_ascii_case(key))
        };
        let port = |word: &str| first.starts_with(word) && first.contains(" 0x");
        match () {
            () if begins("switchname=") || begins("blockname=") => Some(Self::Conf),
            () if begins("- topology:") || begins("topology:") => Some(Self::Yaml),
            () if begins("vendid=") || port("CA ") || port("SW ") => Some(Self::Discovered),
            () => None,
        }
    }

    /// The switches of a text of this form.
    pub(super) fn read(self, text: &str) -> Result<Vec<Entry>, Wrong> {
        match self {
            Self::Conf => conf(text),
            Self::Yaml => yaml(text),
            Self::Discovered => Ok(discovered(text)),
        }
    }
}

/// Joins blocks by the network.
fn joined(mut blocks: Vec<Entry>) -> Vec<Entry> {
    let network = Entry {
        name: NETWORK.to_owned(),
        switches: blocks.iter().map(|it| it.name.clone()).collect(),
        ..Entry::default()
    };
    blocks.push(network);
    blocks
}

fn conf(text: &str) -> Result<Vec<Entry>, Wrong> {
    let mut entries = Vec::new();
    let mut has_blocks = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.to_ascii_lowercase().starts_with("blocksizes=") {
            continue;
        }
        has_blocks |= line.to_ascii_lowercase().starts_with("blockname=");
        let entry = conf_line(line).map_err(|why| (number, why))?;
        entries.push(Entry {
            line: number,
            ..entry
        });
    }
    Ok(if has_blocks { joined(entries) } else { entries })
}

fn conf_line(line: &str) -> Result<Entry, String> {
    let mut entry = Entry::default();
    for word in line.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "`{word}` has no value; expected SwitchName=, Nodes= or Switches="
            ));
        };
        match key.to_ascii_lowercase().as_str() {
            "switchname" | "blockname" => entry.name = value.to_owned(),
            "nodes" => entry.hosts = names(value)?,
            "switches" => entry.switches = names(value)?,
            "linkspeed" => {}
            _ => {
                return Err(format!(
                    "a switch has no `{key}`; expected SwitchName=, Nodes=, Switches= or LinkSpeed="
                ));
            }
        }
    }
    match entry.name.is_empty() {
        true => Err("the switch has no name; expected SwitchName=".to_owned()),
        false => Ok(entry),
    }
}

/// A topology of a `topology.yaml`.
#[derive(Default)]
struct Topology {
    name: String,
    is_default: bool,
    has_blocks: bool,
    entries: Vec<Entry>,
}

/// The topology that is the default, or the only one.
fn yaml(text: &str) -> Result<Vec<Entry>, Wrong> {
    let mut all: Vec<Topology> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let item = line.trim_start_matches("- ").trim();
        if item.is_empty() || item.starts_with('#') || item == "---" {
            continue;
        }
        let Some((key, value)) = item.split_once(':') else {
            // A size of blocks.
            continue;
        };
        let value = value.trim().trim_matches(['"', '\'']);
        if key == "topology" {
            all.push(Topology {
                name: value.to_owned(),
                ..Topology::default()
            });
            continue;
        }
        let Some(own) = all.last_mut() else {
            return Err((
                number,
                format!("`{key}` before the first topology; expected `- topology:`"),
            ));
        };
        let list = || names(value).map_err(|why| (number, why));
        match (key, own.entries.last_mut()) {
            ("cluster_default", _) => own.is_default = value == "true",
            ("switch" | "block", _) if !value.is_empty() => {
                own.has_blocks |= key == "block";
                own.entries.push(Entry {
                    line: number,
                    name: value.to_owned(),
                    ..Entry::default()
                });
            }
            ("nodes", Some(entry)) => entry.hosts = list()?,
            ("children", Some(entry)) => entry.switches = list()?,
            _ => {}
        }
    }
    let is_one = all.len() == 1;
    let names: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
    let Some(chosen) = all.into_iter().find(|it| it.is_default || is_one) else {
        return Err((
            0,
            format!(
                "none of the topologies {} is the cluster's; expected `cluster_default: true` at one",
                names.join(", ")
            ),
        ));
    };
    Ok(match chosen.has_blocks {
        true => joined(chosen.entries),
        false => chosen.entries,
    })
}

/// Switches by name, as cables join them.
#[derive(Default)]
struct Cabled {
    /// For each switch its adapters, as host and adapter.
    adapters: BTreeMap<String, BTreeSet<(String, String)>>,
    /// For each switch the switches that it has cables to.
    others: BTreeMap<String, BTreeSet<String>>,
}

/// The switches of a fabric. A host is at the switch of its first adapter; the others are rails.
/// Leaf switches below the same switches are together, and all are joined by the network.
fn discovered(text: &str) -> Vec<Entry> {
    let mut cabled = Cabled::default();
    let mut own = None;
    for line in text.lines() {
        if let Some((from, to)) = pair(line) {
            cabled.add(from, to);
        } else if let Some(rest) = line.strip_prefix("Switch") {
            own = quoted(rest).nth(1).map(|it| End::Switch(switch_name(it)));
        } else if line.starts_with("Ca") || line.starts_with("Rt") {
            own = None;
        } else if let (Some(own), true) = (&own, line.starts_with('[')) {
            let mut names = quoted(line);
            let (guid, name) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
            let to = match guid.starts_with("S-") {
                true => End::Switch(switch_name(name)),
                false => End::adapter(name),
            };
            cabled.add(own.clone(), to);
        }
    }
    cabled.entries()
}

/// An end of a cable.
#[derive(Clone)]
enum End {
    Switch(String),
    /// A host and its adapter.
    Adapter(String, String),
    /// Something else, such as a switch's own reducer.
    Other,
}

impl End {
    /// `n1 mlx5_0`.
    fn adapter(name: &str) -> Self {
        match name.split_once(' ') {
            Some((host, adapter)) if !name.contains("Aggregation Node") => {
                Self::Adapter(host.to_owned(), adapter.to_owned())
            }
            _ => Self::Other,
        }
    }
}

/// `CA 134 1 0x… 4x EDR - SW 1719 10 0x… ( 'n1 HCA-1' - 'leaf1' )`.
fn pair(line: &str) -> Option<(End, End)> {
    let (ends, names) = line.split_once('(')?;
    let (from, to) = ends.split_once(" - ")?;
    let mut names = names.split('\'').skip(1).step_by(2);
    let mut end = |kind: &str| {
        let name = names.next()?;
        match kind.split_whitespace().next()? {
            "SW" => Some(End::Switch(switch_name(name))),
            "CA" => Some(End::adapter(name)),
            _ => None,
        }
    };
    Some((end(from)?, end(to)?))
}

/// The texts between quotation marks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

/// `MF0;leaf1:MQM9700/U1` is `leaf1:MQM9700/U1`.
fn switch_name(name: &str) -> String {
    let name = name.split_once(';').map_or(name, |it| it.1);
    name.replace(char::is_whitespace, "_")
}

impl Cabled {
    fn add(&mut self, from: End, to: End) {
        match (from, to) {
            (End::Switch(switch), End::Adapter(host, adapter))
            | (End::Adapter(host, adapter), End::Switch(switch)) => {
                self.adapters
                    .entry(switch)
                    .or_default()
                    .insert((host, adapter));
            }
            (End::Switch(one), End::Switch(other)) => {
                self.others
                    .entry(one.clone())
                    .or_default()
                    .insert(other.clone());
                self.others.entry(other).or_default().insert(one);
            }
            _ => {}
        }
    }

    fn entries(&self) -> Vec<Entry> {
        // By host its first adapter and that one's switch.
        let mut first: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
        for (switch, adapters) in &self.adapters {
            for (host, adapter) in adapters {
                let known = first.entry(host).or_insert((adapter, switch));
                *known = (*known).min((adapter, switch));
            }
        }
        let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (host, (_, switch)) in first {
            hosts.entry(switch).or_default().push(host.to_owned());
        }
        let mut pods: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
        let mut entries: Vec<Entry> = Vec::new();
        for (switch, hosts) in hosts {
            let above = self.others.get(switch).into_iter().flatten();
            let above = above.filter(|it| !self.adapters.contains_key(*it));
            pods.entry(above.map(String::as_str).collect())
                .or_default()
                .push(switch.to_owned());
            entries.push(Entry {
                name: switch.to_owned(),
                hosts,
                ..Entry::default()
            });
        }
        let named = |(at, (_, switches)): (usize, (Vec<&str>, Vec<String>))| Entry {
            name: format!("pod{at}"),
            switches,
            ..Entry::default()
        };
        let pods: Vec<Entry> = pods.into_iter().enumerate().map(named).collect();
        match pods.len() {
            0 => entries,
            _ => {
                let pods = joined(pods);
                entries.extend(pods);
                entries
            }
        }
    }
}
