//! The JSON of a trace, read in pieces: only kernels, steps and groups are kept, of jobs on
//! processors their operators.

use std::fmt;
use std::io::Read;

use program::Collective;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use serde_json::Value;

use super::host::{self, Host};
use super::{Kernel, MOST_KERNELS, ProcessGroup, Trace};
use crate::call::MOST_US;
use crate::error::WorkloadError;
use crate::pytorch_names::{collective, element};

/// Fields that a trace has, the first ones among them.
const FIELDS: [&str; 2] = ["\"traceEvents\"", "\"distributedInfo\""];

/// Whether a text begins as such a trace does.
pub fn is_one(text: &str) -> bool {
    text.trim_start().starts_with('{') && FIELDS.iter().any(|field| text.contains(field))
}

/// Reads a trace. `file` is its name in errors.
///
/// # Errors
/// It is no such trace, or has more kernels than are kept.
pub fn read(file: &str, input: impl Read) -> Result<Trace, WorkloadError> {
    let (mut trace, mut host) = (Trace::default(), Host::default());
    let mut reader = serde_json::Deserializer::from_reader(input);
    let done = Whole(&mut trace, &mut host).deserialize(&mut reader);
    let done = done.and_then(|()| reader.end());
    done.map_err(|error| {
        let why = format!("{error}; expected a trace of PyTorch's profiler (JSON)");
        WorkloadError::new(file, error.line() as u64, why)
    })?;
    let joined = host.into_trace(&mut trace);
    joined.map_err(|why| WorkloadError::new(file, 1, why))?;
    Ok(trace)
}

/// The whole document.
struct Whole<'a>(&'a mut Trace, &'a mut Host);

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
                "traceEvents" => map.next_value_seed(Events(self.0, self.1))?,
                "distributedInfo" => {
                    let info: Option<Info> = map.next_value()?;
                    let info = info.unwrap_or_default();
                    self.1.prefix = info.backend.as_deref().and_then(host::prefix);
                    info.into_trace(self.0);
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
    backend: Option<String>,
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
struct Events<'a>(&'a mut Trace, &'a mut Host);

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
        let Events(trace, host) = self;
        while let Some(event) = events.next_element::<Event>()? {
            event.into_trace(trace, host);
            if trace.collectives.len() + trace.compute.len() > MOST_KERNELS || host.is_full() {
                let why = format!(
                    "more than {MOST_KERNELS} kernels or operators; expected a trace of fewer steps"
                );
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
    tid: Option<Number>,
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
    #[serde(rename = "Input Dims")]
    shapes: Option<Value>,
    #[serde(rename = "Input type")]
    types: Option<Value>,
    /// `false`: the end of the event is that of the trace.
    finished: Option<bool>,
}

impl Event {
    fn into_trace(self, trace: &mut Trace, host: &mut Host) {
        let name = self.name.unwrap_or_default();
        let category = self.cat.as_deref().unwrap_or("");
        match category {
            "kernel" => {}
            "user_annotation" | "cpu_op" if host.prefix.is_some() => {}
            "user_annotation" => {
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
        let span = [start, start + time];
        if category != "kernel" {
            let details = self.args.unwrap_or_default();
            match (category, host.is_call(&name)) {
                (_, true) if details.finished == Some(false) => trace.left_out += 1,
                (_, true) => {
                    let [shapes, types] = [details.shapes, details.types];
                    host.call(
                        &name,
                        span,
                        shapes.unwrap_or_default(),
                        types.unwrap_or_default(),
                    );
                }
                ("cpu_op", false) => {
                    let thread = self.tid.and_then(|it| it.value());
                    host.operator(&name, thread.unwrap_or(0.0), span);
                }
                _ => trace.steps += u32::from(name.starts_with("ProfilerStep#")),
            }
            return;
        }
        if !name.starts_with("nccl") {
            trace.compute.push(span);
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
