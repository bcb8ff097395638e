//! The arithmetic of reductions.

/// A number type with the arithmetic of reductions. Integers wrap around.
pub trait Number: Copy {
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// The smaller; if one is NaN, the other.
    fn minimum(self, other: Self) -> Self;
    /// The larger; if one is NaN, the other.
    fn maximum(self, other: Self) -> Self;
    /// The quotient; integers are truncated. The divisor is never 0.
    fn divide(self, by: u32) -> Self;
}

/// An integer, whose bits can be combined.
pub trait Integer: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                // Not `min`: in some loops it becomes a call of the C library.
                if self < other || other.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                if self > other || other.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn divide(self, by: u32) -> Self {
                self / by as $float
            }
        }
    )*};
}

floats!(f32, f64);

macro_rules! integers {
    ($($integer:ty, $divide:expr;)*) => {$(
        impl Number for $integer {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn divide(self, by: u32) -> Self {
                $divide(self, by)
            }
        }

        impl Integer for $integer {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

/// Divides small integers as floats, because processors have no integer vector division. Unless it
/// is whole, the quotient differs from a whole number by at least 1/divisor, more than the float's
/// rounding error.
macro_rules! by_floats {
    ($integer:ty, $float:ty) => {
        |value: $integer, by: u32| {
            // SAFETY: the divisor is 1 or more, so the quotient is no larger than the value.
            unsafe { (value as $float / by as $float).to_int_unchecked::<$integer>() }
        }
    };
}

integers! {
    i8, by_floats!(i8, f32);
    u8, by_floats!(u8, f32);
    i16, by_floats!(i16, f32);
    i32, by_floats!(i32, f64);
    u32, by_floats!(u32, f64);
    i64, |value: i64, by: u32| value / i64::from(by);
    u64, |value: u64, by: u32| value / u64::from(by);
}

/// A binary operation on numbers of a type.
pub trait BinaryOperation<N> {
    fn apply(one: N, other: N) -> N;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $bound:ident, $method:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl<N: $bound> BinaryOperation<N> for $name {
            #[inline(always)]
            fn apply(one: N, other: N) -> N {
                one.$method(other)
            }
        }
    )*};
}

operations! {
    /// One plus the other.
    Sum: Number, add;
    /// One times the other.
    Product: Number, multiply;
    /// The smaller.
    Minimum: Number, minimum;
    /// The larger.
    Maximum: Number, maximum;
    /// The bits of both.
    And: Integer, and;
    /// The bits of either.
    Or: Integer, or;
    /// The bits of one.
    Xor: Integer, xor;
}
