//! The expected results of reductions, computed on wider numbers.

use std::cmp::Ordering;

use half::{bf16, f16};
use program::{ElementType, Reduction};

use super::Case;

/// The operation on numbers that are wide enough, as its documentation has it.
macro_rules! reference_of {
    ($case:expr, $inputs:expr, $element:ty, $load:expr, $store:expr, $wrap:expr, $bits:expr) => {{
        const SIZE: usize = size_of::<$element>();
        let load = |bytes: &[u8]| $load(<$element>::from_ne_bytes(bytes.try_into().unwrap()));
        let factor = load(&$case.factor.to_ne_bytes()[..SIZE]);
        let (wrap, bits) = ($wrap, $bits);
        let mut output = Vec::new();
        for element in 0..$case.elements {
            let values = $inputs.iter().enumerate().map(|(source, input)| {
                let value = load(&input[element * SIZE..(element + 1) * SIZE]);
                let premultiplies = $case.operation == Reduction::PreMultipliedSum;
                if premultiplies && $case.pre_multiply >> source & 1 == 1 {
                    wrap(value * factor)
                } else {
                    value
                }
            });
            let mut result = values
                .reduce(|one, other| match $case.operation {
                    Reduction::Product => wrap(one * other),
                    Reduction::Minimum => first(one, other, Ordering::Less),
                    Reduction::Maximum => first(one, other, Ordering::Greater),
                    Reduction::BitAnd => bits(one, other, |one, other| one & other),
                    Reduction::BitOr => bits(one, other, |one, other| one | other),
                    Reduction::BitXor => bits(one, other, |one, other| one ^ other),
                    _ => wrap(one + other),
                })
                .unwrap();
            if $case.finish && $case.operation == Reduction::Average {
                result /= $load($case.ranks as u8 as _);
            }
            let stored: $element = $store(result);
            output.extend(stored.to_ne_bytes());
        }
        output
    }};
}

/// The value that is less, or greater, than the other; a number if one is NaN. What `min` of floats
/// gives for a signaling NaN depends on the processor.
fn first<T: PartialOrd>(one: T, other: T, wanted: Ordering) -> T {
    let other_is_nan = other.partial_cmp(&other).is_none();
    match one.partial_cmp(&other) {
        Some(found) if found == wanted => one,
        None if other_is_nan => one,
        _ => other,
    }
}

/// An operation on the bits of integers.
type Bits = fn(i128, i128) -> i128;

pub fn reference(case: &Case, inputs: &[Vec<u8>]) -> Vec<u8> {
    macro_rules! integer {
        ($integer:ty) => {
            reference_of!(
                case,
                inputs,
                $integer,
                |value: $integer| i128::from(value),
                |value: i128| value as $integer,
                |value: i128| i128::from(value as $integer),
                |one: i128, other: i128, operation: Bits| operation(one, other)
            )
        };
    }
    let same = |value| value;
    let no_bits = |_, _, _: Bits| unreachable!("bits of floating-point numbers");
    match case.element {
        ElementType::I8 => integer!(i8),
        ElementType::U8 => integer!(u8),
        ElementType::I16 => integer!(i16),
        ElementType::I32 => integer!(i32),
        ElementType::U32 => integer!(u32),
        ElementType::I64 => integer!(i64),
        // Products of two of them do not fit into i128.
        ElementType::U64 => {
            use std::num::Wrapping;
            let same_wrapped = |value: Wrapping<u64>| value;
            reference_of!(
                case,
                inputs,
                u64,
                Wrapping,
                |value: Wrapping<u64>| value.0,
                same_wrapped,
                |Wrapping(one): Wrapping<u64>, Wrapping(other): Wrapping<u64>, operation: Bits| {
                    Wrapping(operation(one.into(), other.into()) as u64)
                }
            )
        }
        ElementType::F32 => {
            reference_of!(
                case,
                inputs,
                f32,
                |value: f32| value,
                |value: f32| value,
                same,
                no_bits
            )
        }
        ElementType::F64 => {
            let same = |value: f64| value;
            let no_bits = |_, _, _: Bits| unreachable!("bits of floating-point numbers");
            reference_of!(
                case,
                inputs,
                f64,
                |value: f64| value,
                |value: f64| value,
                same,
                no_bits
            )
        }
        ElementType::F16 => sixteen_bits(
            case,
            inputs,
            f16::to_f32,
            f16::from_f32,
            f16::from_bits,
            f16::to_bits,
        ),
        ElementType::Bf16 => sixteen_bits(
            case,
            inputs,
            bf16::to_f32,
            bf16::from_f32,
            bf16::from_bits,
            bf16::to_bits,
        ),
    }
}

/// The reference of 16-bit floats is that of 32-bit floats on the same values, rounded once.
fn sixteen_bits<F>(
    case: &Case,
    inputs: &[Vec<u8>],
    widen: impl Fn(F) -> f32,
    narrow: impl Fn(f32) -> F,
    from_bits: impl Fn(u16) -> F,
    to_bits: impl Fn(F) -> u16,
) -> Vec<u8> {
    let wide = |bytes: &[u8]| -> Vec<u8> {
        let elements = bytes.chunks_exact(2);
        let values = elements.map(|two| widen(from_bits(u16::from_ne_bytes([two[0], two[1]]))));
        values.flat_map(f32::to_ne_bytes).collect()
    };
    let factor = widen(from_bits(case.factor as u16));
    let case = Case {
        element: ElementType::F32,
        factor: u64::from(factor.to_bits()),
        ..case.clone()
    };
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|input| wide(input)).collect();
    let output = reference(&case, &inputs);
    let values = output
        .chunks_exact(4)
        .map(|four| f32::from_ne_bytes(four.try_into().unwrap()));
    values
        .flat_map(|value| to_bits(narrow(value)).to_ne_bytes())
        .collect()
}
