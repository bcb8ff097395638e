//! What lies in memory, and as what it is reduced.

use half::{bf16, f16};

use super::number::Number;
use super::vectors::Instructions;

/// A block of elements as it is loaded and stored at once.
pub trait Element: Copy {
    /// As what it is reduced.
    type Wide: Number;

    /// To what is reduced.
    fn widen<I: Instructions, const N: usize>(block: [Self; N]) -> [Self::Wide; N];

    /// Back from it, rounded to the nearest.
    fn narrow<I: Instructions, const N: usize>(block: [Self::Wide; N]) -> [Self; N];

    /// The element with these bytes at the low end.
    fn from_low_bytes(bytes: u64) -> Self;
}

macro_rules! as_they_are {
    ($($number:ty, $from:expr;)*) => {$(
        impl Element for $number {
            type Wide = Self;

            #[inline(always)]
            fn widen<I: Instructions, const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }

            #[inline(always)]
            fn narrow<I: Instructions, const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }

            fn from_low_bytes(bytes: u64) -> Self {
                $from(bytes)
            }
        }
    )*};
}

as_they_are! {
    i8, |bytes| bytes as i8;
    u8, |bytes| bytes as u8;
    i32, |bytes| bytes as i32;
    u32, |bytes| bytes as u32;
    i64, |bytes| bytes as i64;
    u64, |bytes| bytes;
    f32, |bytes| f32::from_bits(bytes as u32);
    f64, f64::from_bits;
}

impl Element for f16 {
    type Wide = f32;

    #[inline(always)]
    fn widen<I: Instructions, const N: usize>(block: [Self; N]) -> [f32; N] {
        I::widen(block)
    }

    #[inline(always)]
    fn narrow<I: Instructions, const N: usize>(block: [f32; N]) -> [Self; N] {
        I::narrow(block)
    }

    fn from_low_bytes(bytes: u64) -> Self {
        Self::from_bits(bytes as u16)
    }
}

impl Element for bf16 {
    type Wide = f32;

    #[inline(always)]
    fn widen<I: Instructions, const N: usize>(block: [Self; N]) -> [f32; N] {
        block.map(|element| f32::from_bits(u32::from(element.to_bits()) << 16))
    }

    #[inline(always)]
    fn narrow<I: Instructions, const N: usize>(block: [f32; N]) -> [Self; N] {
        block.map(|wide| {
            let bits = wide.to_bits();
            let odd = bits >> 16 & 1;
            let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
            // A NaN stays one, though its low bits are cut off.
            let quiet = bits >> 16 | 0x40;
            Self::from_bits(if wide.is_nan() { quiet } else { rounded } as u16)
        })
    }

    fn from_low_bytes(bytes: u64) -> Self {
        Self::from_bits(bytes as u16)
    }
}
