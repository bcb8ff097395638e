//! Checks and their verdicts: the answer of every gate.
//!
//! ```
//! use findings::check::{Check, Maturity, Verdict, verdict};
//!
//! let floor = Check::new("all-reduce-1G", "8 GPUs of n1", Maturity::Measured)
//!     .expects("≥ 417.2 GB/s", "all_reduce_perf -b 1G -e 1G -g 8")
//!     .judged(233.1 >= 417.2, "233.1 GB/s");
//! let links = Check::new("T004", "NVLinks of n1", Maturity::Modelled).unknown("no driver");
//! assert_eq!(verdict(&[floor, links]), Verdict::Fail);
//! ```

mod junit;
mod prometheus;

use serde::Serialize;

use crate::JsonSchema;
pub use junit::junit;
pub use prometheus::{Metrics, prometheus};

/// A bandwidth below this share of that of equal devices is slow.
pub const SLOW: f64 = 0.7;

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", content = "why", rename_all = "lowercase")]
pub enum Verdict {
    /// It is as expected.
    Pass,
    /// It is not.
    Fail,
    /// It could not be measured; why.
    Unknown(String),
    /// It was not asked here; why.
    Skipped(String),
}

impl Verdict {
    /// Its word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unknown(_) => "unknown",
            Self::Skipped(_) => "skipped",
        }
    }

    /// Why nothing was judged.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Pass | Self::Fail => None,
            Self::Unknown(why) | Self::Skipped(why) => Some(why),
        }
    }
}

/// Where the expectation of a check comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Maturity {
    /// Real machines that are alike were measured.
    Measured,
    /// It follows from what a device states of itself, a data sheet, or NCCL's own rules.
    Modelled,
    /// Equal devices beside it, or a limit that was chosen.
    Guessed,
}

impl Maturity {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Guessed => "guessed",
        }
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Its id, such as `T001` or `all-reduce-1G`; ids never change.
    pub id: String,
    /// What was looked at.
    pub looked_at: String,
    /// What a healthy machine shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expected: String,
    /// What was seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seen: String,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Where the expectation comes from.
    pub maturity: Maturity,
    /// The command whose output proves it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proof: String,
}

impl Check {
    /// A check that passes and has seen nothing yet.
    pub fn new(id: impl Into<String>, looked_at: impl Into<String>, maturity: Maturity) -> Self {
        Self {
            id: id.into(),
            looked_at: looked_at.into(),
            expected: String::new(),
            seen: String::new(),
            verdict: Verdict::Pass,
            maturity,
            proof: String::new(),
        }
    }

    /// The check with what it expects, and the command that proves it.
    pub fn expects(mut self, expected: impl Into<String>, proof: impl Into<String>) -> Self {
        (self.expected, self.proof) = (expected.into(), proof.into());
        self
    }

    /// The check with what was seen, which is as expected or not.
    pub fn judged(mut self, is_right: bool, seen: impl Into<String>) -> Self {
        self.seen = seen.into();
        self.verdict = if is_right {
            Verdict::Pass
        } else {
            Verdict::Fail
        };
        self
    }

    /// The check, which could not be measured.
    pub fn unknown(mut self, why: impl Into<String>) -> Self {
        self.verdict = Verdict::Unknown(why.into());
        self
    }

    /// The check, which is not asked here.
    pub fn skipped(mut self, why: impl Into<String>) -> Self {
        self.verdict = Verdict::Skipped(why.into());
        self
    }

    /// What decides its verdict, in words.
    pub fn reason(&self) -> String {
        match (self.verdict.why(), self.seen.as_str()) {
            (Some(why), _) => why.to_owned(),
            (None, "") => format!("expected {}", self.expected),
            (None, seen) if self.expected.is_empty() => seen.to_owned(),
            (None, seen) => format!("{seen}, expected {}", self.expected),
        }
    }
}

/// The verdict of all checks together: one that fails decides; then one that is unknown. Where none
/// passes, nothing is known.
pub fn verdict(checks: &[Check]) -> Verdict {
    let is = |word: &str| checks.iter().find(|it| it.verdict.word() == word);
    match (is("fail"), is("unknown"), is("pass")) {
        (Some(_), ..) => Verdict::Fail,
        (None, Some(it), _) => it.verdict.clone(),
        (None, None, Some(_)) => Verdict::Pass,
        (None, None, None) => {
            let why = checks.iter().find_map(|it| it.verdict.why());
            Verdict::Unknown(why.unwrap_or("nothing was checked").to_owned())
        }
    }
}

/// Most letters of a reason in a summary.
const MOST_LETTERS: usize = 60;

/// What was checked, in one line: `28 checks pass, 2 skipped: T006, T007 (a file does not say it)`.
pub fn summary(checks: &[Check]) -> String {
    let of = |word: &'static str| checks.iter().filter(move |it| it.verdict.word() == word);
    let passed = match of("pass").count() {
        1 => "1 check passes".to_owned(),
        count => format!("{count} checks pass"),
    };
    let mut text = match of("fail").count() {
        0 => passed,
        1 => format!("1 check fails; {passed}"),
        count => format!("{count} checks fail; {passed}"),
    };
    for word in ["unknown", "skipped"] {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for it in of(word) {
            let why = it.verdict.why().unwrap_or_default();
            match reasons.iter_mut().find(|known| known.0 == why) {
                Some(known) => known.1.push(&it.id),
                None => reasons.push((why, vec![&it.id])),
            }
        }
        for (why, mut ids) in reasons {
            let count = ids.len();
            ids.dedup();
            text += &format!("; {count} {word}: {}", ids.join(", "));
            if why.len() <= MOST_LETTERS {
                text += &format!(" ({why})");
            }
        }
    }
    text
}
