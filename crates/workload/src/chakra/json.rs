//! The JSON forms: what PyTorch's observer writes, one object with a list of nodes, and what
//! Chakra's jsonizer writes, an object for each message of the protobuf form.
//!
//! Both are read in pieces: memory grows with what is kept of nodes only.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::node::Trace;
use super::protobuf::{Attribute, Node, Nodes};
use super::pytorch::{RecordedNode, Recorder};
use crate::error::WorkloadError;

/// Longest node, bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Names of the fields that such a file begins with.
const FIELDS: [&str; 5] = ["schema", "nodes", "pid", "attr", "version"];

/// Whether a text is the beginning of such a trace: an object whose first field is one of theirs.
pub fn is_one(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    let field = inside.and_then(|it| it.strip_prefix('"')?.split_once('"'));
    field.is_some_and(|(name, _)| FIELDS.contains(&name))
}

/// Reads a trace. `file` is its name in errors.
///
/// # Errors
/// It is no such trace, or has more nodes than are kept.
pub fn read(file: &str, input: impl Read) -> Result<Trace, WorkloadError> {
    let left = Rc::new(Cell::new(MOST_BYTES));
    let input = Limited {
        input,
        left: Rc::clone(&left),
    };
    let mut reader = serde_json::Deserializer::from_reader(input);
    let wrong = |error: serde_json::Error| {
        let why = format!("{error}; expected an execution trace of Chakra or PyTorch (JSON)");
        WorkloadError::new(file, error.line() as u64, why)
    };
    let mut first = First {
        left: &left,
        schema: None,
        recorder: None,
    };
    (&mut first).deserialize(&mut reader).map_err(wrong)?;
    let First {
        schema, recorder, ..
    } = first;
    if let Some(recorder) = recorder {
        reader.end().map_err(wrong)?;
        return Ok(Trace {
            schema,
            ..recorder.finish()
        });
    }
    let mut nodes = Nodes::default();
    nodes.schema(schema);
    let mut number = 1;
    left.set(MOST_BYTES);
    for node in reader.into_iter::<Node>() {
        left.set(MOST_BYTES);
        number += 1;
        let added = nodes.add(node.map_err(wrong)?);
        added.map_err(|why| WorkloadError::new(file, number, why))?;
    }
    nodes
        .finish()
        .map_err(|why| WorkloadError::new(file, number, why))
}

/// An input of which one node is at most so long.
struct Limited<R> {
    input: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        match self.left.get().checked_sub(read as u64) {
            Some(left) => self.left.set(left),
            None => {
                let why = format!("a node of more than {MOST_BYTES} bytes; expected a shorter one");
                return Err(io::Error::other(why));
            }
        }
        Ok(read)
    }
}

/// The first object.
struct First<'a> {
    left: &'a Cell<u64>,
    schema: Option<String>,
    recorder: Option<Recorder>,
}

impl<'de> DeserializeSeed<'de> for &mut First<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut First<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an execution trace")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "schema" | "version" => self.schema = Some(map.next_value()?),
                "nodes" => {
                    let recorder = self.recorder.get_or_insert_with(Recorder::default);
                    map.next_value_seed(List {
                        left: self.left,
                        recorder,
                    })?;
                }
                "attr" => {
                    let all: Vec<Attribute> = map.next_value()?;
                    let schema = all.into_iter().find_map(Attribute::schema);
                    self.schema = schema.or(self.schema.take());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            self.left.set(MOST_BYTES);
        }
        Ok(())
    }
}

/// The nodes of PyTorch's form.
struct List<'a> {
    left: &'a Cell<u64>,
    recorder: &'a mut Recorder,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut nodes: S) -> Result<(), S::Error> {
        while let Some(node) = nodes.next_element::<RecordedNode>()? {
            self.left.set(MOST_BYTES);
            self.recorder.add(node).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}
