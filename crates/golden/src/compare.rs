//! Comparing one value with the one a case expects.

use std::fmt;

use serde_json::Value;

/// Values were computed in 32 bits and printed with nine digits.
const RELATIVE_TOLERANCE: f64 = 1e-4;

/// The first value that differs.
#[derive(Debug)]
pub(super) struct Difference {
    path: String,
    mine: String,
    expected: String,
}

impl Difference {
    pub fn new(
        path: impl Into<String>,
        mine: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            mine: mine.into(),
            expected: expected.into(),
        }
    }

    /// Puts the name of what holds the value in front.
    pub fn within(mut self, outer: &str) -> Self {
        self.path = format!("{outer}.{}", self.path);
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} instead of {}",
            self.path, self.mine, self.expected
        )
    }
}

pub(super) fn integer(name: &str, mine: i64, expected: &Value) -> Result<(), Difference> {
    // Flags are written as numbers or as booleans.
    let number = expected
        .as_i64()
        .or_else(|| expected.as_bool().map(i64::from));
    if number == Some(mine) {
        Ok(())
    } else {
        Err(Difference::new(
            name,
            mine.to_string(),
            expected.to_string(),
        ))
    }
}

pub(super) fn float(name: &str, mine: f32, expected: &Value) -> Result<(), Difference> {
    let close = expected.as_f64().is_some_and(|expected| {
        let mine = f64::from(mine);
        (mine - expected).abs() <= RELATIVE_TOLERANCE * mine.abs().max(expected.abs())
    });
    if close {
        Ok(())
    } else {
        Err(Difference::new(
            name,
            mine.to_string(),
            expected.to_string(),
        ))
    }
}

pub(super) fn text(name: &str, mine: &str, expected: &Value) -> Result<(), Difference> {
    if expected.as_str() == Some(mine) {
        Ok(())
    } else {
        Err(Difference::new(name, mine, expected.to_string()))
    }
}
