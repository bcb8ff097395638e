//! Sample values from random bits, and the comparison of reduced values with the expected ones.
//!
//! Integers must be equal to the bit. Floating-point sums may be rounded in any order: a result may
//! differ from the one in 64 bits by (ranks + 2) · ε · Σ|x|, where ε is the distance from 1 to the
//! next number of the type; a product by (ranks + 2) · ε · Π|x|. Minimum, maximum and moved values
//! must be equal to the bit.

use half::{bf16, f16};
use program::{ElementType, Reduction};

use crate::element::Element;

/// An element type with sample values.
pub trait Sample: Element + PartialEq {
    /// An expected value, with what a comparison needs.
    type Expected: Copy;

    /// A value from random bits. `narrow` values have a product in range over many ranks.
    fn sample(bits: u64, narrow: bool) -> Self;

    /// A rank's factor of [`Reduction::PreMultipliedSum`].
    fn scalar(rank: u32) -> Self;

    /// The expected value of no values.
    fn nothing(reduction: Reduction) -> Self::Expected;

    /// Adds a rank's values to the expected ones, element by element.
    fn add(reduction: Reduction, rank: u32, values: &[Self], to: &mut [Self::Expected]);

    /// Whether this agrees with the expected value of `ranks` values.
    fn agrees(self, reduction: Reduction, ranks: u32, expected: Self::Expected) -> bool;
}

/// Calls `work` with each pair of two slices.
#[inline]
fn each<A: Copy, B>(values: &[A], to: &mut [B], mut work: impl FnMut(&mut B, A)) {
    for (to, value) in to.iter_mut().zip(values) {
        work(to, *value);
    }
}

macro_rules! integer {
    ($($type:ty)*) => {
        $(
            impl Sample for $type {
                type Expected = $type;

                fn sample(bits: u64, _narrow: bool) -> Self {
                    bits as $type
                }

                fn scalar(rank: u32) -> Self {
                    (rank % 5 + 2) as $type
                }

                fn nothing(reduction: Reduction) -> Self {
                    match reduction {
                        Reduction::Product => 1,
                        Reduction::Minimum => <$type>::MAX,
                        Reduction::Maximum => <$type>::MIN,
                        Reduction::BitAnd => !0,
                        Reduction::BitOr | Reduction::BitXor => 0,
                        Reduction::Sum | Reduction::Average | Reduction::PreMultipliedSum => 0,
                    }
                }

                fn add(reduction: Reduction, rank: u32, values: &[Self], to: &mut [Self]) {
                    match reduction {
                        Reduction::Sum | Reduction::Average => {
                            each(values, to, |to, it| *to = to.wrapping_add(it));
                        }
                        Reduction::Product => each(values, to, |to, it| *to = to.wrapping_mul(it)),
                        Reduction::Minimum => each(values, to, |to, it| *to = (*to).min(it)),
                        Reduction::Maximum => each(values, to, |to, it| *to = (*to).max(it)),
                        Reduction::BitAnd => each(values, to, |to, it| *to &= it),
                        Reduction::BitOr => each(values, to, |to, it| *to |= it),
                        Reduction::BitXor => each(values, to, |to, it| *to ^= it),
                        Reduction::PreMultipliedSum => {
                            let scalar = Self::scalar(rank);
                            each(values, to, |to, it| {
                                *to = to.wrapping_add(it.wrapping_mul(scalar));
                            });
                        }
                    }
                }

                fn agrees(self, reduction: Reduction, ranks: u32, expected: Self) -> bool {
                    match reduction {
                        // The number of ranks may not fit an 8-bit type.
                        Reduction::Average => {
                            self == (i128::from(expected) / i128::from(ranks.max(1))) as $type
                        }
                        _ => self == expected,
                    }
                }
            }
        )*
    };
}

integer!(i8 u8 i16 i32 u32 i64 u64);

/// The expected floating-point value in 64 bits, and the sum or product of absolute values.
#[derive(Debug, Clone, Copy)]
pub struct Rounded {
    value: f64,
    size: f64,
}

impl Rounded {
    fn sum(&mut self, value: f64) {
        self.value += value;
        self.size += value.abs();
    }
}

macro_rules! float {
    ($($type:ty, $wide:expr, $narrow:expr, $epsilon:expr;)*) => {
        $(
            impl Sample for $type {
                type Expected = Rounded;

                fn sample(bits: u64, narrow: bool) -> Self {
                    // 24 random bits, from -1 to 1.
                    let unit = f64::from((bits >> 40) as i32 - 8_388_608) / 8_388_608.0;
                    let to: fn(f64) -> $type = $narrow;
                    to(if narrow { 1.0 + unit / 4.0 } else { unit })
                }

                fn scalar(rank: u32) -> Self {
                    let to: fn(f64) -> $type = $narrow;
                    to(0.75 + f64::from(rank % 5) / 4.0)
                }

                fn nothing(reduction: Reduction) -> Rounded {
                    let value = match reduction {
                        Reduction::Product => 1.0,
                        Reduction::Minimum => f64::INFINITY,
                        Reduction::Maximum => f64::NEG_INFINITY,
                        _ => 0.0,
                    };
                    Rounded { value, size: 0.0 }
                }

                fn add(reduction: Reduction, rank: u32, values: &[Self], to: &mut [Rounded]) {
                    let wide: fn($type) -> f64 = $wide;
                    match reduction {
                        Reduction::Sum | Reduction::Average => {
                            each(values, to, |to, it| to.sum(wide(it)));
                        }
                        Reduction::Product => each(values, to, |to, it| {
                            to.value *= wide(it);
                            to.size = to.value.abs();
                        }),
                        Reduction::Minimum => {
                            each(values, to, |to, it| to.value = to.value.min(wide(it)));
                        }
                        Reduction::Maximum => {
                            each(values, to, |to, it| to.value = to.value.max(wide(it)));
                        }
                        Reduction::PreMultipliedSum => {
                            let scalar = wide(Self::scalar(rank));
                            each(values, to, |to, it| to.sum(wide(it) * scalar));
                        }
                        // These are for integers, so nothing agrees.
                        Reduction::BitAnd | Reduction::BitOr | Reduction::BitXor => {
                            each(values, to, |to, _| to.value = f64::NAN);
                        }
                    }
                }

                fn agrees(self, reduction: Reduction, ranks: u32, expected: Rounded) -> bool {
                    let wide: fn($type) -> f64 = $wide;
                    let epsilon: f64 = $epsilon;
                    let ranks = f64::from(ranks.max(1));
                    let among = match reduction {
                        Reduction::Average => ranks,
                        _ => 1.0,
                    };
                    (wide(self) - expected.value / among).abs()
                        <= (ranks + 2.0) * epsilon * expected.size / among
                }
            }
        )*
    };
}

float! {
    f16, f64::from, |value| f16::from_f32(value as f32), f16::EPSILON.to_f64();
    bf16, f64::from, |value| bf16::from_f32(value as f32), bf16::EPSILON.to_f64();
    f32, f64::from, |value| value as f32, f64::from(f32::EPSILON);
    f64, |value| value, |value| value, f64::EPSILON;
}

/// Work that is generic over the element type.
pub trait ForType {
    /// Its result.
    type Output;

    /// Runs it for one type.
    fn run<T: Sample>(self) -> Self::Output;
}

/// Runs work for an element type.
pub fn of_type<W: ForType>(element: ElementType, work: W) -> W::Output {
    match element {
        ElementType::I8 => work.run::<i8>(),
        ElementType::U8 => work.run::<u8>(),
        ElementType::I16 => work.run::<i16>(),
        ElementType::I32 => work.run::<i32>(),
        ElementType::U32 => work.run::<u32>(),
        ElementType::I64 => work.run::<i64>(),
        ElementType::U64 => work.run::<u64>(),
        ElementType::F16 => work.run::<f16>(),
        ElementType::Bf16 => work.run::<bf16>(),
        ElementType::F32 => work.run::<f32>(),
        ElementType::F64 => work.run::<f64>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `got` agrees with these values, one of each rank.
    fn agrees<T: Sample>(got: T, reduction: Reduction, values: &[T]) -> bool {
        let mut expected = [T::nothing(reduction)];
        for (rank, value) in (0..).zip(values) {
            T::add(reduction, rank, &[*value], &mut expected);
        }
        got.agrees(reduction, values.len() as u32, expected[0])
    }

    #[test]
    fn a_float_may_be_rounded_but_not_wrong() {
        let values = [0.1_f32, 0.7, -0.3];
        assert!(agrees(0.1_f32 + 0.7 - 0.3, Reduction::Sum, &values));
        assert!(!agrees(0.500_01_f32, Reduction::Sum, &values));
        assert!(agrees(0.166_666_7_f32, Reduction::Average, &values));
        assert!(!agrees(0.166_67_f32, Reduction::Average, &values));
        assert!(agrees(-0.021_f32, Reduction::Product, &values));
        assert!(!agrees(-0.021_001_f32, Reduction::Product, &values));
        assert!(agrees(0.7_f32, Reduction::Maximum, &values));
        assert!(!agrees(0.700_000_1_f32, Reduction::Maximum, &values));
        assert!(agrees(-0.3_f32, Reduction::Minimum, &values));
        assert!(!agrees(0.1_f32, Reduction::Minimum, &values));
        assert!(!agrees(f32::NAN, Reduction::Sum, &values));
    }

    #[test]
    fn integers_are_equal_to_the_bit() {
        let values = [200_u8, 100, 3];
        let right = [
            (Reduction::Sum, 47),
            (Reduction::Product, 96),
            (Reduction::Minimum, 3),
            (Reduction::Maximum, 200),
            // 2 · 200 + 3 · 100 + 4 · 3 of 8 bits.
            (Reduction::PreMultipliedSum, 200),
            (Reduction::Average, 15),
        ];
        for (reduction, expected) in right {
            for got in 0..=u8::MAX {
                assert_eq!(
                    agrees(got, reduction, &values),
                    got == expected,
                    "{reduction:?}"
                );
            }
        }
    }

    #[test]
    fn an_average_is_rounded_towards_zero() {
        assert!(agrees(-1_i32, Reduction::Average, &[-1, -2, -2]));
        assert!(agrees(1_u8, Reduction::Average, &[2, 2, 1]));
    }
}
