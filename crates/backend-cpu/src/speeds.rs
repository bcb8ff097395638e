//! How fast this machine is, by a measurement of some microseconds, beside the machine of the
//! built-in profile.
//!
//! Ranks agree on the median of what they measured, so that all choose alike. Only steps of √2
//! count: smaller differences are other programs, or noise.

use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use shared_memory::ProcessMemory;

use crate::model::Model;

/// Speeds that are measured.
const COUNT: usize = 4;

/// Bytes that are copied: they fit in any core's second cache.
const COPIED: usize = 64 << 10;

/// Rounds, of which the fastest counts.
const ROUNDS: usize = 5;

/// Atomic additions in a round.
const ADDITIONS: u64 = 64;

/// Most steps of √2 by which a machine differs from the profile's: 8 times.
const MOST_STEPS: f64 = 6.0;

/// Times on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Speeds {
    /// Time to copy 64 KiB in a core's cache, µs.
    pub copy_us: f64,
    /// Time of a yield that no other thread uses, µs.
    pub yield_us: f64,
    /// Time in which the kernel copies 8 bytes of a process, µs; that of the profile where it
    /// refuses to.
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
        yield_us: 0.55,
        kernel_us: 1.14,
        atomics_us: 0.135,
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
        let memory = ProcessMemory::new(std::process::id());
        let place = (&raw const word).expose_provenance() as u64;
        Self {
            copy_us: least_us(|| black_box(&mut to).copy_from_slice(black_box(&from))),
            yield_us: least_us(std::thread::yield_now),
            kernel_us: least_us(|| {
                // Where the kernel refuses it, nothing is chosen that needs it.
                let _ = memory.read_into(place, &mut [0; 8]);
            }),
            atomics_us: least_us(|| {
                for _ in 0..ADDITIONS {
                    word.fetch_add(1, Ordering::SeqCst);
                }
            }),
        }
    }

    const fn times(&self) -> [f64; COUNT] {
        [self.copy_us, self.yield_us, self.kernel_us, self.atomics_us]
    }

    const fn of(times: [f64; COUNT]) -> Self {
        let [copy_us, yield_us, kernel_us, atomics_us] = times;
        Self {
            copy_us,
            yield_us,
            kernel_us,
            atomics_us,
        }
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

    /// The bytes with which a rank tells the others.
    pub(crate) fn to_bytes(self) -> [u8; 8 * COUNT] {
        let mut bytes = [0; 8 * COUNT];
        for (to, time) in bytes.as_chunks_mut().0.iter_mut().zip(self.times()) {
            *to = time.to_le_bytes();
        }
        bytes
    }

    /// The speeds in such bytes; `None` if they are none.
    pub(crate) fn from_bytes(bytes: [u8; 8 * COUNT]) -> Option<Self> {
        let mut times = [0.0; COUNT];
        for (time, from) in times.iter_mut().zip(bytes.as_chunks().0) {
            *time = f64::from_le_bytes(*from);
        }
        Some(Self::of(times)).filter(Self::is_valid)
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
        let [copy, switch, kernel, atomics] = scale.0.map(|it| (f64::from(it) / 2.0).exp2());
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
        model.switch_us *= switch;
        model.kernel_access_us *= kernel;
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_do_not_count() {
        let one = Speeds::of([2.0, 0.4, 0.5, 0.3]);
        let nearly = Speeds::of([2.3, 0.35, 0.5, 0.27]);
        assert_eq!(nearly.beside(&one), Scale::default());
        let slower = Speeds::of([8.0, 0.4, 1e9, 0.3]);
        assert_eq!(slower.beside(&one), Scale([4, 0, 6, 0]));
        let model = Model::USUAL.scaled(Scale([4, 0, -2, 0]));
        assert!((model.copy_gb_s * 4.0 - Model::USUAL.copy_gb_s).abs() < 1e-9);
        assert!((model.kernel_access_us * 2.0 - Model::USUAL.kernel_access_us).abs() < 1e-9);
    }

    #[test]
    fn ranks_tell_each_other_their_speeds() {
        let here = Speeds::here();
        assert!(here.is_valid());
        assert_eq!(Speeds::from_bytes(here.to_bytes()), Some(here));
        assert_eq!(Speeds::from_bytes([0; 32]), None);
        let all = [1.0, 100.0, 2.0].map(|it| Speeds::of([it; COUNT]));
        assert_eq!(Speeds::median(&all), Some(Speeds::of([2.0; COUNT])));
    }
}
