//! The collectives: with two buffers and in place.

use std::ops::Range;

use program::{Collective, Reduction};

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::element::Element;
use crate::error::Error;
use crate::memory::Memory;
use crate::operation::Operation;
use crate::request::Request;

const WHOLE: &str = "input and output hold the message";
const PER_RANK: &str = "one side holds a block for each rank, the other one block";
const ALL_BLOCKS: &str = "it holds a block for each rank";

/// The buffers of a collective.
#[derive(Debug)]
pub enum Buffers<'a, T> {
    /// An input and an output.
    Separate(&'a [T], &'a mut [T]),
    /// One buffer for both. If one side has one block and the other a block for each rank, the one
    /// block is the rank's own.
    InPlace(&'a mut [T]),
}

impl<'a, T, I, O> From<(&'a I, &'a mut O)> for Buffers<'a, T>
where
    I: AsRef<[T]> + ?Sized,
    O: AsMut<[T]> + ?Sized,
{
    #[inline]
    fn from((input, output): (&'a I, &'a mut O)) -> Self {
        Self::Separate(input.as_ref(), output.as_mut())
    }
}

impl<'a, T, S: AsMut<[T]> + ?Sized> From<&'a mut S> for Buffers<'a, T> {
    #[inline]
    fn from(buffer: &'a mut S) -> Self {
        Self::InPlace(buffer.as_mut())
    }
}

/// The count of a launch in one buffer, and the ranges of its input and output.
type Ranges = (usize, Range<usize>, Range<usize>);

impl<B: Backend> Communicator<B> {
    /// A request without a root.
    fn request<T: Element>(&self, collective: Collective, count: usize) -> Request {
        Request {
            collective,
            element: T::TYPE,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count: count as u64,
            choice: self.choice,
        }
    }

    /// Runs any collective but transfers. Collectives that do not reduce ignore `operation`, those
    /// without a root ignore `root`.
    ///
    /// # Errors
    /// The lengths do not fit, there is no such root, the collective is a transfer, or the launch
    /// failed.
    #[inline]
    pub fn collective<'a, T: Element>(
        &mut self,
        collective: Collective,
        buffers: impl Into<Buffers<'a, T>>,
        operation: impl Into<Operation<T>>,
        root: u32,
    ) -> Result<(), Error> {
        let (request, scalar, memory) = match buffers.into() {
            Buffers::Separate(input, output) => {
                let count = self.count(collective, input, output, root)?;
                let (request, scalar) = self.complete(collective, count, operation, root);
                (request, scalar, Memory::separate(input, output))
            }
            Buffers::InPlace(buffer) => {
                let (count, input, output) = self.ranges(collective, buffer, root)?;
                let (request, scalar) = self.complete(collective, count, operation, root);
                let request = Request {
                    in_place: true,
                    ..request
                };
                (request, scalar, Memory::of_one(buffer, input, output))
            }
        };
        self.engine.launch(&request, memory, scalar)
    }

    /// The request with reduction and root if the collective has them, and the scalar of the
    /// operation.
    #[inline]
    fn complete<T: Element>(
        &self,
        collective: Collective,
        count: usize,
        operation: impl Into<Operation<T>>,
        root: u32,
    ) -> (Request, u64) {
        let mut request = self.request::<T>(collective, count);
        let mut scalar = 0;
        if collective.has_root() {
            request.root = root;
        }
        if collective.reduces() {
            let operation = operation.into();
            request.reduction = operation.reduction;
            scalar = operation.scalar.bits();
        }
        (request, scalar)
    }

    /// Whether this rank's buffers must fit: it is the root, or there is none.
    #[inline]
    fn has_all(&self, collective: Collective, root: u32) -> Result<bool, Error> {
        if !collective.has_root() {
            return Ok(true);
        }
        self.expect_rank(root)?;
        Ok(self.rank == root)
    }

    /// The count of a request with two buffers. If both are used, their lengths must fit.
    #[inline]
    fn count<T>(
        &self,
        collective: Collective,
        input: &[T],
        output: &[T],
        root: u32,
    ) -> Result<usize, Error> {
        let (input, output) = (input.len(), output.len());
        let ranks = self.ranks as usize;
        let has_all = self.has_all(collective, root)?;
        let (count, side, found, expected, why) = match collective {
            Collective::AllReduce | Collective::Reduce => {
                (input, "the output", output, input, WHOLE)
            }
            Collective::Broadcast => (output, "the output", output, input, WHOLE),
            Collective::AllToAll => {
                let count = self.block(collective, input)?;
                (count, "the output", output, input, ALL_BLOCKS)
            }
            Collective::AllGather | Collective::Gather => {
                (input, "the output", output, input * ranks, PER_RANK)
            }
            Collective::ReduceScatter | Collective::Scatter => {
                (output, "the input", input, output * ranks, PER_RANK)
            }
            Collective::SendRecv => return Err(self.transfer()),
        };
        if has_all {
            Self::expect(collective, side, found, expected, why)?;
        }
        Ok(count)
    }

    /// The count and ranges of a request in place.
    #[inline]
    fn ranges<T>(&self, collective: Collective, buffer: &[T], root: u32) -> Result<Ranges, Error> {
        let all = 0..buffer.len();
        let has_all = self.has_all(collective, root)?;
        let count = match collective {
            Collective::SendRecv => return Err(self.transfer()),
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => buffer.len(),
            _ if !has_all => buffer.len(),
            _ => self.block(collective, buffer.len())?,
        };
        let begin = self.rank as usize * count;
        let own = begin..begin + count;
        Ok(match collective {
            Collective::AllGather | Collective::Gather if has_all => (count, own, all),
            Collective::ReduceScatter | Collective::Scatter if has_all => (count, all, own),
            _ => (count, all.clone(), all),
        })
    }

    /// The block length of a buffer with a block for each rank.
    fn block(&self, collective: Collective, length: usize) -> Result<usize, Error> {
        let ranks = self.ranks as usize;
        let count = length / ranks;
        Self::expect(collective, "the buffer", length, count * ranks, ALL_BLOCKS)?;
        Ok(count)
    }

    /// Refuses a transfer, which is part of a group.
    pub(crate) fn expect_collective(&self, request: &Request) -> Result<(), Error> {
        match request.collective {
            Collective::SendRecv => Err(self.transfer()),
            _ => Ok(()),
        }
    }

    #[cold]
    fn transfer(&self) -> Error {
        Error::Unsupported {
            collective: Collective::SendRecv,
            ranks: self.ranks,
            why: "a transfer is part of a group and needs two buffers".to_owned(),
        }
    }

    /// Reduces the inputs of all ranks into the output of each.
    ///
    /// # Errors
    /// The buffers have different lengths, or the launch failed.
    #[inline]
    pub fn all_reduce<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        self.collective(Collective::AllReduce, buffers, operation, 0)
    }

    /// Reduces the inputs of all ranks; each rank gets its block of the result. The input has a
    /// block for each rank. In place, the other blocks are lost.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn reduce_scatter<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        self.collective(Collective::ReduceScatter, buffers, operation, 0)
    }

    /// Gives every rank's input to all ranks. The output has a block for each rank.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn all_gather<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
    ) -> Result<(), Error> {
        self.collective(Collective::AllGather, buffers, Reduction::Sum, 0)
    }

    /// Gives each rank its block of every rank's input. Block r of the output comes from rank r.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn all_to_all<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
    ) -> Result<(), Error> {
        self.collective(Collective::AllToAll, buffers, Reduction::Sum, 0)
    }

    /// Gives the root's input to all ranks. The input of other ranks is not read and may be empty.
    ///
    /// # Errors
    /// The root's buffers have different lengths, there is no such root, or the launch failed.
    pub fn broadcast<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.collective(Collective::Broadcast, buffers, Reduction::Sum, root)
    }

    /// Reduces the inputs of all ranks into the root's output. The output of other ranks is not
    /// written and may be empty; in place, the contents of their buffers are unspecified
    /// afterwards.
    ///
    /// # Errors
    /// The root's buffers have different lengths, there is no such root, or the launch failed.
    pub fn reduce<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        operation: impl Into<Operation<T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.collective(Collective::Reduce, buffers, operation, root)
    }

    /// Gives every rank's input to the root, whose output has a block for each rank. The output of
    /// other ranks is not written and may be empty; in place, their buffers have one block.
    ///
    /// # Errors
    /// The lengths do not fit, there is no such root, or the launch failed.
    pub fn gather<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.collective(Collective::Gather, buffers, Reduction::Sum, root)
    }

    /// Gives each rank its block of the root's input. The input of other ranks is not read and may
    /// be empty; in place, their buffers have one block.
    ///
    /// # Errors
    /// The lengths do not fit, there is no such root, or the launch failed.
    pub fn scatter<'a, T: Element>(
        &mut self,
        buffers: impl Into<Buffers<'a, T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.collective(Collective::Scatter, buffers, Reduction::Sum, root)
    }
}
