//! Exact fractions.

use std::cmp::Ordering;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fraction of whole numbers; the denominator is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fraction {
    /// Above the line.
    pub numerator: u128,
    /// Below the line.
    pub denominator: u128,
}

impl Fraction {
    /// The fraction in lowest terms; `None` if the denominator is 0.
    pub const fn new(numerator: u128, denominator: u128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Some(Self {
            numerator: numerator / a,
            denominator: denominator / a,
        })
    }

    /// Which of two fractions is larger, without rounding.
    pub fn compare(self, other: Self) -> Ordering {
        // The continued fractions are compared, because products could overflow.
        let (mut one, mut two) = (self, other);
        loop {
            let (whole, other_whole) = (one.whole(), two.whole());
            if whole != other_whole {
                return whole.cmp(&other_whole);
            }
            let (rest, other_rest) = (one.rest(), two.rest());
            match (rest, other_rest) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                _ => {}
            }
            // The fraction with the larger reciprocal is the smaller one.
            let reciprocal = Self {
                numerator: two.denominator,
                denominator: other_rest,
            };
            two = Self {
                numerator: one.denominator,
                denominator: rest,
            };
            one = reciprocal;
        }
    }

    const fn whole(self) -> Option<u128> {
        self.numerator.checked_div(self.denominator)
    }

    const fn rest(self) -> u128 {
        match self.numerator.checked_rem(self.denominator) {
            Some(rest) => rest,
            None => 0,
        }
    }

    /// The nearest number, in the unit of the fraction divided by `unit`.
    pub fn per(self, unit: f64) -> f64 {
        self.numerator as f64 / self.denominator as f64 / unit
    }
}
