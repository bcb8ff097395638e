//! The protobuf form: messages that follow each other, each after its length.
//!
//! Field numbers are those of Chakra's `schema/protobuf/et_def.proto` (MIT); fields that nothing
//! here needs are skipped.

use std::io::{BufRead, Read};

use plan::cost::DataType;
use program::Collective;
use serde::Deserialize;
use serde::de::Deserializer;

use super::graph::{Graph, Kind};
use super::node::{Communication, MOST_NODES, Trace, join};
use super::pytorch;
use super::wire::{Value, fields};
use crate::call::MOST_US;
use crate::error::WorkloadError;

/// Longest message, bytes.
const MOST_BYTES: u64 = 4 << 20;

/// Most bytes of a length: 32 bits in pieces of 7.
const LENGTH_BYTES: u32 = 5;

/// What stands before the nodes.
#[derive(Debug, Default)]
struct Metadata {
    version: String,
    attr: Vec<Attribute>,
}

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Node {
    #[serde(deserialize_with = "super::numbers::number")]
    id: u64,
    name: String,
    #[serde(rename = "type", deserialize_with = "node_type")]
    kind: i32,
    #[serde(deserialize_with = "super::numbers::numbers")]
    ctrl_deps: Vec<u64>,
    #[serde(deserialize_with = "super::numbers::numbers")]
    data_deps: Vec<u64>,
    #[serde(deserialize_with = "super::numbers::number")]
    duration_micros: u64,
    inputs: Option<Values>,
    attr: Vec<Attribute>,
}

/// Inputs or outputs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Values {
    values: String,
    types: String,
}

/// An attribute; the types of a value that nothing here needs are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Attribute {
    name: String,
    int32_val: Option<i32>,
    #[serde(deserialize_with = "super::numbers::signed")]
    int64_val: Option<i64>,
    uint32_val: Option<u32>,
    #[serde(deserialize_with = "super::numbers::unsigned")]
    uint64_val: Option<u64>,
    bool_val: Option<bool>,
    string_val: Option<String>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum NodeType {
    /// Not set.
    Invalid = 0,
    /// Groups of processes, and other things to know.
    Metadata = 1,
    /// Reads memory.
    MemLoad = 2,
    /// Writes memory.
    MemStore = 3,
    /// Computes.
    Comp = 4,
    /// Sends to a rank.
    CommSend = 5,
    /// Receives from a rank.
    CommRecv = 6,
    /// A collective.
    CommColl = 7,
}

impl Metadata {
    fn read(message: &[u8]) -> Result<Self, String> {
        let mut read = Self::default();
        fields(message, |field, value| {
            match field {
                1 => read.version = value.text()?,
                2 => read.attr.push(Attribute::read(value.bytes()?)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(read)
    }
}

impl Node {
    fn read(message: &[u8]) -> Result<Self, String> {
        let mut read = Self::default();
        fields(message, |field, value| {
            match field {
                1 => read.id = value.number()?,
                2 => read.name = value.text()?,
                3 => read.kind = value.number()? as i32,
                4 => value.numbers(&mut read.ctrl_deps)?,
                5 => value.numbers(&mut read.data_deps)?,
                7 => read.duration_micros = value.number()?,
                8 => read.inputs.get_or_insert_default().add(value)?,
                10 => read.attr.push(Attribute::read(value.bytes()?)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(read)
    }
}

impl Values {
    /// A message that comes in pieces is the pieces together.
    fn add(&mut self, message: Value<'_>) -> Result<(), String> {
        fields(message.bytes()?, |field, value| {
            match field {
                1 => self.values = value.text()?,
                3 => self.types = value.text()?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl NodeType {
    /// The type of this number; `Invalid` for those that nothing here needs.
    fn numbered(number: i32) -> Self {
        let known = [
            Self::Metadata,
            Self::MemLoad,
            Self::MemStore,
            Self::Comp,
            Self::CommSend,
            Self::CommRecv,
            Self::CommColl,
        ];
        let found = known.into_iter().find(|it| *it as i32 == number);
        found.unwrap_or(Self::Invalid)
    }

    /// The type of this name; `Invalid` for names that nothing here needs.
    fn of(name: &str) -> Self {
        match name {
            "METADATA_NODE" => Self::Metadata,
            "MEM_LOAD_NODE" => Self::MemLoad,
            "MEM_STORE_NODE" => Self::MemStore,
            "COMP_NODE" => Self::Comp,
            "COMM_SEND_NODE" => Self::CommSend,
            "COMM_RECV_NODE" => Self::CommRecv,
            "COMM_COLL_NODE" => Self::CommColl,
            _ => Self::Invalid,
        }
    }
}

impl Attribute {
    fn read(message: &[u8]) -> Result<Self, String> {
        let mut read = Self::default();
        fields(message, |field, value| {
            match field {
                1 => read.name = value.text()?,
                7 => read.int32_val = Some(value.number()? as i32),
                9 => read.int64_val = Some(value.number()?.cast_signed()),
                11 => read.uint32_val = Some(value.number()? as u32),
                13 => read.uint64_val = Some(value.number()?),
                27 => read.bool_val = Some(value.number()? != 0),
                29 => read.string_val = Some(value.text()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(read)
    }

    /// The version of the schema, if it is that.
    pub(super) fn schema(self) -> Option<String> {
        self.string_val.filter(|_| self.name == "schema")
    }

    /// A whole number, whatever its type.
    fn number(&self) -> Option<u64> {
        let signed = self.int64_val.or(self.int32_val.map(i64::from));
        let unsigned = self.uint64_val.or(self.uint32_val.map(u64::from));
        signed.map_or(unsigned, |it| u64::try_from(it).ok())
    }
}

/// The type of a node in JSON, by name or number.
fn node_type<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kind {
        Number(i32),
        Name(String),
    }
    Ok(match Kind::deserialize(from)? {
        Kind::Number(number) => number,
        Kind::Name(name) => NodeType::of(&name) as i32,
    })
}

/// Whether a file begins as a trace of this form does: with the length of its metadata, which has
/// a version such as `0.0.4`, or attributes only, or nothing.
pub fn is_binary(begin: &[u8]) -> bool {
    let more = begin.iter().take_while(|byte| **byte >= 0x80).count();
    let inside = begin.get(more + 1..).unwrap_or_default();
    match inside {
        _ if begin.first() == Some(&0) => true,
        [VERSION, length, first, ..] => *length < b' ' && first.is_ascii_digit(),
        [ATTRIBUTE, ..] => true,
        _ => false,
    }
}

/// Field numbers 1 and 2 of the metadata, each with the type of bytes.
const VERSION: u8 = 1 << 3 | 2;
const ATTRIBUTE: u8 = 2 << 3 | 2;

/// Reads a trace. `file` is its name in errors, which count messages as lines.
///
/// # Errors
/// It is no such trace, or has more nodes than are kept.
pub fn read(file: &str, mut input: impl BufRead) -> Result<Trace, WorkloadError> {
    let mut nodes = Nodes::default();
    let mut bytes = Vec::new();
    let mut number = 0u64;
    loop {
        let wrong = |why: String| WorkloadError::new(file, number + 1, why);
        if !message(&mut input, &mut bytes).map_err(wrong)? {
            break;
        }
        let of_message = |error: String| {
            wrong(format!(
                "{error}; expected a message of Chakra's execution traces (protobuf)"
            ))
        };
        match number {
            0 => nodes.metadata(Metadata::read(&bytes).map_err(of_message)?),
            _ => {
                let node = Node::read(&bytes).map_err(of_message)?;
                nodes.add(node).map_err(wrong)?;
            }
        }
        number += 1;
    }
    nodes
        .finish()
        .map_err(|why| WorkloadError::new(file, number, why))
}

/// Reads a length and a message. Returns `false` at the end.
fn message(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> Result<bool, String> {
    let of_io = |error: std::io::Error| error.to_string();
    let mut length = 0u64;
    for at in 0..=LENGTH_BYTES {
        let next = *match input.fill_buf().map_err(of_io)? {
            [] if at == 0 => return Ok(false),
            [] => return Err("the file ends in a length; expected a message".to_owned()),
            [next, ..] => next,
        };
        input.consume(1);
        if at == LENGTH_BYTES {
            break;
        }
        length |= u64::from(next & 0x7f) << (7 * at);
        if next & 0x80 == 0 {
            bytes.clear();
            if length > MOST_BYTES {
                return Err(format!(
                    "a message of {length} bytes; expected at most {MOST_BYTES}, and an execution \
                     trace of Chakra (protobuf)"
                ));
            }
            let read = input.take(length).read_to_end(bytes).map_err(of_io)?;
            return match read as u64 == length {
                true => Ok(true),
                false => Err(format!(
                    "the file ends after {read} bytes of a message of {length}; expected all of them"
                )),
            };
        }
    }
    Err(
        "a length of more than 32 bits; expected an execution trace of Chakra (protobuf)"
            .to_owned(),
    )
}

/// The nodes while they are read.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    trace: Trace,
    graph: Graph,
    /// A node has the time of a kernel, so that those of operators on the host do not count.
    has_kernels: bool,
}

impl Nodes {
    fn metadata(&mut self, metadata: Metadata) {
        let schema = metadata.attr.into_iter().find_map(Attribute::schema);
        let version = Some(metadata.version).filter(|it| !it.is_empty());
        self.schema(schema.or(version));
    }

    /// Sets the version of the schema.
    pub(super) fn schema(&mut self, schema: Option<String>) {
        self.trace.schema = schema;
    }

    /// Adds a node.
    pub(super) fn add(&mut self, node: Node) -> Result<(), String> {
        if self.graph.len() >= MOST_NODES {
            return Err(format!(
                "more than {MOST_NODES} nodes; expected a trace of fewer steps"
            ));
        }
        let attribute = |name: &str| node.attr.iter().find(|it| it.name == name);
        let time_us = node.duration_micros as f64;
        if time_us > MOST_US {
            return Err(format!(
                "node {}: {time_us} µs; expected at most {MOST_US}",
                node.id
            ));
        }
        let is_host = attribute("is_cpu_op")
            .and_then(|it| it.bool_val)
            .unwrap_or(false);
        let kind = match NodeType::numbered(node.kind) {
            NodeType::Metadata => {
                if node.name.contains("process_group:init") {
                    let values = node.inputs.as_ref().map_or("", |it| it.values.as_str());
                    join(&mut self.trace.groups, pytorch::groups(values));
                }
                Kind::None
            }
            NodeType::Comp if node.duration_micros > 0 => {
                self.has_kernels |= !is_host;
                match is_host {
                    true => Kind::HostCompute(time_us),
                    false => Kind::Compute(time_us),
                }
            }
            NodeType::CommColl | NodeType::CommSend | NodeType::CommRecv => {
                match communication(&node) {
                    Some(call) => Kind::Call(Box::new(call)),
                    None => {
                        // An operator on the host that launches a kernel has no size.
                        self.trace.left_out += u64::from(!is_host);
                        Kind::None
                    }
                }
            }
            _ => Kind::None,
        };
        let dependencies = node.ctrl_deps.iter().chain(&node.data_deps).copied();
        self.graph.add(node.id, kind, dependencies)
    }

    /// The trace.
    pub(super) fn finish(mut self) -> Result<Trace, String> {
        self.trace.events = self.graph.events(!self.has_kernels)?;
        let all = self
            .trace
            .groups
            .iter()
            .find(|it| it.description == "default_pg");
        self.trace.ranks = all.map(|it| it.size).filter(|size| *size > 0);
        Ok(self.trace)
    }
}

/// The call of a node.
fn communication(node: &Node) -> Option<Communication> {
    let attribute = |name: &str| node.attr.iter().find(|it| it.name == name);
    let number = |name: &str| attribute(name).and_then(Attribute::number);
    let text = |name: &str| attribute(name).and_then(|it| it.string_val.clone());
    let is_collective = node.kind == NodeType::CommColl as i32;
    let collective = match is_collective {
        true => collective(attribute("comm_type")?.number().unwrap_or(0))?,
        false => Collective::SendRecv,
    };
    let inputs = node.inputs.as_ref();
    let mut ranks = Vec::new();
    if let (false, Some(from), Some(to)) = (is_collective, number("comm_src"), number("comm_dst")) {
        ranks = vec![
            u32::try_from(from.min(to)).ok()?,
            u32::try_from(from.max(to)).ok()?,
        ];
        ranks.dedup();
    }
    Some(Communication {
        node: node.id,
        collective,
        bytes: number("comm_size").filter(|it| *it > 0)?,
        of_rank: collective == Collective::AllGather,
        data_type: inputs
            .and_then(|it| pytorch::tensor_type(&it.types))
            .map_or(DataType::F32, |it| it.0),
        group: text("pg_name").unwrap_or_default(),
        ranks,
        size: 0,
        after: Vec::new(),
        time_us: node.duration_micros as f64,
    })
}

/// The collective by Chakra's number.
const fn collective(number: u64) -> Option<Collective> {
    Some(match number {
        0 => Collective::AllReduce,
        1 => Collective::Reduce,
        2 => Collective::AllGather,
        3 => Collective::Gather,
        4 => Collective::Scatter,
        5 => Collective::Broadcast,
        6 => Collective::AllToAll,
        7 | 8 => Collective::ReduceScatter,
        _ => return None,
    })
}
