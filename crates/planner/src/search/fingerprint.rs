//! Fingerprints of states: sums of values times fixed random weights.
//!
//! Two different states have the same fingerprint with a probability of about 2⁻¹²⁸, so states with
//! equal fingerprints are treated as equal.

/// A 128-bit fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct StateFingerprint(pub u128);

impl StateFingerprint {
    /// Adds a value with a weight.
    pub(super) fn add(&mut self, weight: Self, value: u64) {
        *self = self.with(weight.times(value));
    }

    /// The addition of a value with this weight.
    pub(super) fn times(self, value: u64) -> Self {
        Self(self.0.wrapping_mul(u128::from(value)))
    }

    /// The fingerprint without a part.
    pub(super) const fn without(self, part: Self) -> Self {
        Self(self.0.wrapping_sub(part.0))
    }

    /// The fingerprint of two parts.
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

/// The weight of the value with this number.
pub(super) fn weight(number: usize) -> StateFingerprint {
    let mut state = number as u64;
    let low = scramble(&mut state);
    let high = scramble(&mut state);
    StateFingerprint(u128::from(high) << 64 | u128::from(low) | 1)
}

/// One step of the SplitMix64 generator.
const fn scramble(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
