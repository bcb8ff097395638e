//! Time and rates as integers, so that a repetition gives the same result to the bit.

use std::ops::{Add, Sub};

/// A point of virtual time, or a duration: picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From microseconds; 0 for negative numbers, at most 213 days.
    pub fn from_us(us: f64) -> Self {
        Self((us * 1e6).round() as u64)
    }

    /// Microseconds.
    pub fn us(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Time {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Fractions of a byte in which flows are counted.
pub(crate) const UNITS_PER_BYTE: u64 = 1 << 36;

/// Bytes of a flow that are counted at once; a longer flow is counted in parts.
pub(crate) const MOST_BYTES: u64 = 1 << 27;

/// A bandwidth: 2⁻³⁶ bytes per picosecond, which is 14.6 bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// From GB/s (10⁹ bytes per second); at least the smallest rate.
    pub fn from_gbps(gbps: f64) -> Self {
        let units = gbps * (UNITS_PER_BYTE as f64 / 1000.0);
        Self((units.round() as u64).max(1))
    }

    /// GB/s; infinite without a limit.
    pub fn gbps(self) -> f64 {
        if self == Self::UNLIMITED {
            return f64::INFINITY;
        }
        self.0 as f64 * 1000.0 / UNITS_PER_BYTE as f64
    }

    /// The time that so many bytes take alone.
    pub fn time(self, bytes: u64) -> Time {
        let units = u128::from(bytes) * u128::from(UNITS_PER_BYTE);
        let time = units.div_ceil(u128::from(self.0.max(1)));
        Time(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_bytes_per_time() {
        // 1 GB/s is 1000 bytes per microsecond.
        assert_eq!(Rate::from_gbps(1.0).time(1000), Time(1_000_000));
        assert!((Rate::from_gbps(48.0).gbps() - 48.0).abs() < 1e-6);
        assert_eq!(Rate::UNLIMITED.time(1 << 20), Time(1));
        assert_eq!(Time::from_us(1.5), Time(1_500_000));
    }
}
