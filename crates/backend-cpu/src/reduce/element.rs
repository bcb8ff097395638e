//! Element types in memory and during reduction, and the loops over them.
//!
//! The compiler vectorizes these loops: slices do not overlap, and no alignment is assumed. Only
//! the conversion of 16-bit floats uses explicit instructions.

use half::{bf16, f16};

use super::number::{BinaryOperation, Number, Sum};
use super::vectors::{LANES, Loose, Vector};

/// An element type with its loops.
pub trait Element: Copy {
    /// The type during reduction.
    type Wide: Number;

    /// Converts to the wide type.
    fn widen(self) -> Self::Wide;

    /// Rounds to the nearest element.
    fn narrow(wide: Self::Wide) -> Self;

    /// The element in the low bytes.
    fn from_low_bytes(bytes: u64) -> Self;

    /// Reduces two sources.
    #[inline(always)]
    fn pair<O: BinaryOperation<Self::Wide>, V: Vector>(
        to: &mut [Loose<Self>],
        one: &[Loose<Self>],
        other: &[Loose<Self>],
    ) {
        for ((to, one), other) in to.iter_mut().zip(one).zip(other) {
            *to = Loose(Self::narrow(O::apply(
                one.get().widen(),
                other.get().widen(),
            )));
        }
    }

    /// Reduces a mapped source into the result.
    #[inline(always)]
    fn accumulate<O: BinaryOperation<Self::Wide>, V: Vector>(
        wide: &mut [Loose<Self::Wide>],
        source: &[Loose<Self>],
        map: impl Fn(Self::Wide) -> Self::Wide,
    ) {
        for (wide, source) in wide.iter_mut().zip(source) {
            *wide = Loose(O::apply(wide.get(), map(source.get().widen())));
        }
    }

    /// Initializes the result with a source.
    #[inline(always)]
    fn widen_all<V: Vector>(wide: &mut [Loose<Self::Wide>], source: &[Loose<Self>]) {
        for (wide, source) in wide.iter_mut().zip(source) {
            *wide = Loose(source.get().widen());
        }
    }

    /// Rounds the result to elements.
    #[inline(always)]
    fn narrow_all<V: Vector>(to: &mut [Loose<Self>], wide: &[Loose<Self::Wide>]) {
        for (to, wide) in to.iter_mut().zip(wide) {
            *to = Loose(Self::narrow(wide.get()));
        }
    }
}

macro_rules! as_they_are {
    ($($number:ty, $from:expr;)*) => {$(
        impl Element for $number {
            type Wide = Self;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }

            #[inline(always)]
            fn from_low_bytes(bytes: u64) -> Self {
                $from(bytes)
            }
        }
    )*};
}

as_they_are! {
    i8, |bytes| bytes as i8;
    u8, |bytes| bytes as u8;
    i16, |bytes| bytes as i16;
    i32, |bytes| bytes as i32;
    u32, |bytes| bytes as u32;
    i64, |bytes| bytes as i64;
    u64, |bytes| bytes;
    f32, |bytes| f32::from_bits(bytes as u32);
    f64, f64::from_bits;
}

impl Element for bf16 {
    type Wide = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let odd = bits >> 16 & 1;
        let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
        // A NaN must stay one when its low bits are cut off.
        let quiet = bits >> 16 | 0x40;
        Self::from_bits(if wide.is_nan() { quiet } else { rounded } as u16)
    }

    #[inline(always)]
    fn from_low_bytes(bytes: u64) -> Self {
        Self::from_bits(bytes as u16)
    }
}

impl Element for f16 {
    type Wide = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32_const()
    }

    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        Self::from_f32_const(wide)
    }

    #[inline(always)]
    fn from_low_bytes(bytes: u64) -> Self {
        Self::from_bits(bytes as u16)
    }

    #[inline(always)]
    fn pair<O: BinaryOperation<Self::Wide>, V: Vector>(
        to: &mut [Loose<Self>],
        one: &[Loose<Self>],
        other: &[Loose<Self>],
    ) {
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        let (one, one_rest) = one.as_chunks::<LANES>();
        let (other, other_rest) = other.as_chunks::<LANES>();
        for ((to, one), other) in to.iter_mut().zip(one).zip(other) {
            let mut wide = V::widen(one);
            for (wide, other) in wide.iter_mut().zip(V::widen(other)) {
                *wide = O::apply(*wide, other);
            }
            *to = V::narrow(wide);
        }
        for ((to, one), other) in to_rest.iter_mut().zip(one_rest).zip(other_rest) {
            *to = Loose(Self::narrow(O::apply(
                one.get().widen(),
                other.get().widen(),
            )));
        }
    }

    #[inline(always)]
    fn accumulate<O: BinaryOperation<Self::Wide>, V: Vector>(
        wide: &mut [Loose<f32>],
        source: &[Loose<Self>],
        map: impl Fn(f32) -> f32,
    ) {
        let (wide, wide_rest) = wide.as_chunks_mut::<LANES>();
        let (source, source_rest) = source.as_chunks::<LANES>();
        for (wide, source) in wide.iter_mut().zip(source) {
            for (wide, source) in wide.iter_mut().zip(V::widen(source)) {
                *wide = Loose(O::apply(wide.get(), map(source)));
            }
        }
        for (wide, source) in wide_rest.iter_mut().zip(source_rest) {
            *wide = Loose(O::apply(wide.get(), map(source.get().widen())));
        }
    }

    #[inline(always)]
    fn widen_all<V: Vector>(wide: &mut [Loose<f32>], source: &[Loose<Self>]) {
        let (wide, wide_rest) = wide.as_chunks_mut::<LANES>();
        let (source, source_rest) = source.as_chunks::<LANES>();
        for (wide, source) in wide.iter_mut().zip(source) {
            *wide = V::widen(source).map(Loose);
        }
        for (wide, source) in wide_rest.iter_mut().zip(source_rest) {
            *wide = Loose(source.get().widen());
        }
    }

    #[inline(always)]
    fn narrow_all<V: Vector>(to: &mut [Loose<Self>], wide: &[Loose<f32>]) {
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        let (wide, wide_rest) = wide.as_chunks::<LANES>();
        for (to, wide) in to.iter_mut().zip(wide) {
            *to = V::narrow(wide.map(Loose::get));
        }
        for (to, wide) in to_rest.iter_mut().zip(wide_rest) {
            *to = Loose(Self::narrow(wide.get()));
        }
    }
}

#[inline(always)]
pub fn multiply<N: Number>(wide: &mut [Loose<N>], factor: N) {
    for wide in wide {
        *wide = Loose(wide.get().multiply(factor));
    }
}

/// Divides the result; the divisor is never 0.
#[inline(always)]
pub fn divide<N: Number>(wide: &mut [Loose<N>], by: u32) {
    for wide in wide {
        *wide = Loose(wide.get().divide(by));
    }
}

/// Adds a source times a factor.
#[inline(always)]
pub fn accumulate_multiplied<E: Element, V: Vector>(
    wide: &mut [Loose<E::Wide>],
    source: &[Loose<E>],
    factor: E::Wide,
) {
    E::accumulate::<Sum, V>(wide, source, |source| source.multiply(factor));
}
