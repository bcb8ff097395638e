//! The protobuf form: messages that follow each other, each after its length.
//!
//! Field numbers are those of Chakra's `schema/protobuf/et_def.proto` (MIT); fields that nothing
//! here needs are skipped.

use std::io::{BufRead, Read};

use plan::cost::DataType;
use program::Collective;
use prost::Message;
use serde::Deserialize;
use serde::de::Deserializer;

use super::graph::{Graph, Kind};
use super::node::{Communication, MOST_NODES, Trace, join};
use super::pytorch;
use crate::call::MOST_US;
use crate::error::WorkloadError;

/// Longest message, bytes.
const MOST_BYTES: u64 = 4 << 20;

/// Most bytes of a length: 32 bits in pieces of 7.
const LENGTH_BYTES: u32 = 5;

/// What stands before the nodes.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    attr: Vec<Attribute>,
}

/// A node.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    #[serde(deserialize_with = "super::numbers::number")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(enumeration = "NodeType", tag = "3")]
    #[serde(rename = "type", deserialize_with = "node_type")]
    kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    #[serde(deserialize_with = "super::numbers::numbers")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    #[serde(deserialize_with = "super::numbers::numbers")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    #[serde(deserialize_with = "super::numbers::number")]
    duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    inputs: Option<Values>,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

/// Inputs or outputs.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
struct Values {
    #[prost(string, tag = "1")]
    values: String,
    #[prost(string, tag = "3")]
    types: String,
}

/// An attribute; the types of a value that nothing here needs are left out.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, optional, tag = "7")]
    int32_val: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    #[serde(deserialize_with = "super::numbers::signed")]
    int64_val: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    uint32_val: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    #[serde(deserialize_with = "super::numbers::unsigned")]
    uint64_val: Option<u64>,
    #[prost(bool, optional, tag = "27")]
    bool_val: Option<bool>,
    #[prost(string, optional, tag = "29")]
    string_val: Option<String>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
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

impl NodeType {
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
        let of_prost = |error: prost::DecodeError| {
            wrong(format!(
                "{error}; expected a message of Chakra's execution traces (protobuf)"
            ))
        };
        match number {
            0 => nodes.metadata(Metadata::decode(&bytes[..]).map_err(of_prost)?),
            _ => {
                let node = Node::decode(&bytes[..]).map_err(of_prost)?;
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
        let kind = match NodeType::try_from(node.kind) {
            Ok(NodeType::Metadata) => {
                if node.name.contains("process_group:init") {
                    let values = node.inputs.as_ref().map_or("", |it| it.values.as_str());
                    join(&mut self.trace.groups, pytorch::groups(values));
                }
                Kind::None
            }
            Ok(NodeType::Comp) if node.duration_micros > 0 => {
                self.has_kernels |= !is_host;
                match is_host {
                    true => Kind::HostCompute(time_us),
                    false => Kind::Compute(time_us),
                }
            }
            Ok(NodeType::CommColl | NodeType::CommSend | NodeType::CommRecv) => {
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
