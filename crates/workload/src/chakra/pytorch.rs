//! Traces of PyTorch's `ExecutionTraceObserver`: a node for each operator on the host, of which
//! `record_param_comms` is a call or a wait. Ids count in the order in which operators begin.
//!
//! The inputs of a call are tensors, the number of its request, its group (a number, or name and
//! description), the rank, the collective, split sizes, and at the end the size of the group; those
//! of a wait begin with the request. Newer versions write most of them as attributes, too (source:
//! PyTorch `torch/csrc/distributed/c10d/ParamCommsUtils.hpp`, BSD).
//!
//! Chakra's linker adds the kernels of a profiler's trace: nodes with a `cat`egory and a duration.

use std::collections::HashMap;
use std::fmt;

use plan::cost::DataType;
use program::Collective;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::node::{Communication, Event, MOST_NODES, ProcessGroup, Trace, join};
use crate::call::MOST_US;
use crate::pytorch_names::{collective, element, scalar};

/// The name of calls and waits.
const CALL: &str = "record_param_comms";

/// Numbers of a tensor: id, storage, offset, elements, bytes of an element; then its device.
const TENSOR: usize = 6;

/// A node as it is written; only what calls need.
#[derive(Debug, Default)]
pub(super) struct RecordedNode {
    id: u64,
    name: String,
    inputs: Value,
    types: Value,
    attributes: HashMap<String, Value>,
    category: Option<String>,
    time_us: f64,
}

/// The nodes of a trace while they are read.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    groups: Vec<ProcessGroup>,
    steps: Vec<(u64, Step)>,
    left_out: u64,
}

/// What a node adds.
#[derive(Debug)]
enum Step {
    /// A kernel that computes, µs.
    Compute(f64),
    /// A kernel of NCCL, µs.
    Kernel(f64),
    /// A call with the number of its request.
    Call(Option<u64>, Box<Communication>),
    /// A wait for a request.
    Wait(u64),
}

impl Recorder {
    /// Adds a node.
    pub(super) fn add(&mut self, node: RecordedNode) -> Result<(), String> {
        let id = node.id;
        if node.name.contains("process_group:init") {
            let text = node.inputs.get(0).and_then(Value::as_str);
            join(&mut self.groups, groups(text.unwrap_or("")));
            return Ok(());
        }
        let step = match (&node.category, node.name.as_str()) {
            (Some(category), name) if category == "kernel" => match name.starts_with("nccl") {
                true => Step::Kernel(node.time_us),
                false => Step::Compute(node.time_us),
            },
            (None, CALL) => match node.step() {
                Found::Step(step) => step,
                Found::Nothing => return Ok(()),
                Found::Unknown => {
                    self.left_out += 1;
                    return Ok(());
                }
            },
            _ => return Ok(()),
        };
        if self.steps.len() >= MOST_NODES {
            return Err(format!(
                "more than {MOST_NODES} calls and kernels; expected a trace of fewer steps"
            ));
        }
        self.steps.push((id, step));
        Ok(())
    }

    /// The trace.
    pub(super) fn finish(mut self) -> Trace {
        self.steps.sort_by_key(|(id, _)| *id);
        let mut events: Vec<Event> = Vec::with_capacity(self.steps.len());
        let mut requests: HashMap<u64, usize> = HashMap::new();
        let mut calls = 0;
        let mut latest = None;
        for (_, step) in self.steps {
            match step {
                Step::Compute(time) => events.push(Event::Compute(time)),
                Step::Kernel(time) => {
                    if let Some(Event::Call(call)) = latest.and_then(|at: usize| events.get_mut(at))
                    {
                        call.time_us += time;
                    }
                }
                Step::Call(request, call) => {
                    if let Some(request) = request {
                        requests.insert(request, calls);
                    }
                    calls += 1;
                    latest = Some(events.len());
                    events.push(Event::Call(*call));
                }
                Step::Wait(request) => {
                    if let Some(call) = requests.remove(&request) {
                        events.push(Event::Wait(vec![call]));
                    }
                }
            }
        }
        let is_all = |it: &&ProcessGroup| it.description == "default_pg" || self.groups.len() == 1;
        let all = self.groups.iter().find(is_all).map(|it| it.size);
        Trace {
            schema: None,
            ranks: all.filter(|size| *size > 0),
            groups: self.groups,
            events,
            left_out: self.left_out,
        }
    }
}

/// What a node of a call is.
enum Found {
    Step(Step),
    /// Neither a call nor a wait, such as the beginning of a communicator.
    Nothing,
    /// A call that is not known.
    Unknown,
}

impl RecordedNode {
    fn step(&self) -> Found {
        let empty = Vec::new();
        let inputs = self.inputs.as_array().unwrap_or(&empty);
        let Some(at) = inputs.iter().position(Value::is_string) else {
            return Found::Unknown;
        };
        let name = inputs[at].as_str().unwrap_or("");
        let before = &inputs[..at];
        // Tensors are lists, as a group with a description is; the request is the first number.
        let request = before.iter().find_map(Value::as_u64);
        match name {
            "wait" => request.map_or(Found::Nothing, |it| Found::Step(Step::Wait(it))),
            "init" | "broadcastUniqueNCCLID" | "startCoalescing" | "endCoalescing" | "" => {
                Found::Nothing
            }
            name => match self.call(name, before, &inputs[at + 1..]) {
                Some(call) => Found::Step(Step::Call(request, Box::new(call))),
                None => Found::Unknown,
            },
        }
    }

    fn call(&self, name: &str, before: &[Value], after: &[Value]) -> Option<Communication> {
        let attribute = |name: &str| self.attributes.get(name);
        let collective = match name {
            "barrier" => Collective::AllReduce,
            name => collective(name)?,
        };
        let of_attribute = attribute("dtype").and_then(|it| element(it.as_str()?));
        let of_types = || tensor_type(&self.types.to_string());
        let (data_type, width) = of_attribute.or_else(of_types).unwrap_or((DataType::F32, 4));
        let number = |name: &str| attribute(name).and_then(Value::as_u64);
        let elements = match collective {
            Collective::AllGather => number("out_msg_nelems"),
            _ => number("in_msg_nelems").max(match collective {
                Collective::SendRecv => number("out_msg_nelems"),
                _ => None,
            }),
        };
        let (bytes, of_rank) = match (name, elements.filter(|it| *it > 0)) {
            ("barrier", _) => (width, false),
            (_, Some(elements)) => (elements.checked_mul(width)?, false),
            _ => {
                let tensors = before.iter().take_while(|it| it.is_array());
                let bytes = tensors.map(tensor_bytes).fold(0, u64::saturating_add);
                (bytes, collective == Collective::AllGather)
            }
        };
        let group = before.iter().rev().nth(1);
        let group = match group {
            Some(Value::Array(names)) => names.first().and_then(Value::as_str).map(str::to_owned),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        let size = number("pg_size").or_else(|| after.get(2..)?.last()?.as_u64());
        Some(Communication {
            node: self.id,
            collective,
            bytes: Some(bytes).filter(|it| *it > 0)?,
            of_rank,
            data_type,
            group: group.unwrap_or_default(),
            ranks: Vec::new(),
            size: size.and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            after: Vec::new(),
            time_us: 0.0,
        })
    }
}

/// Bytes of a tensor, or of all tensors of a list.
fn tensor_bytes(value: &Value) -> u64 {
    let Some(items) = value.as_array() else {
        return 0;
    };
    let is_tensor = items.len() >= TENSOR
        && items[..TENSOR - 1].iter().all(Value::is_number)
        && items[TENSOR - 1].is_string();
    match is_tensor {
        true => {
            let number = |at: usize| items[at].as_u64().unwrap_or(0);
            number(3).saturating_mul(number(4))
        }
        false => items.iter().map(tensor_bytes).fold(0, u64::saturating_add),
    }
}

/// The type of the first tensor in a text such as `["GenericList[Tensor(c10::Half)]"]`, and bytes
/// of an element.
pub(super) fn tensor_type(text: &str) -> Option<(DataType, u64)> {
    let (_, rest) = text.split_once("Tensor(")?;
    let (name, _) = rest.split_once(')')?;
    scalar(name)
}

/// The groups of processes in a text with a list of them.
pub(super) fn groups(text: &str) -> Vec<ProcessGroup> {
    let list = text.find("[{").zip(text.rfind("}]"));
    let list = list
        .and_then(|(begin, end)| text.get(begin..end + 2))
        .unwrap_or("[]");
    // A list within a text within a text has its quotes escaped.
    let read = serde_json::from_str(list);
    let read = read.or_else(|_| serde_json::from_str(&list.replace("\\\"", "\"")));
    read.unwrap_or_default()
}

impl<'de> Deserialize<'de> for RecordedNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = RecordedNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RecordedNode, M::Error> {
        let mut node = RecordedNode::default();
        while let Some(key) = map.next_key::<String>()? {
            // Inputs follow the name; those of other operators are not needed.
            let is_needed = node.name.is_empty()
                || node.name == CALL
                || node.name.contains("process_group:init");
            match key.as_str() {
                "id" => node.id = map.next_value()?,
                "name" => node.name = map.next_value()?,
                "inputs" if is_needed => {
                    let value: Value = map.next_value()?;
                    match value {
                        // From schema 1.0.2 on values, shapes and types are together.
                        Value::Object(mut fields) => {
                            node.inputs = fields.remove("values").unwrap_or_default();
                            node.types = fields.remove("types").unwrap_or_default();
                        }
                        list => node.inputs = list,
                    }
                }
                "input_types" if is_needed => node.types = map.next_value()?,
                "attrs" if is_needed => {
                    let all: Vec<NamedValue> = map.next_value()?;
                    node.attributes = all.into_iter().map(|it| (it.name, it.value)).collect();
                }
                "cat" => node.category = map.next_value()?,
                "inclusive_dur" => {
                    let time: Option<f64> = map.next_value()?;
                    node.time_us = time
                        .filter(|it| (0.0..=MOST_US).contains(it))
                        .unwrap_or(0.0);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(node)
    }
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    #[serde(default)]
    value: Value,
}
