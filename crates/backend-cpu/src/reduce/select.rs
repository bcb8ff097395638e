//! Selects the loops of a reduction.

use half::{bf16, f16};
use program::{ElementType, Reduction};

use super::element::Element;
use super::number::{And, BinaryOperation, Integer, Maximum, Minimum, Or, Product, Sum, Xor};
use super::vectors::Vectors;

/// The loops of a reduction over `count` elements (the last argument) of any alignment.
///
/// Safety of all: the elements are readable, those of the first argument writable, and no two
/// arguments overlap. `wide` has elements in the type of the reduction.
#[derive(Debug, Clone, Copy)]
pub struct Loops {
    /// Arguments to, one, other: reduces two sources.
    pub pair: unsafe fn(*mut u8, *const u8, *const u8, usize),
    /// Arguments wide, source: initializes the result.
    pub widen: unsafe fn(*mut u8, *const u8, usize),
    /// Arguments wide, source: reduces another source.
    pub accumulate: unsafe fn(*mut u8, *const u8, usize),
    /// Arguments wide, source, factor: adds a source times a factor.
    pub accumulate_multiplied: unsafe fn(*mut u8, *const u8, u64, usize),
    pub multiply: unsafe fn(*mut u8, u64, usize),
    pub divide: unsafe fn(*mut u8, u32, usize),
    /// Arguments to, wide: rounds the result.
    pub narrow: unsafe fn(*mut u8, *const u8, usize),
}

/// The loops of an operation on an element type.
///
/// # Panics
/// The operation does not suit the type.
pub fn loops(operation: Reduction, element: ElementType, vectors: Vectors) -> Loops {
    match element {
        ElementType::I8 => of_integer::<i8>(operation, vectors),
        ElementType::U8 => of_integer::<u8>(operation, vectors),
        ElementType::I16 => of_integer::<i16>(operation, vectors),
        ElementType::I32 => of_integer::<i32>(operation, vectors),
        ElementType::U32 => of_integer::<u32>(operation, vectors),
        ElementType::I64 => of_integer::<i64>(operation, vectors),
        ElementType::U64 => of_integer::<u64>(operation, vectors),
        ElementType::F16 => of_type::<f16>(operation, vectors),
        ElementType::Bf16 => of_type::<bf16>(operation, vectors),
        ElementType::F32 => of_type::<f32>(operation, vectors),
        ElementType::F64 => of_type::<f64>(operation, vectors),
    }
}

fn of_type<E: Element>(operation: Reduction, vectors: Vectors) -> Loops {
    match operation {
        Reduction::Sum | Reduction::Average | Reduction::PreMultipliedSum => {
            of_operation::<E, Sum>(vectors)
        }
        Reduction::Product => of_operation::<E, Product>(vectors),
        Reduction::Minimum => of_operation::<E, Minimum>(vectors),
        Reduction::Maximum => of_operation::<E, Maximum>(vectors),
        Reduction::BitAnd | Reduction::BitOr | Reduction::BitXor => {
            panic!("{operation} of numbers that are no integers")
        }
    }
}

fn of_integer<E: Element<Wide: Integer>>(operation: Reduction, vectors: Vectors) -> Loops {
    match operation {
        Reduction::BitAnd => of_operation::<E, And>(vectors),
        Reduction::BitOr => of_operation::<E, Or>(vectors),
        Reduction::BitXor => of_operation::<E, Xor>(vectors),
        _ => of_type::<E>(operation, vectors),
    }
}

fn of_operation<E: Element, O: BinaryOperation<E::Wide>>(vectors: Vectors) -> Loops {
    match vectors {
        Vectors::Basic => basic::loops::<E, O>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Wide => wide::loops::<E, O>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Widest => widest::loops::<E, O>(),
        #[cfg(not(target_arch = "x86_64"))]
        _ => basic::loops::<E, O>(),
    }
}

/// Compiles the loops for a set of instructions.
macro_rules! compiled {
    ($name:ident, $vector:ident $(, $feature:literal)?) => {
        mod $name {
            use std::slice::{from_raw_parts as slice, from_raw_parts_mut as slice_mut};

            use super::super::element::{self, Element};
            use super::super::number::BinaryOperation;
            use super::super::vectors::{$vector, Loose};
            use super::Loops;

            $(#[target_feature(enable = $feature)])?
            fn pair<E: Element, O: BinaryOperation<E::Wide>>(
                to: &mut [Loose<E>],
                one: &[Loose<E>],
                other: &[Loose<E>],
            ) {
                E::pair::<O, $vector>(to, one, other);
            }

            $(#[target_feature(enable = $feature)])?
            fn widen<E: Element>(wide: &mut [Loose<E::Wide>], source: &[Loose<E>]) {
                E::widen_all::<$vector>(wide, source);
            }

            $(#[target_feature(enable = $feature)])?
            fn accumulate<E: Element, O: BinaryOperation<E::Wide>>(
                wide: &mut [Loose<E::Wide>],
                source: &[Loose<E>],
            ) {
                E::accumulate::<O, $vector>(wide, source, |source| source);
            }

            $(#[target_feature(enable = $feature)])?
            fn accumulate_multiplied<E: Element>(
                wide: &mut [Loose<E::Wide>],
                source: &[Loose<E>],
                factor: E::Wide,
            ) {
                element::accumulate_multiplied::<E, $vector>(wide, source, factor);
            }

            $(#[target_feature(enable = $feature)])?
            fn multiply<E: Element>(wide: &mut [Loose<E::Wide>], factor: E::Wide) {
                element::multiply(wide, factor);
            }

            $(#[target_feature(enable = $feature)])?
            fn divide<E: Element>(wide: &mut [Loose<E::Wide>], by: u32) {
                element::divide(wide, by);
            }

            $(#[target_feature(enable = $feature)])?
            fn narrow<E: Element>(to: &mut [Loose<E>], wide: &[Loose<E::Wide>]) {
                E::narrow_all::<$vector>(to, wide);
            }

            // The caller keeps the promise of `Loops` and has checked the processor's instructions.
            pub fn loops<E: Element, O: BinaryOperation<E::Wide>>() -> Loops {
                Loops {
                    pair: |to, one, other, count| {
                        // SAFETY: as above.
                        unsafe {
                            let (one, other) = (slice(one.cast(), count), slice(other.cast(), count));
                            pair::<E, O>(slice_mut(to.cast(), count), one, other);
                        }
                    },
                    widen: |wide, source, count| {
                        // SAFETY: as above.
                        unsafe {
                            widen::<E>(slice_mut(wide.cast(), count), slice(source.cast(), count));
                        }
                    },
                    accumulate: |wide, source, count| {
                        // SAFETY: as above.
                        unsafe {
                            let source = slice(source.cast(), count);
                            accumulate::<E, O>(slice_mut(wide.cast(), count), source);
                        }
                    },
                    accumulate_multiplied: |wide, source, factor, count| {
                        let factor = E::from_low_bytes(factor).widen();
                        // SAFETY: as above.
                        unsafe {
                            let source = slice(source.cast(), count);
                            accumulate_multiplied::<E>(slice_mut(wide.cast(), count), source, factor);
                        }
                    },
                    multiply: |wide, factor, count| {
                        let factor = E::from_low_bytes(factor).widen();
                        // SAFETY: as above.
                        unsafe { multiply::<E>(slice_mut(wide.cast(), count), factor) };
                    },
                    divide: |wide, by, count| {
                        // SAFETY: as above.
                        unsafe { divide::<E>(slice_mut(wide.cast(), count), by) };
                    },
                    narrow: |to, wide, count| {
                        // SAFETY: as above.
                        unsafe {
                            narrow::<E>(slice_mut(to.cast(), count), slice(wide.cast(), count));
                        }
                    },
                }
            }
        }
    };
}

compiled!(basic, Plain);
#[cfg(target_arch = "x86_64")]
compiled!(wide, F16c, "avx2,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(widest, F16c, "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl");
