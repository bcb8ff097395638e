//! Takes values from a pickle.

use std::cell::Cell;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{MOST_TAKEN, Object, PickleError, Step, VALUE, Value};
use crate::evidence::bounded::MOST_TEXT;

/// A value with what it refers to.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    pub(super) objects: &'a [Object<'a>],
    pub(super) value: Value,
    pub(super) taken: &'a Cell<usize>,
}

impl<'a> Node<'a> {
    const fn at(self, value: Value) -> Self {
        Self { value, ..self }
    }

    /// Counts a value, which may be taken again wherever the pickle refers to it.
    fn take(self, text: &str) -> Step<()> {
        let bytes = VALUE + text.len().min(MOST_TEXT);
        self.taken.set(self.taken.get().saturating_add(bytes));
        match self.taken.get() > MOST_TAKEN {
            true => Err(PickleError::TooLarge),
            false => Ok(()),
        }
    }
}

impl<'de> IntoDeserializer<'de, PickleError> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = PickleError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        self.take("")?;
        let number = match self.value {
            Value::None => return visitor.visit_unit(),
            Value::Bool(value) => return visitor.visit_bool(value),
            Value::Int(value) => return visitor.visit_i64(value),
            Value::Float(value) => return visitor.visit_f64(value),
            Value::Object(number) => number,
        };
        match self.objects.get(number as usize) {
            Some(Object::Text(text)) => {
                self.take(text)?;
                visitor.visit_borrowed_str(text)
            }
            Some(Object::List(items)) => {
                let items = items.iter().map(|it| self.at(*it));
                visitor.visit_seq(SeqDeserializer::new(items))
            }
            Some(Object::Dictionary(items)) => {
                let items = items
                    .iter()
                    .map(|(key, value)| (self.at(*key), self.at(*value)));
                visitor.visit_map(MapDeserializer::new(items))
            }
            Some(Object::Global(_)) | None => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        match self.value {
            Value::None => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PickleError> {
        self.take("")?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}
