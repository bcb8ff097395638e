//! The JSON that commands print: each kind has a name, a version and a schema.

use std::borrow::Cow;

use anyhow::Result;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use crate::matrix::MatrixReport;
use crate::output::{self, Output};

/// A kind of JSON that a command prints.
pub trait Report: Serialize + JsonSchema {
    /// Its name, as in `"format": "topo-matrix"`.
    const FORMAT: &'static str;
    /// Its version. It rises when a field disappears or changes its meaning.
    const VERSION: u32;
}

/// A report below its head.
#[derive(Serialize)]
struct Headed<'a, R> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    body: &'a R,
}

impl<R: Report> JsonSchema for Headed<'_, R> {
    fn schema_name() -> Cow<'static, str> {
        R::FORMAT.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = R::json_schema(generator);
        let head = [
            ("format", json_schema!({ "const": R::FORMAT })),
            ("version", json_schema!({ "const": R::VERSION })),
        ];
        let object = schema.ensure_object();
        for (name, value) in head {
            let mut add =
                |to: &str, value: Value, empty: Value| match object.entry(to).or_insert(empty) {
                    Value::Object(properties) => {
                        properties.insert(name.to_owned(), value);
                    }
                    Value::Array(names) => names.push(value),
                    _ => {}
                };
            add(
                "properties",
                value.to_value(),
                Value::Object(serde_json::Map::new()),
            );
            add("required", name.into(), Value::Array(Vec::new()));
        }
        schema
    }
}

/// A report as indented JSON with a line end.
pub fn json<R: Report>(report: &R) -> Result<String> {
    output::json(&Headed {
        format: R::FORMAT,
        version: R::VERSION,
        body: report,
    })
}

/// The schema of each kind of JSON, by its name without `topo-`.
const SCHEMAS: [(&str, fn() -> String); 2] = [
    ("matrix", schema_of::<MatrixReport>),
    ("plan", plan::schema),
];

fn schema_of<R: Report>() -> String {
    let mut schema = schemars::schema_for!(Headed<'_, R>).to_value();
    // The order must not depend on the features of serde_json that other crates enable.
    schema.sort_all_objects();
    format!("{schema:#}\n")
}

/// The names of all kinds.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|(name, _)| *name)
}

/// `topo schema`: prints the schema of a kind, or the names of all.
pub fn schema(name: Option<&str>, output: &mut Output) {
    let found = SCHEMAS.iter().find(|(known, _)| Some(*known) == name);
    output.text = match found {
        Some((_, schema)) => schema(),
        None => names().map(|name| format!("{name}\n")).collect(),
    };
}
