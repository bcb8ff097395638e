//! The planner behind a page in the browser.
//!
//! [`answer`] takes a request as JSON and returns an answer as JSON: a plan with pictures, a path,
//! costs, bounds, differences, findings, what a log says, what was measured. It is the same code as
//! the program's; the page only shows it. `cargo xtask web` builds the page.
//!
//! In reading order: [`request`], [`answers`](mod@answers), [`memory`] (the border to JavaScript).

pub mod answers;
pub mod memory;
pub mod request;

use serde_json::json;

use request::Request;

/// Most bytes of a request: a log of some megabytes as JSON.
pub const MOST_BYTES: usize = 256 << 20;

/// Answers a request. An error is an object with the key `error`.
pub fn answer(request: &[u8]) -> String {
    let answered = match serde_json::from_slice::<Request>(request) {
        Ok(request) => answers::answer(&request),
        Err(why) => Err(format!("the page asked for something unknown: {why}")),
    };
    answered.unwrap_or_else(|why| json!({ "error": why }).to_string())
}
