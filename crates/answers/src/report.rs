//! Answers as JSON: each kind has a name, a version and a schema.

#[cfg(feature = "schema")]
mod schema;

use serde::Serialize;

#[cfg(feature = "schema")]
pub use schema::{Described, schema};

/// What has a schema, in builds that make schemas.
#[cfg(not(feature = "schema"))]
pub trait Described {}

#[cfg(not(feature = "schema"))]
impl<T: ?Sized> Described for T {}

/// An answer as JSON.
pub trait Report: Serialize + Described {
    /// Its name, as in `"format": "topo-matrix"`.
    const FORMAT: &'static str;
    /// Its version. It rises when a field disappears or changes its meaning.
    const VERSION: u32;
}

/// A report below its head.
#[derive(Serialize)]
struct ReportWithHead<'a, R> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    body: &'a R,
}

impl<'a, R: Report> ReportWithHead<'a, R> {
    const fn of(report: &'a R) -> Self {
        Self {
            format: R::FORMAT,
            version: R::VERSION,
            body: report,
        }
    }
}

/// A report as indented JSON with a line end.
///
/// # Errors
/// A value has no JSON.
pub fn json<R: Report>(report: &R) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&ReportWithHead::of(report))? + "\n")
}

/// A report as JSON in one line.
///
/// # Errors
/// A value has no JSON.
pub fn line<R: Report>(report: &R) -> serde_json::Result<String> {
    serde_json::to_string(&ReportWithHead::of(report))
}
