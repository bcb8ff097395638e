//! Reading cost profiles, strictly: a mistyped key or number must not silently change a prediction.

use plan::NcclVersion;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::profile::{CostProfile, FORMAT};

/// Keys less alike than this are not offered.
const LIKENESS: f64 = 0.7;

/// Keys that are divided by.
const DIVISORS: [&str; 2] = ["efficiency.tree-ll-divisor", "latency.pat-overlap"];

/// A key that files of before 2026-11 lack, and its value in them.
const ADDED: (&str, &str, f64) = ("efficiency", "ring-simple", 1.0);

/// Why a file is no cost profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostProfileError {
    /// The text is no TOML.
    #[error("{file}: {message}; expected a cost profile in TOML")]
    Syntax {
        /// The file.
        file: String,
        /// What the parser says, with the place.
        message: String,
    },
    /// The format is another one.
    #[error("{place}: format {found} cannot be read; expected {FORMAT}")]
    Format {
        /// The file and line.
        place: String,
        /// The format it states.
        found: String,
    },
    /// A key that profiles do not have.
    #[error("{place}: a cost profile has no key `{key}`{}", suggestion(.nearest))]
    UnknownKey {
        /// The file and line.
        place: String,
        /// The key with those above it.
        key: String,
        /// The known key most like it.
        nearest: Option<String>,
    },
    /// A key that must be there.
    #[error("{place}: `{key}` is missing; expected {expected}")]
    MissingKey {
        /// The file, and the line of the table that lacks it.
        place: String,
        /// The key with those above it.
        key: String,
        /// What its value should be.
        expected: String,
    },
    /// A value that cannot be used.
    #[error("{place}: `{key}` is {found}; expected {expected}")]
    BadValue {
        /// The file and line.
        place: String,
        /// The key with those above it.
        key: String,
        /// The value.
        found: String,
        /// What it should be.
        expected: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

impl CostProfile {
    /// Writes the profile as TOML, which [`CostProfile::from_toml`] reads.
    ///
    /// # Errors
    /// A number is not finite.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Reads a profile from TOML; `file` is its name for messages.
    ///
    /// # Errors
    /// It is no cost profile.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, CostProfileError> {
        let syntax = |error: toml::de::Error| CostProfileError::Syntax {
            file: file.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        };
        let table = text.parse::<toml::Table>().map_err(syntax)?;
        let spans = DeTable::parse(text).map_err(syntax)?.into_inner();
        let reader = Reader { file, text, spans };
        reader.profile(reader.convert("", toml::Value::Table(table))?)
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each key stands.
    spans: DeTable<'a>,
}

fn join(outer: &str, key: &str) -> String {
    if outer.is_empty() {
        key.to_owned()
    } else {
        format!("{outer}.{key}")
    }
}

/// Describes the type of a value.
fn kind(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(values) => format!("a list of {} numbers", values.len()),
        Value::String(_) => "a text".to_owned(),
        Value::Number(number) if number.is_u64() => {
            "a whole number from 0 to 2147483647".to_owned()
        }
        _ => "a finite number that is not negative".to_owned(),
    }
}

impl Reader<'_> {
    /// The file with the line of a key, or of the deepest table around it that is there.
    fn place(&self, key: &str) -> String {
        let mut table = Some(&self.spans);
        let mut start = None;
        for name in key.split(['.', '[']) {
            let found = table.and_then(|table| {
                table
                    .iter()
                    .find(|(known, _)| known.get_ref().as_ref() == name)
            });
            let Some((name, value)) = found else { break };
            start = Some(Spanned::span(name).start);
            table = match value.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
        }
        let Some(start) = start else {
            return self.file.to_owned();
        };
        let before = self.text.as_bytes().iter().take(start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.file)
    }

    fn bad(&self, key: &str, found: String, expected: String) -> CostProfileError {
        CostProfileError::BadValue {
            place: self.place(key),
            key: key.to_owned(),
            found,
            expected,
        }
    }

    /// Refuses values that TOML has and JSON has not; no profile uses them.
    fn convert(&self, key: &str, value: toml::Value) -> Result<Value, CostProfileError> {
        Ok(match value {
            toml::Value::String(text) => Value::String(text),
            toml::Value::Integer(number) => Value::from(number),
            toml::Value::Boolean(flag) => Value::Bool(flag),
            toml::Value::Datetime(time) => Value::String(time.to_string()),
            toml::Value::Float(number) => {
                let finite = serde_json::Number::from_f64(number);
                let expected = "a finite number that is not negative";
                Value::Number(
                    finite.ok_or_else(|| self.bad(key, number.to_string(), expected.to_owned()))?,
                )
            }
            toml::Value::Array(values) => {
                let values = values.into_iter().enumerate();
                let values =
                    values.map(|(index, value)| self.convert(&format!("{key}[{index}]"), value));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            toml::Value::Table(table) => {
                let mut map = Map::new();
                for (name, value) in table {
                    let value = self.convert(&join(key, &name), value)?;
                    map.insert(name, value);
                }
                Value::Object(map)
            }
        })
    }

    fn profile(&self, mut value: Value) -> Result<CostProfile, CostProfileError> {
        let syntax = |error: serde_json::Error| CostProfileError::Syntax {
            file: self.file.to_owned(),
            message: error.to_string(),
        };
        // Another format may have other keys, so it is looked at first.
        match value.get("format") {
            Some(format) if format.as_u64() != Some(u64::from(FORMAT)) => {
                return Err(CostProfileError::Format {
                    place: self.place("format"),
                    found: format.to_string(),
                });
            }
            _ => {}
        }
        let (section, key, usual) = ADDED;
        if let Some(section) = value.get_mut(section).and_then(Value::as_object_mut) {
            section.entry(key).or_insert_with(|| usual.into());
        }
        let model = serde_json::to_value(CostProfile::of(NcclVersion::NEWEST)).map_err(syntax)?;
        self.check("", &value, &model, &model)?;
        serde_json::from_value(value).map_err(syntax)
    }

    /// Compares a value with the one that the built-in profile has in its place.
    fn check(
        &self,
        key: &str,
        value: &Value,
        model: &Value,
        whole: &Value,
    ) -> Result<(), CostProfileError> {
        let wrong = || {
            let key = if key.is_empty() { "the file" } else { key };
            self.bad(key, value.to_string(), kind(model))
        };
        match (model, value) {
            (Value::Object(model), Value::Object(map)) => {
                if let Some(name) = map.keys().find(|name| !model.contains_key(*name)) {
                    let unknown = join(key, name);
                    return Err(CostProfileError::UnknownKey {
                        place: self.place(&unknown),
                        key: unknown,
                        nearest: nearest(key, name, model, whole),
                    });
                }
                for (name, model) in model {
                    let key = join(key, name);
                    let value = map.get(name).ok_or_else(|| CostProfileError::MissingKey {
                        place: self.place(&key),
                        key: key.clone(),
                        expected: kind(model),
                    })?;
                    self.check(&key, value, model, whole)?;
                }
                Ok(())
            }
            (Value::Array(model), Value::Array(values)) => {
                if model.len() != values.len() {
                    return Err(wrong());
                }
                let pairs = model.iter().zip(values).enumerate();
                pairs.into_iter().try_for_each(|(index, (model, value))| {
                    self.check(&format!("{key}[{index}]"), value, model, whole)
                })
            }
            (Value::String(_), Value::String(_)) => Ok(()),
            (Value::Number(model), Value::Number(number)) => {
                let fits = if model.is_u64() {
                    number
                        .as_u64()
                        .is_some_and(|number| i32::try_from(number).is_ok())
                } else {
                    // The model computes in 32 bits.
                    number.as_f64().is_some_and(|number| {
                        number >= 0.0
                            && (number as f32).is_finite()
                            && (number > 0.0 || !DIVISORS.contains(&key))
                    })
                };
                if fits {
                    return Ok(());
                }
                if DIVISORS.contains(&key) && number.as_f64() == Some(0.0) {
                    let expected = "a number above 0, because it is divided by";
                    return Err(self.bad(key, number.to_string(), expected.to_owned()));
                }
                Err(wrong())
            }
            _ => Err(wrong()),
        }
    }
}

/// The known key most like an unknown one: on its own level, else anywhere.
fn nearest(outer: &str, name: &str, level: &Map<String, Value>, whole: &Value) -> Option<String> {
    let here = level
        .keys()
        .map(|key| (join(outer, key), key.clone()))
        .collect();
    closest(name, here).or_else(|| {
        let mut all = Vec::new();
        collect("", whole, &mut all);
        closest(name, all)
    })
}

fn closest(name: &str, keys: Vec<(String, String)>) -> Option<String> {
    keys.into_iter()
        .map(|(path, key)| (strsim::jaro_winkler(name, &key), path))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, path)| path)
}

fn collect(outer: &str, value: &Value, keys: &mut Vec<(String, String)>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        keys.push((join(outer, key), key.clone()));
        collect(&join(outer, key), value, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::built_in_toml;
    use super::*;

    fn message(from: &str, to: &str) -> String {
        let text = built_in_toml(NcclVersion::V2_30).replacen(from, to, 1);
        assert_ne!(text, built_in_toml(NcclVersion::V2_30), "{from}");
        match CostProfile::from_toml("x.toml", &text) {
            Ok(_) => "read".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, expected) in [
            (
                "pat-overlap",
                "pat-overlpa",
                "x.toml:137: a cost profile has no key `latency.pat-overlpa`; did you mean `latency.pat-overlap`?",
            ),
            (
                "[threads]",
                "[threds]",
                "x.toml:144: a cost profile has no key `threds`; did you mean `threads`?",
            ),
            (
                "format = 1",
                "format = 2",
                "x.toml:4: format 2 cannot be read; expected 1",
            ),
            (
                "pat-overlap = 3.5",
                "pat-overlap = 0",
                "x.toml:137: `latency.pat-overlap` is 0; expected a number above 0, because it is divided by",
            ),
            (
                "ring-ll = 0.5",
                "ring-ll = -0.5",
                "x.toml:98: `efficiency.ring-ll` is -0.5; expected a finite number that is not negative",
            ),
            (
                "ring-ll = 0.5",
                "ring-ll = nan",
                "x.toml:98: `efficiency.ring-ll` is NaN; expected a finite number that is not negative",
            ),
            (
                "ring-ll = 0.5",
                "ring-ll = 1e300",
                "x.toml:98: `efficiency.ring-ll` is 1e+300; expected a finite number that is not negative",
            ),
            (
                "ring-ll = 0.5",
                "ring-ll = \"fast\"",
                "x.toml:98: `efficiency.ring-ll` is \"fast\"; expected a finite number that is not negative",
            ),
            (
                "ring-ll = 0.5\n",
                "",
                "x.toml:97: `efficiency.ring-ll` is missing; expected a finite number that is not negative",
            ),
            (
                "[6.8, 14.0, 8.4]",
                "[6.8, 14.0]",
                "x.toml:19: `base-latency-us.tree` is [6.8,14.0]; expected a list of 3 numbers",
            ),
            (
                "simple = 512",
                "simple = 512.5",
                "x.toml:147: `threads.simple` is 512.5; expected a whole number from 0 to 2147483647",
            ),
        ] {
            assert_eq!(message(from, to), expected);
        }
        assert!(message("format = 1", "format = ").contains("line 4"));
    }

    #[test]
    fn files_of_before_are_read() {
        assert_eq!(message("ring-simple = 1.0\n", ""), "read");
    }

    #[test]
    fn whole_numbers_are_numbers_too() {
        assert_eq!(message("pat = [8.0, 8.0, 8.0]", "pat = [8, 8, 8]"), "read");
    }
}
