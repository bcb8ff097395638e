//! Why a machine cannot be edited so.

use crate::error::Place;

/// An edit that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no edit.
    #[error("`{text}` is no edit; expected {expected}")]
    Malformed {
        /// The text.
        text: String,
        /// What it should be.
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
        /// Which was named.
        host: u32,
        /// How many there are.
        hosts: u32,
    },
    /// Nothing in the file joins the two.
    #[error("{file} has no link between {from} and {to}; {from} has links to {}", list(.links))]
    NoLink {
        /// The file.
        file: String,
        /// One end.
        from: String,
        /// The other.
        to: String,
        /// What the first is linked to.
        links: Vec<String>,
    },
    /// A file says nothing about this link.
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
        /// What it counts.
        what: &'static str,
        /// Its value.
        is: i64,
        /// What was asked for.
        asked: String,
        /// What would remain.
        remains: i64,
        /// What can be asked for.
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
