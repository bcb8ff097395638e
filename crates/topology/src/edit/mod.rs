//! Edits of a topology document: a machine with failed or slower parts.
//!
//! An [`Edit`] removes a device or a link, or makes a link slower, just as editing the file by hand
//! would. Remaining devices keep their numbers and ranks. [`failures`](mod@failures) lists all
//! single failures of a machine.
//!
//! In reading order: [`names`] (devices by name), `apply`, `finish`, [`failures`](mod@failures).
//!
//! ```
//! use topology::edit::Edit;
//! use topology::xml;
//!
//! let gpu = |bus: u8, dev: u8, peer: u8| format!(
//!     "<pci busid=\"0000:0{bus}:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"16\">\
//!      <gpu dev=\"{dev}\" sm=\"80\" rank=\"{dev}\" gdr=\"1\">\
//!      <nvlink target=\"0000:0{peer}:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>");
//! let cpu = format!("<cpu numaid=\"0\" arch=\"arm64\">{}{}</cpu>", gpu(1, 0, 2), gpu(2, 1, 1));
//! let text = format!("<system version=\"1\">{cpu}</system>");
//! let document = xml::parse("machine.xml", text.as_bytes())?;
//! let slower = Edit::degrade("GPU0:GPU1=50%")?.apply(&document)?;
//! assert!(xml::write(&slower).contains("count=\"2\""));
//! let alone = Edit::without("GPU1")?.apply(&document)?;
//! assert!(!xml::write(&alone).contains("0000:02:00.0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod apply;
mod error;
pub mod failures;
mod finish;
pub mod names;

pub use error::EditError;
pub use failures::{Failure, FailureKind, failures};
pub use names::{Device, DeviceKind, Devices};

use std::fmt;

use crate::xml::Document;
use names::PEER_ACCESS;

/// The remainder of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remainder {
    /// A share in percent, above 0 and below 100. The result is rounded down, because files have
    /// only whole links, lanes and Mb/s.
    Percent(f64),
    /// So many NVLinks, PCIe lanes, Mb/s of a port or MB/s of a C2C link.
    Count(i32),
}

/// The kind of an edit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Remove,
    Degrade(Remainder),
}

/// A change of a machine, by device names.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    host: Option<u32>,
    target: String,
    change: Change,
}

impl Edit {
    /// Parses the removal of a device with its children, or of the link between two: `mlx5_3`,
    /// `GPU5`, `0000:15:01.0`, `NVSwitch`, `GPU2:GPU5`, or of all NVLinks of a GPU:
    /// `GPU5:NVLinks`, or the peer access of one GPU or of all: `GPU5:P2P`, `P2P`. The prefix
    /// `host3/` selects host 3.
    ///
    /// # Errors
    /// The text is empty.
    pub fn without(text: &str) -> Result<Self, EditError> {
        let expected = "a device such as GPU5, mlx5_3 or a PCI bus id, or a link such as GPU2:GPU5";
        Self::new(text, text, Change::Remove, expected)
    }

    /// Parses a slower link: `GPU2:GPU5=50%`, `GPU0:NVSwitch=17`, `mlx5_3=50%`. A GPU, switch or
    /// adapter alone means its PCI uplink, a port its speed, `NVSwitch` all links to it.
    ///
    /// # Errors
    /// The text has another form, or no remainder.
    pub fn degrade(text: &str) -> Result<Self, EditError> {
        let expected =
            "LINK=SHARE, such as GPU2:GPU5=50%, or LINK=NUMBER, such as GPU0:NVSwitch=17";
        let malformed = || EditError::Malformed {
            text: text.to_owned(),
            expected,
        };
        let (target, remaining) = text.rsplit_once('=').ok_or_else(malformed)?;
        let remaining = match remaining.strip_suffix('%') {
            Some(percent) => percent
                .parse()
                .ok()
                .filter(|percent| *percent > 0.0 && *percent < 100.0)
                .map(Remainder::Percent),
            None => remaining
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Remainder::Count),
        };
        let remaining = remaining.ok_or_else(|| EditError::Malformed {
            text: text.to_owned(),
            expected: "what remains: a share above 0% and below 100%, or a number above 0 (what is gone altogether is taken away, not slower)",
        })?;
        Self::new(text, target, Change::Degrade(remaining), expected)
    }

    fn new(
        text: &str,
        target: &str,
        change: Change,
        expected: &'static str,
    ) -> Result<Self, EditError> {
        let (host, target) = split_host(target);
        if target.is_empty() {
            return Err(EditError::Malformed {
                text: text.to_owned(),
                expected,
            });
        }
        Ok(Self {
            host,
            target: target.to_owned(),
            change,
        })
    }

    /// The selected host; `None`: every host that has the device.
    pub const fn host(&self) -> Option<u32> {
        self.host
    }

    /// The same edit for one host, or for every host.
    #[must_use]
    pub fn on_host(mut self, host: Option<u32>) -> Self {
        self.host = host;
        self
    }

    /// Whether it removes something.
    pub const fn removes(&self) -> bool {
        matches!(self.change, Change::Remove)
    }

    /// Whether it can remove a network port: it removes something other than a GPU, a link of one
    /// or the NVSwitches.
    pub fn may_remove_ports(&self) -> bool {
        let others = ["GPU", "NVSwitch", PEER_ACCESS];
        let begins = |it: &&str| {
            let begin = self.target.get(..it.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(it))
        };
        self.removes() && !others.iter().any(begins)
    }

    /// Returns the edited document.
    ///
    /// # Errors
    /// The document has no such device or link, or a file cannot express the edit.
    pub fn apply(&self, document: &Document) -> Result<Document, EditError> {
        apply::apply(self, document)
    }
}

impl fmt::Display for Edit {
    /// Writes what [`Edit::without`] or [`Edit::degrade`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = self.host {
            write!(f, "host{host}/")?;
        }
        write!(f, "{}", self.target)?;
        match self.change {
            Change::Remove => Ok(()),
            Change::Degrade(Remainder::Percent(percent)) => write!(f, "={percent}%"),
            Change::Degrade(Remainder::Count(count)) => write!(f, "={count}"),
        }
    }
}

/// Splits the host off a name: `host3/GPU0` is `GPU0` of host 3.
pub fn split_host(text: &str) -> (Option<u32>, &str) {
    let split = text.split_once('/').and_then(|(host, rest)| {
        let digits = host
            .get(..4)
            .filter(|word| word.eq_ignore_ascii_case("host"));
        Some((digits.and(host.get(4..))?.parse().ok()?, rest))
    });
    match split {
        Some((host, rest)) => (Some(host), rest),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_written_as_they_are_read() {
        for text in ["mlx5_3", "host2/GPU5", "GPU2:GPU5", "0000:15:01.0"] {
            assert_eq!(
                Edit::without(text).map(|edit| edit.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["GPU2:GPU5=50%", "host12/GPU0:NVSwitch=17", "mlx5_3=12.5%"] {
            assert_eq!(
                Edit::degrade(text).map(|edit| edit.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(Edit::without("hostile/1").map(|edit| edit.host()), Ok(None));
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "GPU0:GPU1",
            "GPU0=",
            "GPU0=0%",
            "GPU0=100%",
            "GPU0=-5",
            "GPU0=x",
            "=50%",
            "GPU0=nan%",
            "host0/=2",
            "GPU0=1.5",
        ] {
            assert!(Edit::degrade(text).is_err(), "{text}");
        }
        assert!(Edit::without("").is_err());
        assert!(Edit::without("host1/").is_err());
    }
}
