//! Plans as JSON: a head (format, version, checksum) and the plan itself.

use crate::JsonSchema;
use serde::Deserialize;
use serde_json::error::Category;

use crate::content::PlanContent;
use crate::digest::Digest;
use crate::error::{Error, excerpt};
use crate::plan::Plan;

/// The longest line, in characters, if the content can be broken.
const WIDTH: usize = 120;

/// Most characters of a refused text that an error shows.
const MOST_SHOWN: usize = 80;

/// The whole file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Plan of a communicator, as topo writes it")]
struct PlanFile {
    #[allow(dead_code, reason = "the head is checked before the rest is read")]
    format: FormatName,
    /// Version of the format. A reader that knows only lower ones must refuse the file.
    #[schemars(extend("const" = Plan::VERSION))]
    #[allow(dead_code, reason = "the head is checked before the rest is read")]
    version: u32,
    /// SHA-256 of `plan` as written in the file, without white space outside of strings.
    checksum: Digest,
    /// The plan.
    plan: PlanContent,
}

/// The name of the format.
#[derive(Deserialize, JsonSchema)]
enum FormatName {
    #[serde(rename = "topo-plan")]
    TopoPlan,
}

/// The head of a file of any version.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

/// The JSON of the plan alone, as it is hashed.
pub(crate) fn content(plan: &PlanContent) -> Result<String, Error> {
    serde_json::to_string(plan).map_err(|error| Error::Inconsistent {
        at: "plan".to_owned(),
        problem: error.to_string(),
    })
}

impl Plan {
    /// Writes the plan as JSON. Equal plans give equal bytes.
    ///
    /// # Errors
    /// A text of the plan has a control character.
    pub fn to_json(&self) -> Result<String, Error> {
        let content = content(self)?;
        check_texts(&content)?;
        let checksum = Digest::of(content.as_bytes());
        let (format, version) = (Self::FORMAT, Self::VERSION);
        let file = format!(
            r#"{{"format":"{format}","version":{version},"checksum":"{checksum}","plan":{content}}}"#
        );
        Ok(lay_out(&file))
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The text is no plan; or the plan is truncated, changed, contradictory or of an unknown
    /// version.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        check_head(text)?;
        let file: PlanFile = serde_json::from_str(text).map_err(|error| refuse(&error, text))?;
        let content = content(&file.plan)?;
        let found = Digest::of(content.as_bytes());
        if found != file.checksum {
            return Err(Error::Changed {
                stated: file.checksum,
                found,
            });
        }
        check_texts(&content)?;
        Self::new(file.plan)
    }

    /// SHA-256 of the plan's content. Equal plans have equal digests, so ranks can compare them.
    ///
    /// # Errors
    /// The plan cannot be written.
    pub fn digest(&self) -> Result<Digest, Error> {
        Ok(Digest::of(content(self)?.as_bytes()))
    }
}

/// The schema of a plan file, as pretty-printed JSON with a newline at the end.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(PlanFile).to_value();
    // The order must not depend on the features of serde_json that other crates enable.
    schema.sort_all_objects();
    let mut text = format!("{schema:#}");
    text.push('\n');
    text
}

/// Checks that no text of the plan has a control character, which could forge a line of another
/// file. JSON escapes most of them.
fn check_texts(content: &str) -> Result<(), Error> {
    let mut refused = None;
    each_token(content, |token| {
        if refused.is_none() && token.starts_with('"') && has_control(token) {
            let text = serde_json::from_str(token).unwrap_or_else(|_| token.to_owned());
            refused = Some(text);
        }
    });
    refused.map_or(Ok(()), |text| {
        let text = text.escape_debug().take(MOST_SHOWN).collect();
        Err(Error::ControlCharacter { text })
    })
}

fn has_control(string: &str) -> bool {
    let mut characters = string.chars();
    while let Some(character) = characters.next() {
        let escape = character == '\\' && !matches!(characters.next(), Some('"' | '\\'));
        if escape || character.is_control() {
            return true;
        }
    }
    false
}

/// Checks the head before the content, because another version may have other content.
fn check_head(text: &str) -> Result<(), Error> {
    if text.len() > Plan::MAX_BYTES {
        return Err(Error::TooLarge {
            bytes: text.len(),
            limit: Plan::MAX_BYTES,
        });
    }
    let start = text.trim_start();
    if !start.starts_with('{') {
        let found = if start.is_empty() {
            "an empty file".to_owned()
        } else {
            excerpt(start)
        };
        return Err(Error::NotAPlan { found });
    }
    let head: Head = match serde_json::from_str(text) {
        Ok(head) => head,
        Err(error) if error.classify() == Category::Data => {
            return Err(Error::NotAPlan {
                found: format!("a head that no plan has ({error})"),
            });
        }
        Err(error) => return Err(refuse(&error, text)),
    };
    match (head.format, head.version) {
        (Some(format), _) if format != Plan::FORMAT => Err(Error::NotAPlan {
            found: format!("`\"format\": {}`", excerpt(&format)),
        }),
        (None, _) => Err(Error::NotAPlan {
            found: "JSON without `\"format\"`".to_owned(),
        }),
        (_, None) => Err(Error::NotAPlan {
            found: "JSON without `\"version\"`".to_owned(),
        }),
        (_, Some(version)) if version > u64::from(Plan::VERSION) => {
            Err(Error::NewerVersion { version })
        }
        (_, Some(version)) if version < u64::from(Plan::VERSION) => {
            Err(Error::UnknownVersion { version })
        }
        _ => Ok(()),
    }
}

fn refuse(error: &serde_json::Error, text: &str) -> Error {
    let (line, column) = (error.line(), error.column());
    // serde_json calls a truncated number (`25.`) a wrong number.
    let at_end = !text.ends_with('\n')
        && text
            .lines()
            .next_back()
            .is_some_and(|last| column >= last.len())
        && text.lines().count() == line;
    // serde_json puts the position at the end of its message; our messages begin with it.
    let message = error.to_string();
    let problem = message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    match error.classify() {
        Category::Eof => Error::Truncated { line, column },
        Category::Syntax if at_end => Error::Truncated { line, column },
        Category::Data => Error::Malformed {
            line,
            column,
            problem,
        },
        Category::Syntax | Category::Io => Error::Syntax {
            line,
            column,
            problem,
        },
    }
}

/// The layout of one object or array.
#[derive(Clone, Copy)]
struct Container {
    /// Its length on one line.
    width: usize,
    /// It must be on several lines.
    tall: bool,
}

/// Breaks compact JSON into lines so that a GPU, a channel or a hop is one line of a diff.
///
/// A container that fits on a line stays on one. A list of containers has one per line.
fn lay_out(compact: &str) -> String {
    let containers = measure(compact);
    let mut next = containers.iter();
    let mut text = String::with_capacity(compact.len() * 2);
    let mut line_start = 0;
    // Whether each open container is on several lines.
    let mut open: Vec<bool> = Vec::new();
    let line_break = |text: &mut String, depth: usize| {
        text.push('\n');
        let start = text.len();
        text.extend(std::iter::repeat_n("  ", depth));
        start
    };
    each_token(compact, |token| match token {
        "{" | "[" => {
            let container = next.next().copied().unwrap_or(Container {
                width: 0,
                tall: false,
            });
            let column = text.len() - line_start;
            let tall = open.is_empty() || container.tall || column + container.width > WIDTH;
            text.push_str(token);
            open.push(tall);
            if tall {
                line_start = line_break(&mut text, open.len());
            }
        }
        "}" | "]" => {
            if open.pop() == Some(true) {
                line_start = line_break(&mut text, open.len());
            }
            text.push_str(token);
        }
        "," => {
            text.push(',');
            if open.last() == Some(&true) {
                line_start = line_break(&mut text, open.len());
            } else {
                text.push(' ');
            }
        }
        ":" => text.push_str(": "),
        other => text.push_str(other),
    });
    text.push('\n');
    text
}

/// The containers in the order in which they open.
fn measure(compact: &str) -> Vec<Container> {
    let mut containers: Vec<Container> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut column = 0;
    let mut before = "";
    each_token(compact, |token| {
        match token {
            "{" | "[" => {
                if before == "["
                    && let Some(&(parent, _)) = open.last()
                {
                    containers[parent].tall = true;
                }
                open.push((containers.len(), column));
                containers.push(Container {
                    width: 0,
                    tall: false,
                });
            }
            "}" | "]" => {
                if let Some((index, start)) = open.pop() {
                    containers[index].width = column + 1 - start;
                    if let (true, Some(&(parent, _))) = (containers[index].tall, open.last()) {
                        containers[parent].tall = true;
                    }
                }
            }
            _ => {}
        }
        column += token.len() + usize::from(matches!(token, "," | ":"));
        before = token;
    });
    containers
}

/// Calls `call` with each token of compact JSON: punctuation, strings and other values.
fn each_token<'a>(compact: &'a str, mut call: impl FnMut(&'a str)) {
    let bytes = compact.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let length = match bytes[start] {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(&bytes[start..]),
            _ => {
                let rest = &bytes[start..];
                rest.iter()
                    .position(|byte| matches!(byte, b'}' | b']' | b','))
                    .unwrap_or(rest.len())
            }
        };
        call(&compact[start..start + length]);
        start += length;
    }
}

fn string_length(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    bytes.len()
}
