//! This machine's speeds, measured in some microseconds, beside those of the built-in profile's.
//!
//! Ranks agree on the medians of their measurements, so that all choose alike. Only steps of √2
//! count: smaller differences are other programs, or noise. Nothing is measured that waits for
//! another thread: with more ranks than cores that takes as long as the others run.

use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::model::Model;

/// Speeds that are measured.
const COUNT: usize = 3;

/// Bytes that are copied: they fit in any core's second cache.
const COPIED: usize = 64 << 10;

/// Rounds, of which the fastest counts.
const ROUNDS: usize = 5;

/// Calls of the kernel, and atomic additions, in a round.
const CALLS: u32 = 64;

/// Largest difference from the profile's machine that counts, in steps of √2: 8 times.
const MOST_STEPS: f64 = 6.0;

/// Times on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Speeds {
    /// Time to copy 64 KiB in a core's cache, µs.
    pub copy_us: f64,
    /// Time of 64 calls of the kernel, which only return a number, µs.
    pub kernel_us: f64,
    /// Time of 64 atomic additions to one word, µs.
    pub atomics_us: f64,
}

/// How much longer parts of a collective take than on another machine, in steps of √2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scale([i8; COUNT]);

impl Scale {
    /// The same machine.
    pub const NONE: Self = Self([0; COUNT]);
}

impl Speeds {
    /// Those of the two cores of an AMD EPYC on which most of the built-in profile was measured.
    pub const USUAL: Self = Self {
        copy_us: 1.17,
        kernel_us: 9.06,
        atomics_us: 0.14,
    };

    /// The speeds of this machine, which are measured once in a process.
    pub fn here() -> Self {
        static HERE: LazyLock<Speeds> = LazyLock::new(Speeds::measure);
        *HERE
    }

    fn measure() -> Self {
        let from = vec![1_u8; COPIED];
        let mut to = vec![0_u8; COPIED];
        let word = AtomicU64::new(0);
        Self {
            copy_us: least_us(|| black_box(&mut to).copy_from_slice(black_box(&from))),
            kernel_us: least_us(|| {
                for _ in 0..CALLS {
                    black_box(std::process::id());
                }
            }),
            atomics_us: least_us(|| {
                for _ in 0..CALLS {
                    word.fetch_add(1, Ordering::SeqCst);
                }
            }),
        }
    }

    pub(crate) const fn times(&self) -> [f64; COUNT] {
        [self.copy_us, self.kernel_us, self.atomics_us]
    }

    const fn of([copy_us, kernel_us, atomics_us]: [f64; COUNT]) -> Self {
        Self {
            copy_us,
            kernel_us,
            atomics_us,
        }
    }

    /// The speeds of another rank; `None` if they are none.
    pub(crate) fn from_bits(bits: &[u64]) -> Option<Self> {
        let bits = <[u64; COUNT]>::try_from(bits).ok()?;
        Some(Self::of(bits.map(f64::from_bits))).filter(Self::is_valid)
    }

    /// Whether all times are above 0.
    pub fn is_valid(&self) -> bool {
        let times = self.times();
        times.iter().all(|it| it.is_finite() && *it > 0.0)
    }

    /// The median of all ranks' speeds, each by itself; `None` without any.
    pub fn median(all: &[Self]) -> Option<Self> {
        let mut median = [0.0; COUNT];
        for (at, median) in median.iter_mut().enumerate() {
            let mut times: Vec<f64> = all.iter().map(|it| it.times()[at]).collect();
            times.sort_by(f64::total_cmp);
            *median = *times.get(times.len() / 2)?;
        }
        Some(Self::of(median))
    }

    /// How much longer things take with these speeds than with others.
    pub fn beside(&self, other: &Self) -> Scale {
        let mut scale = Scale::default();
        let pairs = self.times().into_iter().zip(other.times());
        for (step, (own, other)) in scale.0.iter_mut().zip(pairs) {
            let steps = 2.0 * (own / other).log2();
            *step = steps.round().clamp(-MOST_STEPS, MOST_STEPS) as i8;
        }
        scale
    }
}

/// The least time of several rounds, µs.
fn least_us(mut round: impl FnMut()) -> f64 {
    let time = |()| {
        let began = Instant::now();
        round();
        began.elapsed().as_secs_f64() * 1e6
    };
    let least = std::iter::repeat_n((), ROUNDS).map(time);
    // A clock may be too coarse to see a round.
    least.fold(f64::INFINITY, f64::min).max(1e-3)
}

impl Model {
    /// This model on a machine where things take that much longer.
    pub fn scaled(&self, scale: Scale) -> Self {
        let [copy, kernel, atomics] = scale.0.map(|it| (f64::from(it) / 2.0).exp2());
        let mut model = *self;
        for rate in [
            &mut model.copy_gb_s,
            &mut model.reduce_gb_s,
            &mut model.kernel_gb_s,
            &mut model.message_gb_s.ll,
            &mut model.message_gb_s.ll128,
            &mut model.message_gb_s.simple,
        ] {
            *rate /= copy;
        }
        for time in [
            &mut model.hop_us,
            &mut model.signal_us,
            &mut model.access_us,
            &mut model.message_us.ll,
            &mut model.message_us.ll128,
            &mut model.message_us.simple,
        ] {
            *time *= atomics;
        }
        model.switch_us *= kernel;
        model.kernel_access_us *= kernel;
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_do_not_count() {
        let one = Speeds::of([2.0, 0.5, 0.3]);
        let nearly = Speeds::of([2.3, 0.45, 0.27]);
        assert_eq!(nearly.beside(&one), Scale::default());
        let slower = Speeds::of([8.0, 1e9, 0.3]);
        assert_eq!(slower.beside(&one), Scale([4, 6, 0]));
        let model = Model::USUAL.scaled(Scale([4, -2, 0]));
        assert!((model.copy_gb_s * 4.0 - Model::USUAL.copy_gb_s).abs() < 1e-9);
        assert!((model.kernel_access_us * 2.0 - Model::USUAL.kernel_access_us).abs() < 1e-9);
    }

    #[test]
    fn ranks_tell_each_other_their_speeds() {
        let here = Speeds::here();
        assert!(here.is_valid());
        assert_eq!(
            Speeds::from_bits(&here.times().map(f64::to_bits)),
            Some(here)
        );
        assert_eq!(Speeds::from_bits(&[0; COUNT]), None);
        let all = [1.0, 100.0, 2.0].map(|it| Speeds::of([it; COUNT]));
        assert_eq!(Speeds::median(&all), Some(Speeds::of([2.0; COUNT])));
    }
}
