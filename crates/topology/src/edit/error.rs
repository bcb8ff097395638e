//! The reasons why a machine cannot be edited so.

use crate::error::Place;

/// An edit that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no edit.
    #[error("`{text}` is no edit; expected {expected}")]
    Malformed {
        /// The text.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// No device has this name.
    #[error("{file} has no device `{name}`")]
    UnknownDevice {
        /// The file.
        file: String,
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The host does not exist.
    #[error("{file} has no host {host}; expected 0 to {last}", last = hosts.saturating_sub(1))]
    NoSuchHost {
        /// The file.
        file: String,
        /// The named host.
        host: u32,
        /// The number of hosts.
        hosts: u32,
    },
    /// Nothing in the file joins the two.
    #[error("{file} has no link between {from} and {to}; {from} has links to {}", list(.links))]
    NoLink {
        /// The file.
        file: String,
        /// The first end.
        from: String,
        /// The other.
        to: String,
        /// Devices to which the first end is linked.
        links: Vec<String>,
    },
    /// A file cannot express the edit.
    #[error("{file} cannot say this of {what}: {why}")]
    NotInFile {
        /// The file.
        file: String,
        /// The device or link.
        what: String,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// Nothing, or no less, would remain.
    #[error("{place}: {what} is {is}, and {asked} of it is {remains}; expected {expected}")]
    NotLess {
        /// The attribute that would change.
        place: Box<Place>,
        /// The quantity and unit.
        what: &'static str,
        /// Its value.
        is: i64,
        /// The requested amount.
        asked: String,
        /// The amount that would remain.
        remains: i64,
        /// The possible amounts.
        expected: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}
