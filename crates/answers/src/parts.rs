//! Structs side by side in one object of JSON. Serde's `flatten` compiles each of them for every
//! format, which a page cannot afford, and does not refuse unknown fields.

use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

/// An object whose fields are of several structs.
pub(crate) struct Parts<'m> {
    fields: &'m Map<String, Value>,
    /// The fields of the structs that were read.
    known: Vec<&'static str>,
}

impl<'m> Parts<'m> {
    pub(crate) const fn new(fields: &'m Map<String, Value>) -> Self {
        Self {
            fields,
            known: Vec::new(),
        }
    }

    /// Reads a struct from its fields.
    ///
    /// # Errors
    /// A field is missing or of another type.
    pub(crate) fn part<T: Deserialize<'m>>(&mut self) -> Result<T, serde_json::Error> {
        T::deserialize(Part(self))
    }

    /// Refuses fields of no struct.
    ///
    /// # Errors
    /// There is one.
    pub(crate) fn finish(self) -> Result<(), serde_json::Error> {
        let mut names = self.fields.keys();
        match names.find(|it| !self.known.contains(&it.as_str())) {
            Some(name) => Err(Error::custom(format!(
                "unknown field `{name}`, expected one of {}",
                self.known.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

/// The fields of one struct.
struct Part<'p, 'm>(&'p mut Parts<'m>);

impl<'de> Deserializer<'de> for Part<'_, 'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let known = &self.0.known;
        let own = self.0.fields.iter();
        let own = own.filter(|(name, _)| known.contains(&name.as_str()));
        visitor.visit_map(MapDeserializer::new(
            own.map(|(name, it)| (name.as_str(), it)),
        ))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.known.extend(fields);
        let own = self.0.fields.iter();
        let own = own.filter(|(name, _)| fields.contains(&name.as_str()));
        visitor.visit_map(MapDeserializer::new(
            own.map(|(name, it)| (name.as_str(), it)),
        ))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
