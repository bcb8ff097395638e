//! Values that Python's pickle format holds, protocols 0 to 5.
//!
//! Nothing is executed. A pickle that calls a function is refused with the function's name, except
//! for lists that PyTorch's C++ writer marks with the type of their elements.

mod node;

use std::borrow::Cow;
use std::cell::Cell;

pub use node::Node;
use rustc_hash::FxHashMap;

/// Largest pickle, bytes.
pub const MOST_BYTES: usize = 32 << 20;

/// Most lists, texts and dictionaries; most values in them; most values on the stack.
const MOST_OBJECTS: usize = 1 << 20;
const MOST_VALUES: usize = 1 << 22;
const MOST_STACK: usize = 1 << 20;

/// Most bytes of all values that are taken from a pickle, with those that it refers to again:
/// [`VALUE`] for each and the bytes of its text that are kept.
const MOST_TAKEN: usize = 256 << 20;
const VALUE: usize = 16;

/// Why a pickle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// It ends inside a value.
    #[error("the pickle ends early, at byte {0}")]
    Ends(usize),
    /// An opcode does not fit its place.
    #[error("byte {at} (0x{opcode:02x}) does not fit there; expected a pickle of protocol 0 to 5")]
    Misplaced {
        /// Place of the opcode, bytes.
        at: usize,
        /// The opcode.
        opcode: u8,
    },
    /// It calls a function or makes an object.
    #[error("the pickle calls `{0}`; a flight recorder has values only, and nothing was executed")]
    Calls(String),
    /// It holds more than is kept.
    #[error("the pickle holds more than {MOST_VALUES} values or {} MB", MOST_BYTES >> 20)]
    TooLarge,
    /// The values are not those of a flight recorder.
    #[error("{0}")]
    Shape(String),
}

impl serde::de::Error for PickleError {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self::Shape(text.to_string())
    }
}

/// A value. Objects are numbers, so that values that contain themselves do no harm.
#[derive(Debug, Clone, Copy)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Object(u32),
}

/// A value with others in it.
#[derive(Debug)]
enum Object<'a> {
    Text(Cow<'a, str>),
    List(Vec<Value>),
    Dictionary(Vec<(Value, Value)>),
    /// A function or class, by module and name.
    Global(String),
}

/// The values of a pickle.
#[derive(Debug)]
pub struct Pickle<'a> {
    objects: Vec<Object<'a>>,
    root: Value,
    /// Bytes of values that were taken.
    taken: Cell<usize>,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle.
    ///
    /// # Errors
    /// It is damaged, too large, or calls a function.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        if bytes.len() > MOST_BYTES {
            return Err(PickleError::TooLarge);
        }
        let mut machine = Machine {
            bytes,
            at: 0,
            objects: Vec::new(),
            values: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: FxHashMap::default(),
        };
        let root = machine.run()?;
        Ok(Self {
            objects: machine.objects,
            root,
            taken: Cell::new(0),
        })
    }

    /// The outermost value.
    pub const fn root(&self) -> Node<'_> {
        Node {
            objects: self.objects.as_slice(),
            value: self.root,
            taken: &self.taken,
        }
    }
}

/// Reads opcodes.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    objects: Vec<Object<'a>>,
    /// Values in all objects.
    values: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: FxHashMap<u64, Value>,
}

type Step<T> = Result<T, PickleError>;

impl<'a> Machine<'a> {
    fn run(&mut self) -> Step<Value> {
        loop {
            let at = self.at;
            let opcode = self.take(1)?[0];
            if opcode == b'.' {
                return self.pop(at, opcode);
            }
            if self.stack.len() > MOST_STACK || self.marks.len() > MOST_STACK {
                return Err(PickleError::TooLarge);
            }
            match opcode {
                // The protocol's version, and lengths of frames.
                0x80 => _ = self.take(1)?,
                0x95 => _ = self.take(8)?,
                b'(' => self.marks.push(self.stack.len()),
                b'0' => _ = self.pop(at, opcode)?,
                b'1' => _ = self.marked(at, opcode)?,
                b'2' => {
                    let top = self.top(at, opcode)?;
                    self.stack.push(top);
                }
                b'N' => self.stack.push(Value::None),
                0x88 | 0x89 => self.stack.push(Value::Bool(opcode == 0x88)),
                b'I' | b'L' | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'F' | b'G' => {
                    let number = self.number(at, opcode)?;
                    self.stack.push(number);
                }
                b'S' | b'V' | b'T' | b'U' | b'X' | b'B' | b'C' | 0x8c | 0x8d | 0x8e | 0x96 => {
                    let text = self.text(opcode)?;
                    self.push(Object::Text(text))?;
                }
                b']' | b')' | 0x8f => self.push(Object::List(Vec::new()))?,
                b'}' => self.push(Object::Dictionary(Vec::new()))?,
                b'l' | b't' | 0x91 => {
                    let items = self.marked(at, opcode)?;
                    self.push(Object::List(items))?;
                }
                0x85..=0x87 => {
                    let count = usize::from(opcode - 0x84);
                    let from = self.stack.len().checked_sub(count);
                    let from = from.ok_or(PickleError::Misplaced { at, opcode })?;
                    let items = self.stack.split_off(from);
                    self.push(Object::List(items))?;
                }
                b'd' => {
                    let items = self.marked(at, opcode)?;
                    self.push(Object::Dictionary(pairs(&items)))?;
                }
                b'a' | b's' | b'e' | b'u' | 0x90 => self.extend(at, opcode)?,
                b'p' | b'q' | b'r' | 0x94 => self.remember(at, opcode)?,
                b'g' | b'h' | b'j' => {
                    let key = self.key(opcode)?;
                    let value = self.memo.get(&key).copied();
                    let value = value.ok_or(PickleError::Misplaced { at, opcode })?;
                    self.stack.push(value);
                }
                _ => self.global(at, opcode)?,
            }
        }
    }

    /// Functions and classes: named, never called.
    fn global(&mut self, at: usize, opcode: u8) -> Step<()> {
        match opcode {
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let name = format!("{}.{}", lossy(module), lossy(name));
                self.push(Object::Global(name.chars().take(200).collect()))
            }
            0x93 => {
                let (name, module) = (self.pop(at, opcode)?, self.pop(at, opcode)?);
                let name = format!("{}.{}", self.words(module), self.words(name));
                self.push(Object::Global(name.chars().take(200).collect()))
            }
            b'R' => {
                let (arguments, function) = (self.pop(at, opcode)?, self.pop(at, opcode)?);
                let name = self.words(function);
                let name = name.strip_prefix("torch.jit._pickle.build_");
                let typed = matches!(name, Some("intlist" | "doublelist" | "boollist"));
                match self.object(arguments) {
                    Some(Object::List(items)) if typed && items.len() == 1 => {
                        let list = items[0];
                        self.stack.push(list);
                        Ok(())
                    }
                    _ => Err(PickleError::Calls(self.words(function))),
                }
            }
            b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                let name = format!("{}.{}", lossy(module), lossy(name));
                Err(PickleError::Calls(name.chars().take(200).collect()))
            }
            // NEWOBJ, NEWOBJ_EX, BUILD, OBJ: the class is the first value below the arguments.
            0x81 | 0x92 | b'b' | b'o' => {
                let mut globals = self.stack.iter().rev().map(|it| self.words(*it));
                let name = globals.find(|name| !name.is_empty());
                Err(PickleError::Calls(
                    name.unwrap_or_else(|| "an object".to_owned()),
                ))
            }
            b'P' | b'Q' => Err(PickleError::Calls("a persistent id".to_owned())),
            0x82..=0x84 => Err(PickleError::Calls("an extension".to_owned())),
            _ => Err(PickleError::Misplaced { at, opcode }),
        }
    }

    /// The name of a function, or a text.
    fn words(&self, value: Value) -> String {
        match self.object(value) {
            Some(Object::Global(name)) => name.clone(),
            Some(Object::Text(text)) => text.chars().take(100).collect(),
            _ => String::new(),
        }
    }

    fn object(&self, value: Value) -> Option<&Object<'a>> {
        match value {
            Value::Object(number) => self.objects.get(number as usize),
            _ => None,
        }
    }

    fn push(&mut self, object: Object<'a>) -> Step<()> {
        self.values += match &object {
            Object::List(items) => items.len(),
            Object::Dictionary(items) => 2 * items.len(),
            Object::Text(_) | Object::Global(_) => 0,
        };
        let number = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        if self.objects.len() >= MOST_OBJECTS || self.values > MOST_VALUES {
            return Err(PickleError::TooLarge);
        }
        self.objects.push(object);
        self.stack.push(Value::Object(number));
        Ok(())
    }

    /// Appends values to the list or dictionary below them.
    fn extend(&mut self, at: usize, opcode: u8) -> Step<()> {
        let wrong = PickleError::Misplaced { at, opcode };
        let items = match opcode {
            b'a' => vec![self.pop(at, opcode)?],
            b's' => {
                let value = self.pop(at, opcode)?;
                vec![self.pop(at, opcode)?, value]
            }
            _ => self.marked(at, opcode)?,
        };
        self.values += items.len();
        if self.values > MOST_VALUES {
            return Err(PickleError::TooLarge);
        }
        let Value::Object(number) = self.top(at, opcode)? else {
            return Err(wrong);
        };
        match (self.objects.get_mut(number as usize), opcode) {
            (Some(Object::List(list)), b'a' | b'e' | 0x90) => list.extend(items),
            (Some(Object::Dictionary(all)), b's' | b'u') => all.extend(pairs(&items)),
            _ => return Err(wrong),
        }
        Ok(())
    }

    fn remember(&mut self, at: usize, opcode: u8) -> Step<()> {
        let key = match opcode {
            0x94 => self.memo.len() as u64,
            _ => self.key(opcode)?,
        };
        if self.memo.len() >= MOST_OBJECTS {
            return Err(PickleError::TooLarge);
        }
        let top = self.top(at, opcode)?;
        self.memo.insert(key, top);
        Ok(())
    }

    /// The number under which a value is remembered.
    fn key(&mut self, opcode: u8) -> Step<u64> {
        Ok(match opcode {
            b'p' | b'g' => {
                let at = self.at;
                let line = self.line()?;
                let key = lossy(line).trim().parse();
                key.map_err(|_| PickleError::Misplaced { at, opcode })?
            }
            b'q' | b'h' => self.length(1)? as u64,
            _ => self.length(4)? as u64,
        })
    }

    fn number(&mut self, at: usize, opcode: u8) -> Step<Value> {
        let wrong = PickleError::Misplaced { at, opcode };
        Ok(match opcode {
            b'I' | b'L' => match lossy(self.line()?).trim().trim_end_matches('L') {
                "00" if opcode == b'I' => Value::Bool(false),
                "01" if opcode == b'I' => Value::Bool(true),
                digits => Value::Int(digits.parse().map_err(|_| wrong)?),
            },
            b'J' => Value::Int(signed(self.take(4)?)),
            b'K' => Value::Int(self.length(1)? as i64),
            b'M' => Value::Int(self.length(2)? as i64),
            b'F' => Value::Float(lossy(self.line()?).trim().parse().map_err(|_| wrong)?),
            b'G' => {
                let bytes = self.take(8)?;
                Value::Float(f64::from_be_bytes(bytes.try_into().map_err(|_| wrong)?))
            }
            _ => {
                let length = self.length(if opcode == 0x8a { 1 } else { 4 })?;
                match self.take(length)? {
                    bytes if bytes.len() <= 8 => Value::Int(signed(bytes)),
                    // More than 64 bits: no number of a recorder.
                    _ => Value::None,
                }
            }
        })
    }

    fn text(&mut self, opcode: u8) -> Step<Cow<'a, str>> {
        let bytes = match opcode {
            b'S' => {
                let line = self.line()?;
                let quote = |it: &u8| matches!(it, b'\'' | b'"');
                match line {
                    [first, inner @ .., last] if quote(first) && first == last => inner,
                    _ => line,
                }
            }
            b'V' => self.line()?,
            _ => {
                let width = match opcode {
                    b'U' | b'C' | 0x8c => 1,
                    0x8d | 0x8e | 0x96 => 8,
                    _ => 4,
                };
                let length = self.length(width)?;
                self.take(length)?
            }
        };
        Ok(String::from_utf8_lossy(bytes))
    }

    /// An unsigned number of some bytes.
    fn length(&mut self, width: usize) -> Step<usize> {
        let bytes = self.take(width)?;
        let number = bytes
            .iter()
            .rev()
            .fold(0_u64, |all, it| all << 8 | u64::from(*it));
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn take(&mut self, count: usize) -> Step<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(PickleError::Ends(self.at))?;
        self.at += count;
        Ok(taken)
    }

    /// The bytes before the next line end.
    fn line(&mut self) -> Step<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|it| *it == b'\n');
        let end = end.ok_or(PickleError::Ends(self.at))?;
        self.at += end + 1;
        Ok(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }

    fn top(&self, at: usize, opcode: u8) -> Step<Value> {
        let top = self.stack.last().copied();
        top.ok_or(PickleError::Misplaced { at, opcode })
    }

    fn pop(&mut self, at: usize, opcode: u8) -> Step<Value> {
        self.stack
            .pop()
            .ok_or(PickleError::Misplaced { at, opcode })
    }

    /// The values above the last mark.
    fn marked(&mut self, at: usize, opcode: u8) -> Step<Vec<Value>> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        let mark = mark.ok_or(PickleError::Misplaced { at, opcode })?;
        Ok(self.stack.split_off(mark))
    }
}

fn pairs(items: &[Value]) -> Vec<(Value, Value)> {
    items.chunks_exact(2).map(|it| (it[0], it[1])).collect()
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A signed number of at most 8 bytes, the lowest first.
fn signed(bytes: &[u8]) -> i64 {
    let mut wide = match bytes.last() {
        Some(last) if last & 0x80 != 0 => [0xff; 8],
        _ => [0; 8],
    };
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}
