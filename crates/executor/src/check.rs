//! Whether a collective gave the right result: inputs that every rank can compute of every other, and the comparison.
//!
//! Integers must be equal to the bit. Floating-point sums may be rounded in any order: a result may differ from the one
//! in 64 bits by (ranks + 2) · ε · Σ|x|, where ε is the distance from 1 to the next number of the type; a product by
//! (ranks + 2) · ε · Π|x|. Minimum, maximum and what is only moved must be equal to the bit.

use std::ops::Range;

use half::{bf16, f16};
use plan::{Collective, ElementType, Reduction};

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::element::Element;
use crate::error::Error;
use crate::operation::Operation;

/// A type with inputs to be checked.
pub trait Sample: Element + PartialEq {
    /// A value made of random bits. `narrow` asks for values whose product over many ranks stays in range.
    fn sample(bits: u64, narrow: bool) -> Self;

    /// By what a rank multiplies, for [`Reduction::PreMultipliedSum`].
    fn scalar(rank: u32) -> Self;

    /// Whether this is what the ranks' values reduce to.
    fn agrees(self, reduction: Reduction, values: &[Self]) -> bool;
}

macro_rules! integer {
    ($($type:ty)*) => {
        $(
            impl Sample for $type {
                fn sample(bits: u64, _narrow: bool) -> Self {
                    bits as $type
                }

                fn scalar(rank: u32) -> Self {
                    (rank % 5 + 2) as $type
                }

                fn agrees(self, reduction: Reduction, values: &[Self]) -> bool {
                    let all = values.iter().copied();
                    let sum = || all.clone().fold(0, <$type>::wrapping_add);
                    let expected = match reduction {
                        Reduction::Sum => sum(),
                        Reduction::Product => all.fold(1, <$type>::wrapping_mul),
                        Reduction::Minimum => all.fold(<$type>::MAX, Ord::min),
                        Reduction::Maximum => all.fold(<$type>::MIN, Ord::max),
                        // As many ranks as an 8-bit number cannot count would need a wider division.
                        Reduction::Average => {
                            (i128::from(sum()) / values.len().max(1) as i128) as $type
                        }
                        Reduction::PreMultipliedSum => all
                            .zip(0..)
                            .map(|(value, rank)| value.wrapping_mul(Self::scalar(rank)))
                            .fold(0, <$type>::wrapping_add),
                    };
                    self == expected
                }
            }
        )*
    };
}

integer!(i8 u8 i32 u32 i64 u64);

macro_rules! float {
    ($($type:ty, $wide:expr, $narrow:expr, $epsilon:expr;)*) => {
        $(
            impl Sample for $type {
                fn sample(bits: u64, narrow: bool) -> Self {
                    // 24 random bits, from -1 to 1.
                    let unit = ((bits >> 40) as f64 - 8_388_608.0) / 8_388_608.0;
                    let to: fn(f64) -> $type = $narrow;
                    to(if narrow { 1.0 + unit / 4.0 } else { unit })
                }

                fn scalar(rank: u32) -> Self {
                    let to: fn(f64) -> $type = $narrow;
                    to(0.75 + f64::from(rank % 5) / 4.0)
                }

                fn agrees(self, reduction: Reduction, values: &[Self]) -> bool {
                    let wide: fn($type) -> f64 = $wide;
                    let epsilon: f64 = $epsilon;
                    let all = values.iter().map(|value| wide(*value));
                    let ranks = values.len().max(1) as f64;
                    let (expected, size): (f64, f64) = match reduction {
                        Reduction::Sum => (all.clone().sum(), all.map(f64::abs).sum()),
                        Reduction::Average => {
                            let sum: f64 = all.clone().sum();
                            let size: f64 = all.map(f64::abs).sum();
                            (sum / ranks, size / ranks)
                        }
                        Reduction::Product => {
                            let product: f64 = all.product();
                            (product, product.abs())
                        }
                        Reduction::Minimum => (all.fold(f64::INFINITY, f64::min), 0.0),
                        Reduction::Maximum => (all.fold(f64::NEG_INFINITY, f64::max), 0.0),
                        Reduction::PreMultipliedSum => {
                            let scaled = all
                                .zip(0..)
                                .map(|(value, rank)| value * wide(Self::scalar(rank)));
                            (scaled.clone().sum(), scaled.map(f64::abs).sum())
                        }
                    };
                    (wide(self) - expected).abs() <= (ranks + 2.0) * epsilon * size
                }
            }
        )*
    };
}

float! {
    f16, f64::from, f16::from_f64, f16::EPSILON.to_f64();
    bf16, f64::from, bf16::from_f64, bf16::EPSILON.to_f64();
    f32, f64::from, |value| value as f32, f64::from(f32::EPSILON);
    f64, |value| value, |value| value, f64::EPSILON;
}

/// What is done for each element type alike.
pub trait ForType {
    /// What comes of it.
    type Output;

    /// Does it for one type.
    fn run<T: Sample>(self) -> Self::Output;
}

/// Does it for the type of that name.
pub fn of_type<W: ForType>(element: ElementType, work: W) -> W::Output {
    match element {
        ElementType::I8 => work.run::<i8>(),
        ElementType::U8 => work.run::<u8>(),
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

/// Random bits of a place in a rank's input (the finalizer of splitmix64, public domain).
#[inline]
fn bits(seed: u64, rank: u32, index: u64) -> u64 {
    let mut x =
        (index ^ seed).wrapping_add(u64::from(rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// One collective to be checked.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// What all ranks do together.
    pub collective: Collective,
    /// How elements are reduced.
    pub reduction: Reduction,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The root; of a transfer, how far further each rank sends.
    pub root: u32,
    /// Elements of one block.
    pub count: usize,
    /// Different inputs for different seeds.
    pub seed: u64,
}

impl Check {
    /// Elements of a rank's input.
    pub const fn input_elements(&self, rank: u32) -> usize {
        match self.collective {
            Collective::ReduceScatter | Collective::AllToAll => self.count * self.ranks as usize,
            Collective::Scatter if rank == self.root => self.count * self.ranks as usize,
            Collective::Broadcast | Collective::Scatter if rank != self.root => 0,
            _ => self.count,
        }
    }

    /// Elements of a rank's output.
    pub const fn output_elements(&self, rank: u32) -> usize {
        match self.collective {
            Collective::AllGather | Collective::AllToAll => self.count * self.ranks as usize,
            Collective::Gather if rank == self.root => self.count * self.ranks as usize,
            Collective::Gather | Collective::Reduce if rank != self.root => 0,
            _ => self.count,
        }
    }

    /// Writes a rank's input, or a part of it that begins at element `first`.
    pub fn fill<T: Sample>(&self, rank: u32, first: usize, input: &mut [T]) {
        let narrow = self.reduction == Reduction::Product;
        for (value, index) in input.iter_mut().zip(first as u64..) {
            *value = T::sample(bits(self.seed, rank, index), narrow);
        }
    }

    /// How many elements of a rank's output are wrong.
    pub fn wrong<T: Sample>(&self, rank: u32, output: &[T]) -> usize {
        let narrow = self.reduction == Reduction::Product;
        let value = |of: u32, index: usize| T::sample(bits(self.seed, of, index as u64), narrow);
        let count = self.count;
        let moved = |from: u32, offset: usize, block: &[T]| {
            let pairs = block.iter().zip(offset..);
            pairs.filter(|(got, at)| **got != value(from, *at)).count()
        };
        let own = rank as usize * count;
        match self.collective {
            Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter => {
                let offset = match self.collective {
                    Collective::ReduceScatter => own,
                    _ => 0,
                };
                let mut values = vec![T::default(); self.ranks as usize];
                let mut wrong = 0;
                for (got, at) in output.iter().zip(offset..) {
                    for (value_of, of) in values.iter_mut().zip(0..) {
                        *value_of = value(of, at);
                    }
                    wrong += usize::from(!got.agrees(self.reduction, &values));
                }
                wrong
            }
            Collective::Broadcast => moved(self.root, 0, output),
            Collective::Scatter => moved(self.root, own, output),
            Collective::SendRecv => {
                let from = (rank + self.ranks - self.root % self.ranks) % self.ranks;
                moved(from, 0, output)
            }
            Collective::AllGather | Collective::Gather => {
                let blocks = output.chunks(count.max(1)).zip(0..);
                blocks.map(|(block, from)| moved(from, 0, block)).sum()
            }
            Collective::AllToAll => {
                let blocks = output.chunks(count.max(1)).zip(0..);
                blocks.map(|(block, from)| moved(from, own, block)).sum()
            }
        }
    }
}

/// The launches that a [`Check`] describes.
impl Check {
    /// Elements of the buffer with which a rank runs it in place, where its input is, and where its output.
    pub fn in_place(&self, rank: u32) -> (usize, Range<usize>, Range<usize>) {
        let own = rank as usize * self.count..(rank as usize + 1) * self.count;
        let all = 0..self.count * self.ranks as usize;
        let one = 0..self.count;
        let (input, output) = match self.collective {
            Collective::AllGather => (own, all),
            Collective::ReduceScatter => (all, own),
            Collective::AllToAll => (all.clone(), all),
            Collective::Gather if rank == self.root => (own, all),
            Collective::Scatter if rank == self.root => (all, own),
            Collective::Broadcast | Collective::Scatter if rank != self.root => (0..0, one),
            Collective::Gather | Collective::Reduce if rank != self.root => (one, 0..0),
            _ => (one.clone(), one),
        };
        (input.end.max(output.end), input, output)
    }

    /// Runs it with two buffers of as many elements as [`Self::input_elements`] and [`Self::output_elements`] say.
    ///
    /// # Errors
    /// What the launch meets.
    pub fn launch<T: Sample, B: Backend>(
        &self,
        communicator: &mut Communicator<B>,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        let operation = self.operation(communicator.rank());
        match self.collective {
            Collective::AllReduce => communicator.all_reduce(input, output, operation),
            Collective::AllGather => communicator.all_gather(input, output),
            Collective::ReduceScatter => communicator.reduce_scatter(input, output, operation),
            Collective::Broadcast => communicator.broadcast(input, output, self.root),
            Collective::Reduce => communicator.reduce(input, output, operation, self.root),
            Collective::AllToAll => communicator.all_to_all(input, output),
            Collective::Gather => communicator.gather(input, output, self.root),
            Collective::Scatter => communicator.scatter(input, output, self.root),
            Collective::SendRecv => {
                let (rank, ranks) = (communicator.rank(), communicator.ranks());
                let further = self.root % ranks;
                let mut group = communicator.group_start();
                group.send(input, (rank + further) % ranks)?;
                group.receive(output, (rank + ranks - further) % ranks)?;
                group.group_end()
            }
        }
    }

    /// Runs it with one buffer, as [`Self::in_place`] lays it out. Transfers have no such form.
    ///
    /// # Errors
    /// What the launch meets.
    pub fn launch_in_place<T: Sample, B: Backend>(
        &self,
        communicator: &mut Communicator<B>,
        buffer: &mut [T],
    ) -> Result<(), Error> {
        let operation = self.operation(communicator.rank());
        match self.collective {
            Collective::AllReduce => communicator.all_reduce_in_place(buffer, operation),
            Collective::AllGather => communicator.all_gather_in_place(buffer),
            Collective::ReduceScatter => communicator.reduce_scatter_in_place(buffer, operation),
            Collective::Broadcast => communicator.broadcast_in_place(buffer, self.root),
            Collective::Reduce => communicator.reduce_in_place(buffer, operation, self.root),
            Collective::AllToAll => communicator.all_to_all_in_place(buffer),
            Collective::Gather => communicator.gather_in_place(buffer, self.root),
            Collective::Scatter => communicator.scatter_in_place(buffer, self.root),
            Collective::SendRecv => Err(Error::Unsupported {
                collective: self.collective,
                ranks: self.ranks,
                why: "a transfer needs two buffers".to_owned(),
            }),
        }
    }

    fn operation<T: Sample>(&self, rank: u32) -> Operation<T> {
        match self.reduction {
            Reduction::PreMultipliedSum => Operation::pre_multiplied_sum(T::scalar(rank)),
            reduction => reduction.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_is_noticed() {
        let check = Check {
            collective: Collective::AllReduce,
            reduction: Reduction::Sum,
            ranks: 3,
            root: 0,
            count: 100,
            seed: 7,
        };
        let mut sum = vec![0_i32; 100];
        for rank in 0..3 {
            let mut input = vec![0_i32; 100];
            check.fill(rank, 0, &mut input);
            sum.iter_mut()
                .zip(input)
                .for_each(|(sum, value)| *sum = sum.wrapping_add(value));
        }
        assert_eq!(check.wrong(0, &sum), 0);
        sum[57] ^= 1 << 13;
        assert_eq!(check.wrong(0, &sum), 1);
    }

    #[test]
    fn a_float_may_be_rounded_but_not_wrong() {
        let values = [0.1_f32, 0.7, -0.3];
        assert!((0.1_f32 + 0.7 - 0.3).agrees(Reduction::Sum, &values));
        assert!(!0.500_01_f32.agrees(Reduction::Sum, &values));
        assert!(0.7_f32.agrees(Reduction::Maximum, &values));
        assert!(!0.700_000_1_f32.agrees(Reduction::Maximum, &values));
        assert!(!f32::NAN.agrees(Reduction::Sum, &values));
    }

    #[test]
    fn an_average_is_rounded_towards_zero() {
        assert!((-1_i32).agrees(Reduction::Average, &[-1, -2, -2]));
        assert!(1_u8.agrees(Reduction::Average, &[2, 2, 1]));
    }
}
