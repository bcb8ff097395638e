//! The schemas of reports.

use std::borrow::Cow;

pub use schemars::JsonSchema as Described;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{Report, ReportWithHead};
use crate::file_question::FileQuestion;
use crate::question::Question;
use crate::request::JobRequest;

impl<R: Report> JsonSchema for ReportWithHead<'_, R> {
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

/// What programs ask in JSON.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Questions {
    /// A job.
    job: JobRequest,
    /// A question about a planned job.
    of_job: Question,
    /// A question about files.
    of_files: FileQuestion,
}

/// The schema of a kind of JSON.
pub fn schema<R: Report>() -> String {
    text::<ReportWithHead<'_, R>>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of all questions: of a job, and of what is asked about jobs and files.
pub fn questions() -> String {
    text::<Questions>(SchemaSettings::draft2020_12().for_deserialize())
}

fn text<T: JsonSchema>(settings: SchemaSettings) -> String {
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    // The order must not depend on the features of serde_json that other crates enable.
    schema.sort_all_objects();
    format!("{schema:#}\n")
}
