//! The JSON of a trace, read in pieces: only kernels, steps and groups are kept.

use std::fmt;
use std::io::Read;

use program::Collective;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Kernel, MOST_KERNELS, ProcessGroup, Trace};
use crate::call::MOST_US;
use crate::error::WorkloadError;
use crate::pytorch_names::{collective, element};

/// Reads a trace. `file` is its name in errors.
///
/// # Errors
/// It is no such trace, or has more kernels than are kept.
pub fn read(file: &str, input: impl Read) -> Result<Trace, WorkloadError> {
    let mut trace = Trace::default();
    let mut reader = serde_json::Deserializer::from_reader(input);
    let done = Whole(&mut trace).deserialize(&mut reader);
    let done = done.and_then(|()| reader.end());
    match done {
        Ok(()) => Ok(trace),
        Err(error) => {
            let why = format!("{error}; expected a trace of PyTorch's profiler (JSON)");
            Err(WorkloadError::new(file, error.line() as u64, why))
        }
    }
}

/// The whole document.
struct Whole<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace with traceEvents")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(Events(self.0))?,
                "distributedInfo" => {
                    let info: Option<Info> = map.next_value()?;
                    info.unwrap_or_default().into_trace(self.0);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    rank: Option<u32>,
    world_size: Option<u32>,
    nccl_version: Option<String>,
    pg_config: Groups,
}

/// The groups: a list, or in newer traces a text with the list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Groups {
    List(Vec<GroupEntry>),
    Other(IgnoredAny),
}

impl Default for Groups {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupEntry {
    pg_name: String,
    pg_desc: String,
    ranks: Vec<u32>,
}

impl Info {
    fn into_trace(self, trace: &mut Trace) {
        trace.rank = self.rank;
        trace.world_size = self.world_size;
        trace.nccl_version = self.nccl_version;
        if let Groups::List(groups) = self.pg_config {
            trace.groups = groups
                .into_iter()
                .map(|it| ProcessGroup {
                    name: it.pg_name,
                    description: it.pg_desc,
                    ranks: it.ranks,
                })
                .collect();
        }
    }
}

/// The events.
struct Events<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut events: S) -> Result<(), S::Error> {
        let trace = self.0;
        while let Some(event) = events.next_element::<Event>()? {
            event.into_trace(trace);
            if trace.collectives.len() + trace.compute.len() > MOST_KERNELS {
                let why =
                    format!("more than {MOST_KERNELS} kernels; expected a trace of fewer steps");
                return Err(serde::de::Error::custom(why));
            }
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    cat: Option<String>,
    name: Option<String>,
    ts: Option<Number>,
    dur: Option<Number>,
    args: Option<Details>,
}

/// A number, which some versions write as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Value(f64),
    Text(String),
}

impl Number {
    fn value(&self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Text(text) => text.trim().parse().ok(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(rename = "Collective name")]
    collective: Option<String>,
    #[serde(rename = "In msg nelems")]
    sent: Option<u64>,
    #[serde(rename = "Out msg nelems")]
    received: Option<u64>,
    #[serde(rename = "Group size")]
    size: Option<u32>,
    dtype: Option<String>,
    #[serde(rename = "Process Group Name")]
    group: Option<String>,
    #[serde(rename = "Process Group Ranks")]
    ranks: Option<String>,
}

impl Event {
    fn into_trace(self, trace: &mut Trace) {
        let name = self.name.unwrap_or_default();
        match self.cat.as_deref() {
            Some("kernel") => {}
            Some("user_annotation") => {
                trace.steps += u32::from(name.starts_with("ProfilerStep#"));
                return;
            }
            _ => return,
        }
        let number = |it: Option<Number>| it.and_then(|it| it.value());
        let (Some(start), Some(time)) = (number(self.ts), number(self.dur)) else {
            return;
        };
        // Times since 1970 have 17 digits.
        if !(0.0..=MOST_US * 1e3).contains(&start) || !(0.0..=MOST_US).contains(&time) {
            return;
        }
        if !name.starts_with("nccl") {
            trace.compute.push([start, start + time]);
            return;
        }
        match self.args.and_then(|it| it.kernel(start, time)) {
            Some(kernel) => trace.collectives.push(kernel),
            None => trace.left_out += 1,
        }
    }
}

impl Details {
    fn kernel(self, start_us: f64, time_us: f64) -> Option<Kernel> {
        let (data_type, width) = element(&self.dtype?)?;
        let (sent, received) = (self.sent?, self.received?);
        let collective = collective(&self.collective?)?;
        let elements = match collective {
            Collective::AllGather | Collective::Gather => received,
            Collective::SendRecv => sent.max(received),
            _ => sent,
        };
        let bytes = elements.checked_mul(width)?;
        let size = self.size.filter(|it| *it > 0)?;
        i64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        Some(Kernel {
            start_us,
            time_us,
            collective,
            bytes,
            data_type,
            group: self.group.unwrap_or_default(),
            size,
            ranks: self.ranks.map_or_else(Vec::new, |it| ranks(&it)),
        })
    }
}

/// Reads `[0, 1, 2]`; empty if the list is shortened (`[0, 1, ..., 63]`).
fn ranks(text: &str) -> Vec<u32> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let all = inner.split(',').map(|it| it.trim().parse().ok());
    all.collect::<Option<Vec<u32>>>().unwrap_or_default()
}
