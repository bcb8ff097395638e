//! Checks the result of a collective: every rank can compute the inputs of all others.

use std::ops::Range;

use program::{Collective, Reduction};

use crate::backend::Backend;
use crate::collectives::Buffers;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::operation::Operation;
pub use crate::sample::{ForType, Sample, of_type};

/// Random bits for an index of a rank's input (the finalizer of splitmix64, public domain).
#[inline]
fn bits(seed: u64, rank: u32, index: u64) -> u64 {
    let mut x =
        (index ^ seed).wrapping_add(u64::from(rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Elements per comparison.
const BLOCK: usize = 256;

/// A collective and its inputs.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The collective.
    pub collective: Collective,
    /// The reduction.
    pub reduction: Reduction,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The root; for transfers, the distance from sender to receiver.
    pub root: u32,
    /// Elements of one block.
    pub count: usize,
    /// The seed of the inputs.
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

    /// Writes a rank's input, from element `first` on.
    pub fn fill<T: Sample>(&self, rank: u32, first: usize, input: &mut [T]) {
        let narrow = self.reduction == Reduction::Product;
        for (value, index) in input.iter_mut().zip(first as u64..) {
            *value = T::sample(bits(self.seed, rank, index), narrow);
        }
    }

    /// Counts the wrong elements of a rank's output.
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
                let blocks = output.chunks(BLOCK).zip((offset..).step_by(BLOCK));
                blocks
                    .map(|(block, at)| self.wrong_reduced(at, block))
                    .sum()
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

impl Check {
    /// Counts the wrong elements of up to [`BLOCK`] reduced elements from index `at` on.
    fn wrong_reduced<T: Sample>(&self, at: usize, output: &[T]) -> usize {
        let mut expected = [T::nothing(self.reduction); BLOCK];
        let mut values = [T::default(); BLOCK];
        let (expected, values) = (&mut expected[..output.len()], &mut values[..output.len()]);
        for rank in 0..self.ranks {
            self.fill(rank, at, values);
            T::add(self.reduction, rank, values, expected);
        }
        let both = output.iter().zip(expected);
        both.filter(|(got, expected)| !got.agrees(self.reduction, self.ranks, **expected))
            .count()
    }
}

/// Changes every element of an output, so that results of an earlier launch do not pass as those of
/// the next.
pub fn spoil<T: Sample>(output: &mut [T]) {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(output);
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

/// The launches that a [`Check`] describes.
impl Check {
    /// The layout of a rank's buffer in place: its elements, and the ranges of input and output.
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

    /// Runs it with two buffers of [`Self::input_elements`] and [`Self::output_elements`], or with
    /// one of the layout [`Self::in_place`]. Transfers need two.
    ///
    /// # Errors
    /// The launch failed.
    pub fn launch<'a, T: Sample, B: Backend>(
        &self,
        communicator: &mut Communicator<B>,
        buffers: impl Into<Buffers<'a, T>>,
    ) -> Result<(), Error> {
        match (self.collective, buffers.into()) {
            (Collective::SendRecv, Buffers::Separate(input, output)) => {
                let (rank, ranks) = (communicator.rank(), communicator.ranks());
                let further = self.root % ranks;
                let mut group = communicator.group_start();
                group.send(input, (rank + further) % ranks)?;
                group.receive(output, (rank + ranks - further) % ranks)?;
                group.group_end()
            }
            (collective, buffers) => {
                let operation = self.operation(communicator.rank());
                communicator.collective(collective, buffers, operation, self.root)
            }
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
}
