//! What is left of a machine when a part of it fails: edits of a topology document.
//!
//! An [`Edit`] removes a device or a link, or makes a link slower, exactly as one would by editing the file: whatever is
//! planned from the edited document equals what is planned from a file that was edited by hand. Numbers and ranks that
//! remain keep their values. [`failures`](mod@failures) lists every single failure that a machine can have.
//!
//! In reading order: [`names`] (which element a name means), `apply` (what an edit does to the elements), [`failures`](mod@failures).
//!
//! ```
//! use topology::edit::Edit;
//! use topology::xml;
//!
//! let gpu = |bus: u8, dev: u8, peer: u8| format!(
//!     "<pci busid=\"0000:0{bus}:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"16\">\
//!      <gpu dev=\"{dev}\" sm=\"80\" rank=\"{dev}\" gdr=\"1\">\
//!      <nvlink target=\"0000:0{peer}:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>");
//! let text = format!("<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">{}{}</cpu></system>", gpu(1, 0, 2), gpu(2, 1, 1));
//! let document = xml::parse("machine.xml", text.as_bytes())?;
//! let slower = Edit::degrade("GPU0:GPU1=50%")?.apply(&document)?;
//! assert!(xml::write(&slower).contains("count=\"2\""));
//! let alone = Edit::without("GPU1")?.apply(&document)?;
//! assert!(!xml::write(&alone).contains("0000:02:00.0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod error;
pub mod failures;
pub mod names;

pub use error::EditError;
pub use failures::{Failure, FailureKind, failures};
pub use names::{Device, DeviceKind, Devices};

use std::fmt;

use crate::xml::Document;

/// What remains of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remaining {
    /// This share, in percent, above 0 and below 100. What it gives is rounded down to a whole number, because a file
    /// (and NVLink and PCI Express themselves) know only whole links, lanes and Mb/s.
    Percent(f64),
    /// So many NVLinks, PCIe lanes, Mb/s of a port or MB/s of a C2C link.
    Count(i32),
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Remove,
    Degrade(Remaining),
}

/// One change of a machine, by the names of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    host: Option<u32>,
    target: String,
    change: Change,
}

impl Edit {
    /// The machine without a device (with all that hangs below it), or without the link between two: `mlx5_3`, `GPU5`,
    /// `0000:15:01.0`, `NVSwitch`, `GPU2:GPU5`. `host3/` in front means host 3 only.
    ///
    /// # Errors
    /// The text names nothing.
    pub fn without(text: &str) -> Result<Self, EditError> {
        let expected = "a device such as GPU5, mlx5_3 or a PCI bus id, or a link such as GPU2:GPU5";
        Self::new(text, text, Change::Remove, expected)
    }

    /// The machine with a slower link: `GPU2:GPU5=50%`, `GPU0:NVSwitch=17`, `mlx5_3=50%`. A GPU, switch or adapter by
    /// itself means the PCI link to what is above it, a port its speed, `NVSwitch` all links into it.
    ///
    /// # Errors
    /// The text has another form, or does not say what remains.
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
                .map(Remaining::Percent),
            None => remaining
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Remaining::Count),
        };
        let remaining = remaining.ok_or_else(|| EditError::Malformed {
            text: text.to_owned(),
            expected: "what remains: a share above 0% and below 100%, or a number above 0 (to remove all of it: without)",
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

    /// The only host that is meant; `None` means every host that has the device.
    pub const fn host(&self) -> Option<u32> {
        self.host
    }

    /// The same edit of this host, or of every host.
    #[must_use]
    pub fn on_host(mut self, host: Option<u32>) -> Self {
        self.host = host;
        self
    }

    /// Whether something is removed, and not only slower.
    pub const fn removes(&self) -> bool {
        matches!(self.change, Change::Remove)
    }

    /// The document with this change made.
    ///
    /// # Errors
    /// The document has no such device or link, or a file cannot say what is asked for.
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
            Change::Degrade(Remaining::Percent(percent)) => write!(f, "={percent}%"),
            Change::Degrade(Remaining::Count(count)) => write!(f, "={count}"),
        }
    }
}

/// Splits `host3/` off.
fn split_host(text: &str) -> (Option<u32>, &str) {
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
