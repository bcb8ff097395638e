//! The element types of messages.

use half::{bf16, f16};
use program::ElementType;

mod sealed {
    pub trait Sealed {}
}

/// An element type. Every bit pattern is a value.
pub trait Element: bytemuck::Pod + Default + Send + Sync + sealed::Sealed {
    /// The type as a value.
    const TYPE: ElementType;

    /// One.
    const ONE: Self;

    /// The value in the low bytes of a word, for [`Part::scalar`](crate::backend::Part::scalar).
    fn bits(self) -> u64;
}

macro_rules! element {
    ($($type:ty, $name:ident, $one:expr, $bits:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const TYPE: ElementType = ElementType::$name;
                const ONE: Self = $one;

                fn bits(self) -> u64 {
                    let bits: fn($type) -> u64 = $bits;
                    bits(self)
                }
            }
        )*
    };
}

element! {
    i8, I8, 1, |value| u64::from(value as u8);
    u8, U8, 1, u64::from;
    i16, I16, 1, |value| u64::from(value as u16);
    i32, I32, 1, |value| u64::from(value as u32);
    u32, U32, 1, u64::from;
    i64, I64, 1, |value| value as u64;
    u64, U64, 1, |value| value;
    f16, F16, f16::ONE, |value| u64::from(value.to_bits());
    bf16, Bf16, bf16::ONE, |value| u64::from(value.to_bits());
    f32, F32, 1.0, |value| u64::from(value.to_bits());
    f64, F64, 1.0, f64::to_bits;
}
