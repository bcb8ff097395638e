//! Reading fabric files, strictly: a mistyped key or number must not silently change a result.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::forms::not_toml;
use super::{Fabric, Latencies, Leaf, Port, Uplink};

/// Keys less alike than this are not offered.
const LIKENESS: f64 = 0.7;

/// Most entries of a list in a file.
const MOST_ENTRIES: usize = 100_000;

/// Most leaf switches.
const MOST_LEAVES: u32 = 1 << 16;

/// Largest number of a host with a cable.
const MOST_CABLED: u32 = 4095;

/// Why a file is no fabric for a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The text is no TOML.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The parser's message, with the place.
        message: String,
    },
    /// A key that fabric files do not have.
    #[error("{place}: a fabric file has no key `{key}`{hint}")]
    UnknownKey {
        /// The file and line.
        place: String,
        /// The key with the table around it.
        key: String,
        /// The known key most like it, as a question; or all keys.
        hint: String,
    },
    /// A value that cannot be used.
    #[error("{place}: `{key}` is {found}; expected {expected}")]
    BadValue {
        /// The file and line.
        place: String,
        /// The key with the table around it.
        key: String,
        /// The value.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The list of hosts' leaf switches belongs to another job.
    #[error(
        "the fabric file has the leaf switches of {given} hosts, and the job has {hosts}; expected one number for each host"
    )]
    OtherHosts {
        /// Hosts of the file.
        given: u32,
        /// Hosts of the job.
        hosts: u32,
    },
    /// Cables without a switch are not simulated.
    #[error("the fabric file has cables between hosts, which are not simulated")]
    Cables,
    /// The job has no such rank, host or switch.
    #[error("the fabric file names {what} {number}; the job has {count} of them, counted from 0")]
    Absent {
        /// Its kind.
        what: String,
        /// Its number.
        number: u32,
        /// How many the job has.
        count: u32,
    },
}

/// What a text may be.
const EXPECTED: &str = "expected a fabric file (TOML), or switches: Slurm's topology.conf or topology.yaml, or the output of ibnetdiscover";

/// The tables of a file and their keys.
const TABLES: [(&str, &[&str]); 9] = [
    (
        "network",
        &["port-gbps", "latency-us", "header-bytes", "window-slots"],
    ),
    (
        "leaf",
        &[
            "hosts",
            "of",
            "rails",
            "oversubscription",
            "uplinks",
            "spine-us",
        ],
    ),
    ("latency", &["start-us", "nvlink-us", "pci-us"]),
    ("ranks", &["work-gbps", "per-host"]),
    ("slots", &["ll", "ll128", "simple"]),
    ("delay", &["rank", "us"]),
    (
        "port",
        &["host", "nic", "gbps", "send-gbps", "receive-gbps", "failed"],
    ),
    ("uplink", &["leaf", "rail", "failed"]),
    ("cable", &["from", "to"]),
];

impl Fabric {
    /// Reads a fabric file; `file` is its name for messages.
    ///
    /// # Errors
    /// It is no fabric file.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, FabricError> {
        let parsed = DeTable::parse(text).map_err(|error| FabricError::Syntax {
            file: file.to_owned(),
            message: format!("{}\n{EXPECTED}", not_toml(text, &error.to_string())),
        })?;
        let reader = Reader { file, text };
        let mut fabric = Self::default();
        for (key, value) in parsed.get_ref() {
            let name = key.get_ref().as_ref();
            let Some((_, keys)) = TABLES.iter().find(|(table, _)| *table == name) else {
                let known = TABLES.map(|(table, _)| table);
                return Err(reader.unknown(key.span().start, name, name, &known));
            };
            let listed = matches!(name, "delay" | "port" | "uplink" | "cable");
            let entries: Vec<&Spanned<DeValue<'_>>> = match (value.get_ref(), listed) {
                (DeValue::Table(_), false) => vec![value],
                (DeValue::Array(values), true) if values.len() <= MOST_ENTRIES => {
                    values.iter().collect()
                }
                (_, true) => {
                    let expected = format!("a list of at most {MOST_ENTRIES} tables [[{name}]]");
                    return Err(reader.bad(value, name, &expected));
                }
                (_, false) => return Err(reader.bad(value, name, &format!("a table [{name}]"))),
            };
            for entry in entries {
                let DeValue::Table(entries) = entry.get_ref() else {
                    return Err(reader.bad(entry, name, &format!("tables [[{name}]]")));
                };
                let start = if listed {
                    entry.span().start
                } else {
                    key.span().start
                };
                let section = Section {
                    reader: &reader,
                    name,
                    start,
                    entries,
                };
                section.refuse_unknown(keys)?;
                fabric.take(&section)?;
            }
        }
        Ok(fabric)
    }

    fn take(&mut self, section: &Section<'_>) -> Result<(), FabricError> {
        match section.name {
            "network" => {
                self.network.port_gbps = section.rate("port-gbps")?;
                self.network.header_bytes = section.whole("header-bytes", 0..=65_536)?.unwrap_or(0);
                self.network.window_slots = section.whole("window-slots", 1..=1 << 20)?;
                self.latency.network = section.time("latency-us")?;
            }
            "leaf" => {
                let of = section.list("of", 0..=MOST_LEAVES - 1)?;
                let hosts = section.whole("hosts", 1..=1 << 20)?;
                self.leaf = Some(Leaf {
                    hosts: match hosts {
                        None if of.is_empty() => section.needed("hosts", 1..=1 << 20)?,
                        hosts => hosts.unwrap_or(1),
                    },
                    of,
                    rails: section.flag("rails")?,
                    oversubscription: section.rate("oversubscription")?.unwrap_or(1.0),
                    uplinks: section.whole("uplinks", 1..=1 << 16)?.unwrap_or(1),
                    spine_us: section.time("spine-us")?.unwrap_or(0.0),
                });
            }
            "latency" => {
                self.latency = Latencies {
                    start: section.time("start-us")?,
                    nvlink: section.time("nvlink-us")?,
                    pci: section.time("pci-us")?,
                    ..self.latency
                };
            }
            "ranks" => {
                self.ranks.work_gbps = section.rate("work-gbps")?;
                self.ranks.per_host = section.whole("per-host", 1..=1024)?;
            }
            "slots" => {
                let bytes = 1024..=64 << 20;
                self.slots.ll = section.whole("ll", bytes.clone())?;
                self.slots.ll128 = section.whole("ll128", bytes.clone())?;
                self.slots.simple = section.whole("simple", bytes)?;
            }
            "delay" => {
                let rank = section.needed("rank", 0..=u32::MAX - 1)?;
                let us = section.time("us")?.unwrap_or(0.0);
                self.delays.insert(rank, us);
            }
            "port" => {
                let both = section.rate("gbps")?;
                self.ports.push(Port {
                    host: section.needed("host", 0..=u32::MAX - 1)?,
                    nic: section.whole("nic", 0..=u32::MAX - 1)?,
                    send_gbps: section.rate("send-gbps")?.or(both),
                    receive_gbps: section.rate("receive-gbps")?.or(both),
                    failed: section.flag("failed")?,
                });
            }
            "cable" => self.cables.add(
                section.needed("from", 0..=MOST_CABLED)?,
                section.needed("to", 0..=MOST_CABLED)?,
            ),
            _ => self.uplinks.push(Uplink {
                leaf: section.needed("leaf", 0..=u32::MAX - 1)?,
                rail: section.whole("rail", 0..=u32::MAX - 1)?.unwrap_or(0),
                failed: section.needed("failed", 1..=1 << 16)?,
            }),
        }
        Ok(())
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    /// The file and the line of a byte.
    fn place(&self, start: usize) -> String {
        let before = self.text.as_bytes().iter().take(start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.file)
    }

    fn unknown(&self, start: usize, key: &str, name: &str, known: &[&str]) -> FabricError {
        let like = |it: &&&str| strsim::jaro_winkler(name, it);
        let mut near: Vec<&&str> = known.iter().filter(|it| like(it) >= LIKENESS).collect();
        near.sort_by(|one, other| like(other).total_cmp(&like(one)));
        let hint = match near.first() {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; expected one of {}", known.join(" ")),
        };
        FabricError::UnknownKey {
            place: self.place(start),
            key: key.to_owned(),
            hint,
        }
    }

    fn bad(&self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str) -> FabricError {
        let found = match value.get_ref() {
            DeValue::String(text) => format!("the text \"{text}\""),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            DeValue::Array(values) => format!("a list of {}", values.len()),
            DeValue::Table(_) => "a table".to_owned(),
        };
        FabricError::BadValue {
            place: self.place(value.span().start),
            key: key.to_owned(),
            found,
            expected: expected.to_owned(),
        }
    }
}

/// One table of a file.
struct Section<'a> {
    reader: &'a Reader<'a>,
    name: &'a str,
    start: usize,
    entries: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    fn refuse_unknown(&self, known: &[&str]) -> Result<(), FabricError> {
        for (key, _) in self.entries {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let full = format!("{}.{name}", self.name);
                return Err(self.reader.unknown(key.span().start, &full, name, known));
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut entries = self.entries.iter();
        let found = entries.find(|(name, _)| name.get_ref().as_ref() == key);
        found.map(|(_, value)| value)
    }

    fn number(
        &self,
        key: &str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, FabricError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let number = number.filter(|number| fits(*number));
        let full = format!("{}.{key}", self.name);
        number
            .map(Some)
            .ok_or_else(|| self.reader.bad(value, &full, expected))
    }

    /// A bandwidth or a factor.
    fn rate(&self, key: &str) -> Result<Option<f64>, FabricError> {
        let expected = "a number from 0.000001 to 1000000";
        self.number(key, expected, |number| (1e-6..=1e6).contains(&number))
    }

    /// A time in µs.
    fn time(&self, key: &str) -> Result<Option<f64>, FabricError> {
        let expected = "µs from 0 to 1000000000";
        self.number(key, expected, |number| (0.0..=1e9).contains(&number))
    }

    fn whole(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, FabricError> {
        let (least, most) = (*range.start(), *range.end());
        let expected = format!("a whole number from {least} to {most}");
        let fits = |number: f64| {
            number.fract() == 0.0 && number >= f64::from(least) && number <= f64::from(most)
        };
        let number = self.number(key, &expected, fits)?;
        Ok(number.map(|number| number as u32))
    }

    /// A list of whole numbers; empty if it is left out.
    fn list(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<Vec<u32>, FabricError> {
        let Some(value) = self.value(key) else {
            return Ok(Vec::new());
        };
        let number = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<u32>().ok(),
            _ => None,
        };
        let read: Option<Vec<u32>> = match value.get_ref() {
            DeValue::Array(items) if (1..=MOST_ENTRIES).contains(&items.len()) => items
                .iter()
                .map(|item| number(item).filter(|it| range.contains(it)))
                .collect(),
            _ => None,
        };
        read.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let expected = format!("a list of whole numbers from {least} to {most}");
            self.reader
                .bad(value, &format!("{}.{key}", self.name), &expected)
        })
    }

    fn needed(&self, key: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, FabricError> {
        let (least, most) = (*range.start(), *range.end());
        self.whole(key, range)?
            .ok_or_else(|| FabricError::BadValue {
                place: self.reader.place(self.start),
                key: format!("{}.{key}", self.name),
                found: "missing".to_owned(),
                expected: format!("a whole number from {least} to {most}"),
            })
    }

    fn flag(&self, key: &str) -> Result<bool, FabricError> {
        let Some(value) = self.value(key) else {
            return Ok(false);
        };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => {
                let full = format!("{}.{key}", self.name);
                Err(self.reader.bad(value, &full, "true or false"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file() {
        let text = "
[network]
port-gbps = 12.5
latency-us = 5
[latency]
start-us = 8.4
[leaf]
hosts = 4
rails = true
oversubscription = 2
[[delay]]
rank = 3
us = 100.5
[[port]]
host = 1
gbps = 6.25
[[port]]
host = 2
nic = 0
failed = true
[[uplink]]
leaf = 1
failed = 1
";
        let fabric = Fabric::from_toml("fabric.toml", text).expect("a fabric file");
        assert_eq!(fabric.network.port_gbps, Some(12.5));
        assert_eq!(fabric.latency.network, Some(5.0));
        assert_eq!(fabric.latency.start, Some(8.4));
        assert_eq!(
            fabric.leaf.as_ref().map(|leaf| leaf.oversubscription),
            Some(2.0)
        );
        assert_eq!(fabric.delays.get(&3), Some(&100.5));
        assert_eq!(fabric.ports[0].receive_gbps, Some(6.25));
        assert!(fabric.ports[1].failed && fabric.ports[1].nic == Some(0));
        assert_eq!(fabric.check(8, 8, 1), Ok(()));
        let absent = |ranks, hosts| fabric.check(ranks, hosts, 1).map_err(|it| it.to_string());
        assert_eq!(
            absent(3, 8),
            Err("the fabric file names rank 3; the job has 3 of them, counted from 0".to_owned())
        );
        assert!(absent(8, 2).is_err_and(|it| it.contains("host 2")));
        assert!(absent(8, 4).is_err_and(|it| it.contains("leaf 1")));
    }

    #[test]
    fn what_is_no_fabric_file_is_refused_with_its_line() {
        for (text, message) in [
            (
                "[network]\nport = 1",
                "f:2: a fabric file has no key `network.port`; did you mean",
            ),
            (
                "\n[netwrk]",
                "f:2: a fabric file has no key `netwrk`; did you mean `network`?",
            ),
            (
                "xyz = 1",
                "f:1: a fabric file has no key `xyz`; expected one of network leaf",
            ),
            (
                "[network]\n\nport-gbps = 0",
                "f:3: `network.port-gbps` is 0; expected a number",
            ),
            ("[network]\nport-gbps = nan", "`network.port-gbps` is nan"),
            (
                "[network]\nport-gbps = \"1\"",
                "`network.port-gbps` is the text \"1\"",
            ),
            ("[leaf]\nrails = true", "f:1: `leaf.hosts` is missing"),
            (
                "[leaf]\nhosts = 1.5",
                "f:2: `leaf.hosts` is 1.5; expected a whole number",
            ),
            (
                "[leaf]\nhosts = 1\nrails = 1",
                "`leaf.rails` is 1; expected true or false",
            ),
            ("delay = 3", "f:1: `delay` is 3; expected a list"),
            ("delay = [3]", "f:1: `delay` is 3; expected tables"),
            ("[[network]]", "`network` is a list of 1; expected a table"),
            ("[[port]]\nnic = 1", "`port.host` is missing"),
            ("[", "expected a fabric file (TOML)"),
        ] {
            let error = Fabric::from_toml("f", text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
