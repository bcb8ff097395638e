//! Answers as JSON: each kind has a name, a version and a schema.

#[cfg(feature = "schema")]
mod schema;

use std::fmt::Display;

use pages::Page;
use serde::{Serialize, Serializer};

#[cfg(feature = "schema")]
pub use schema::{Described, questions, schema};

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

    /// Its page, where every program shows the same.
    fn as_page(&self) -> Option<Page> {
        None
    }
}

/// What a program that asks in JSON gets.
#[derive(Debug)]
pub struct Answered {
    /// The answer as JSON in one line.
    pub json: String,
    /// Its page, if it has one.
    pub page: Option<Page>,
}

impl Answered {
    /// An answer with its page.
    ///
    /// # Errors
    /// It cannot be written; a sentence.
    pub fn of<R: Report>(answer: &R) -> Result<Self, String> {
        Ok(Self {
            json: line(answer).map_err(|why| why.to_string())?,
            page: answer.as_page(),
        })
    }

    /// JSON of another origin.
    pub const fn plain(json: String) -> Self {
        Self { json, page: None }
    }

    /// The answer with its page under the key `page`.
    ///
    /// # Errors
    /// The page cannot be written; a sentence.
    pub fn with_page(self) -> Result<String, String> {
        let Some(page) = self.page else {
            return Ok(self.json);
        };
        let page = serde_json::to_string(&page).map_err(|why| why.to_string())?;
        match self.json.strip_suffix('}') {
            Some(fields) => Ok(format!("{fields},\"page\":{page}}}")),
            None => Ok(self.json),
        }
    }
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

/// Writes the text that people read: for types whose own form in JSON is another.
pub(crate) fn as_text<T: Display, S: Serializer>(it: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(it)
}
