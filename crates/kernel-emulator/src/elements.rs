//! Tests of the kernels' 16-bit floats, for every value of one operand and every way to round.

use half::{bf16, f16};

// SAFETY: host/elements.cpp defines them with these types.
unsafe extern "C" {
    fn topo_reduce(
        brain: i32,
        operation: u32,
        ones: *const u64,
        others: *const u64,
        results: *mut u64,
        count: usize,
    );
    fn topo_narrow(brain: i32, floats: *const u32, results: *mut u16, count: usize);
}

/// A 16-bit type: its bits and least exponent, and conversions.
struct Type {
    brain: bool,
    precision: i32,
    least: i32,
    widen: fn(u16) -> f32,
    narrow: fn(f32) -> u16,
}

const TYPES: [Type; 2] = [
    Type {
        brain: false,
        precision: 11,
        least: -14,
        widen: |bits| f16::from_bits(bits).to_f32(),
        narrow: |value| f16::from_f32(value).to_bits(),
    },
    Type {
        brain: true,
        precision: 8,
        least: -126,
        widen: |bits| bf16::from_bits(bits).to_f32(),
        narrow: |value| bf16::from_f32(value).to_bits(),
    },
];

impl Type {
    /// An exact value, rounded once to the nearest, half to even; not beyond the largest number.
    fn rounded_once(&self, exact: f64) -> f64 {
        let exponent = (exact.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        let unit = 2_f64.powi(exponent.max(self.least) + 1 - self.precision);
        (exact / unit).round_ties_even() * unit
    }

    fn largest(&self) -> f64 {
        let infinity = self.infinity();
        f64::from((self.widen)(infinity - 1))
    }

    fn infinity(&self) -> u16 {
        if self.brain { 0x7f80 } else { 0x7c00 }
    }
}

/// Second operands: both zeros, subnormals, neighbors of 1, the largest, infinities, NaN, others.
fn partners(of: &Type) -> Vec<u16> {
    let one = (of.narrow)(1.0);
    let infinity = of.infinity();
    let mut all = vec![0, 1, 2, 0x7f, one - 1, one, one + 1, infinity - 1, infinity];
    all.extend([infinity + 1, 0x7fff]);
    all.extend((0..9).map(|index| 0x0123_u16.wrapping_add(index * 0x0dcb)));
    all.iter()
        .flat_map(|bits| [*bits, *bits ^ 0x8000])
        .collect()
}

/// Results of a reduction of all 16-bit values, four in a word, with another one.
fn reduced(of: &Type, operation: u32, other: u16) -> Vec<u16> {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let ones: Vec<u64> = all
        .chunks(4)
        .map(|four| (0..4).fold(0, |word, at| word | u64::from(four[at]) << (16 * at)))
        .collect();
    let others = vec![u64::from(other) * 0x0001_0001_0001_0001; ones.len()];
    let mut results = vec![0; ones.len()];
    // SAFETY: there are as many words of each.
    unsafe {
        topo_reduce(
            of.brain.into(),
            operation,
            ones.as_ptr(),
            others.as_ptr(),
            results.as_mut_ptr(),
            ones.len(),
        );
    }
    let halves = |word: &u64| {
        (0..4)
            .map(|at| (word >> (16 * at)) as u16)
            .collect::<Vec<_>>()
    };
    results.iter().flat_map(halves).collect()
}

#[test]
fn floats_are_rounded_to_the_nearest() {
    // What is cut off: nothing, the least, around half, nearly one unit of each type.
    let lows = [
        0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff,
    ];
    for of in &TYPES {
        let highs = 0..=u32::from(u16::MAX);
        let floats: Vec<u32> = highs
            .flat_map(|high| lows.map(|low| high << 16 | low))
            .collect();
        let mut results = vec![0; floats.len()];
        // SAFETY: there is a result for each float.
        unsafe {
            topo_narrow(
                of.brain.into(),
                floats.as_ptr(),
                results.as_mut_ptr(),
                floats.len(),
            );
        }
        for (bits, result) in floats.iter().zip(results) {
            let value = f32::from_bits(*bits);
            let expected = (of.narrow)(value);
            // GPUs have one NaN of f16.
            let same = result == expected
                || !of.brain && value.is_nan() && f16::from_bits(result).is_nan();
            assert!(same, "{bits:#x}: {result:#x}, expected {expected:#x}");
        }
    }
}

/// Sums and products of 32 bits that are rounded to 16 bits are those that are rounded once, which
/// GPUs compute two at a time.
#[test]
fn sums_and_products_are_as_if_rounded_once() {
    for of in &TYPES {
        for other in partners(of) {
            let (sums, products) = (reduced(of, 0, other), reduced(of, 1, other));
            let second = (of.widen)(other);
            for one in 0..=u16::MAX {
                let first = (of.widen)(one);
                let (sum, sum_is_exact) = sum(first.into(), second.into());
                let product = f64::from(first) * f64::from(second);
                for (result, wide, exact) in [
                    (
                        sums[usize::from(one)],
                        first + second,
                        sum_is_exact.then_some(sum),
                    ),
                    (products[usize::from(one)], first * second, Some(product)),
                ] {
                    let case = || format!("{one:#x}, {other:#x}: {result:#x}");
                    let narrow = (of.widen)(result);
                    if wide.is_nan() {
                        assert!(narrow.is_nan(), "{}", case());
                        continue;
                    }
                    assert_eq!(result, (of.narrow)(wide), "{}", case());
                    let once = exact.map(|exact| of.rounded_once(exact));
                    if let Some(once) = once.filter(|it| it.abs() <= of.largest()) {
                        assert_eq!(f64::from(narrow).to_bits(), once.to_bits(), "{}", case());
                    }
                }
            }
        }
    }
}

/// A sum, and whether it is exact: not if the exponents are far apart.
fn sum(one: f64, other: f64) -> (f64, bool) {
    let sum = one + other;
    let second = sum - one;
    let error = (one - (sum - second)) + (other - second);
    (sum, error == 0.0)
}

/// The minimum and maximum of a number and NaN are the number.
#[test]
fn minima_and_maxima_are_one_of_the_operands() {
    for of in &TYPES {
        for other in partners(of) {
            let (minima, maxima) = (reduced(of, 2, other), reduced(of, 3, other));
            let second = (of.widen)(other);
            for one in 0..=u16::MAX {
                let first = (of.widen)(one);
                let takes_first = |less: bool| less || second.is_nan();
                for (result, first_wins) in [
                    (minima[usize::from(one)], takes_first(first < second)),
                    (maxima[usize::from(one)], takes_first(first > second)),
                ] {
                    let expected = if first_wins { one } else { other };
                    if (of.widen)(expected).is_nan() {
                        assert!((of.widen)(result).is_nan(), "{one:#x}, {other:#x}");
                    } else {
                        assert_eq!(result, expected, "{one:#x}, {other:#x}");
                    }
                }
            }
        }
    }
}
