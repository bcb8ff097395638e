//! The forms in which programs write switches: Slurm's `topology.conf` and `topology.yaml`, and
//! what `ibnetdiscover` prints.

use std::collections::{BTreeMap, BTreeSet};

/// The name of the network that joins blocks, or leaf switches with other switches above.
const NETWORK: &str = "network";

/// A switch as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The line, from 1; 0: none.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) hosts: Names,
    /// Switches below.
    pub(super) switches: Names,
}

/// Names of hosts or switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Names {
    /// A list as Slurm writes it, which may be long.
    Listed(String),
    Each(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
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
        let is_empty = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
        let mut lines = lines.filter(|line| !is_empty(line));
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
        switches: Names::Each(blocks.iter().map(|it| it.name.clone()).collect()),
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
            "nodes" => entry.hosts = Names::Listed(value.to_owned()),
            "switches" => entry.switches = Names::Listed(value.to_owned()),
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
        let list = || Names::Listed(value.to_owned());
        if line.starts_with("- ") && matches!(key, "nodes" | "children") {
            let why = format!("`{key}` begins an item; expected `switch:` or `block:` first");
            return Err((number, why));
        }
        match (key, own.entries.last_mut()) {
            ("cluster_default", _) => own.is_default = value.eq_ignore_ascii_case("true"),
            ("switch" | "block", _) if !value.is_empty() => {
                own.has_blocks |= key == "block";
                own.entries.push(Entry {
                    line: number,
                    name: value.to_owned(),
                    ..Entry::default()
                });
            }
            ("nodes", Some(entry)) => entry.hosts = list(),
            ("children", Some(entry)) => entry.switches = list(),
            _ => {}
        }
    }
    let is_one = all.len() == 1;
    let known: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
    let Some(chosen) = all.into_iter().find(|it| it.is_default || is_one) else {
        return Err((
            0,
            format!(
                "none of the topologies {} is the cluster's; expected `cluster_default: true` at one",
                known.join(", ")
            ),
        ));
    };
    if chosen.entries.is_empty() && !is_one {
        return Err((
            0,
            format!(
                "the cluster's topology {} has no switches; expected `cluster_default: true` at another one of {}",
                chosen.name,
                known.join(", ")
            ),
        ));
    }
    Ok(match chosen.has_blocks {
        true => joined(chosen.entries),
        false => chosen.entries,
    })
}

/// Switches by their guids, as cables join them.
#[derive(Default)]
struct Cabled {
    /// What each switch is called.
    names: BTreeMap<String, String>,
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
        if let Some([from, to]) = pair(line) {
            cabled.add(&from, &to);
        } else if let Some(rest) = line.strip_prefix("Switch") {
            own = End::between_quotes(rest);
        } else if line.starts_with("Ca") || line.starts_with("Rt") {
            own = None;
        } else if let (Some(own), true) = (&own, line.starts_with('[')) {
            let to = End::between_quotes(line);
            to.iter().for_each(|to| cabled.add(own, to));
        }
    }
    cabled.entries()
}

/// An end of a cable.
struct End<'t> {
    is_switch: bool,
    guid: &'t str,
    /// `n1 mlx5_0`, or `MF0;leaf1:MQM9700/U1`.
    name: &'t str,
}

impl<'t> End<'t> {
    /// `"S-1111000000000001" # "MF0;leaf1:MQM9700/U1"`.
    fn between_quotes(text: &'t str) -> Option<Self> {
        let mut texts = text.split('"').skip(1).step_by(2);
        let (guid, name) = (texts.next()?, texts.next()?);
        Some(Self {
            is_switch: guid.starts_with("S-"),
            guid,
            name,
        })
    }

    /// `CA 134 1 0x301 4x EDR`.
    fn of(text: &'t str, name: &'t str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let is_switch = match words.next()? {
            "SW" => true,
            "CA" => false,
            _ => return None,
        };
        Some(Self {
            is_switch,
            guid: words.nth(2)?,
            name,
        })
    }

    /// The name of a switch, without spaces.
    fn switch_name(&self) -> String {
        let name = self.name.split_once(';').map_or(self.name, |it| it.1);
        name.replace(char::is_whitespace, "_")
    }

    /// A host and its adapter; `None`: something else, such as a switch's own reducer. An adapter
    /// without a host's name is called by its product, and then its guid is the host.
    fn host(&self) -> Option<(String, String)> {
        let (host, adapter) = self.name.split_once(' ').unwrap_or((self.name, ""));
        if self.name.contains("Aggregation Node") || host.is_empty() {
            return None;
        }
        let is_product = host
            .strip_prefix("MT")
            .is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()));
        let host = if is_product { self.guid } else { host };
        Some((host.to_owned(), adapter.to_owned()))
    }
}

/// `CA 134 1 0x301 4x EDR - SW 1719 10 0x302 ( 'n1 HCA-1' - 'leaf1' )`.
fn pair(line: &str) -> Option<[End<'_>; 2]> {
    let (ends, names) = line.split_once('(')?;
    let (from, to) = ends.split_once(" - ")?;
    let mut names = names.split('\'').skip(1).step_by(2);
    let (from_name, to_name) = (names.next()?, names.next()?);
    Some([End::of(from, from_name)?, End::of(to, to_name)?])
}

impl Cabled {
    fn add(&mut self, from: &End<'_>, to: &End<'_>) {
        for end in [from, to].into_iter().filter(|it| it.is_switch) {
            self.names.insert(end.guid.to_owned(), end.switch_name());
        }
        match (from.is_switch, to.is_switch) {
            (true, true) => {
                for (one, other) in [(from, to), (to, from)] {
                    let others = self.others.entry(one.guid.to_owned()).or_default();
                    others.insert(other.guid.to_owned());
                }
            }
            (false, false) => {}
            (is_first, _) => {
                let (switch, adapter) = if is_first { (from, to) } else { (to, from) };
                if let Some(adapter) = adapter.host() {
                    let adapters = self.adapters.entry(switch.guid.to_owned()).or_default();
                    adapters.insert(adapter);
                }
            }
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
        // With its guid where another switch has the name.
        let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
        self.names
            .values()
            .for_each(|it| *alike.entry(it).or_default() += 1);
        let name = |guid: &str| match self.names.get(guid) {
            Some(name) if alike.get(name.as_str()) == Some(&1) => name.clone(),
            Some(name) => format!("{name}_{guid}"),
            None => guid.to_owned(),
        };
        let mut pods: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
        let mut entries: Vec<Entry> = Vec::new();
        for (switch, hosts) in hosts {
            let above = self.others.get(switch).into_iter().flatten();
            let above = above.filter(|it| !self.adapters.contains_key(*it));
            let name = name(switch);
            let pod = pods.entry(above.map(String::as_str).collect()).or_default();
            pod.push(name.clone());
            entries.push(Entry {
                name,
                hosts: Names::Each(hosts),
                ..Entry::default()
            });
        }
        let named = |(at, (_, switches)): (usize, (Vec<&str>, Vec<String>))| Entry {
            name: format!("pod{at}"),
            switches: Names::Each(switches),
            ..Entry::default()
        };
        let pods: Vec<Entry> = pods.into_iter().enumerate().map(named).collect();
        if !pods.is_empty() {
            entries.extend(joined(pods));
        }
        entries
    }
}

/// Why a text is no TOML, if a parser says `why`: JSON is named as such.
pub(super) fn not_toml<'a>(text: &str, why: &'a str) -> &'a str {
    let begin = text.trim_start();
    let begin = begin.strip_prefix('[').unwrap_or(begin).trim_start();
    match begin.starts_with('{') {
        true => "JSON of other programs, such as NetQ, is not read",
        false => why.trim_end(),
    }
}
