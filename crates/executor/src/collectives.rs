//! The collectives, each with two buffers, in place, and where it helps in the background.

use std::sync::mpsc::channel;

use program::{Collective, Reduction};

use crate::backend::Backend;
use crate::background::Pending;
use crate::communicator::Communicator;
use crate::element::Element;
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;
use crate::operation::Operation;
use crate::request::Request;

const WHOLE: &str = "input and output hold the message";
const PER_RANK: &str = "one side holds a block for each rank, the other one block";
const ALL_BLOCKS: &str = "it holds a block for each rank";

impl<B: Backend> Communicator<B> {
    /// A request without a root.
    fn request<T: Element>(&self, collective: Collective, count: usize) -> Request {
        Request {
            collective,
            element: T::TYPE,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            in_place: false,
            count: count as u64,
            choice: self.choice,
        }
    }

    #[inline]
    fn launch(&mut self, request: &Request, memory: Memory<'_>, scalar: u64) -> Result<(), Error> {
        self.home.engine()?.launch(request, memory, scalar)
    }

    /// The length of a block where a buffer holds one for each rank.
    fn block<T>(&self, collective: Collective, buffer: &[T]) -> Result<usize, Error> {
        let ranks = self.ranks as usize;
        let count = buffer.len() / ranks;
        Self::expect(
            collective,
            "the buffer",
            buffer.len(),
            count * ranks,
            ALL_BLOCKS,
        )?;
        Ok(count)
    }

    /// Reduces the inputs of all ranks into everyone's output.
    ///
    /// # Errors
    /// The buffers have different lengths, or the launch failed.
    #[inline]
    pub fn all_reduce<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        let operation = operation.into();
        let collective = Collective::AllReduce;
        Self::expect(collective, "the output", output.len(), input.len(), WHOLE)?;
        let request = Request {
            reduction: operation.reduction,
            ..self.request::<T>(collective, input.len())
        };
        self.launch(
            &request,
            Memory::separate(input, output),
            operation.scalar.bits(),
        )
    }

    /// As [`Self::all_reduce`], with one buffer.
    ///
    /// # Errors
    /// The launch failed.
    #[inline]
    pub fn all_reduce_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        let operation = operation.into();
        let request = Request {
            reduction: operation.reduction,
            in_place: true,
            ..self.request::<T>(Collective::AllReduce, buffer.len())
        };
        self.launch(&request, whole(buffer), operation.scalar.bits())
    }

    /// Reduces the inputs of all ranks, and gives each rank its block of the result. The input holds a block for each
    /// rank.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn reduce_scatter<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        let operation = operation.into();
        let collective = Collective::ReduceScatter;
        let expected = output.len() * self.ranks as usize;
        Self::expect(collective, "the input", input.len(), expected, PER_RANK)?;
        let request = Request {
            reduction: operation.reduction,
            ..self.request::<T>(collective, output.len())
        };
        self.launch(
            &request,
            Memory::separate(input, output),
            operation.scalar.bits(),
        )
    }

    /// As [`Self::reduce_scatter`]; the result takes the place of the own rank's block, and the other blocks are lost.
    ///
    /// # Errors
    /// The length is no multiple of the number of ranks, or the launch failed.
    pub fn reduce_scatter_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        operation: impl Into<Operation<T>>,
    ) -> Result<(), Error> {
        let operation = operation.into();
        let count = self.block(Collective::ReduceScatter, buffer)?;
        let request = Request {
            reduction: operation.reduction,
            in_place: true,
            ..self.request::<T>(Collective::ReduceScatter, count)
        };
        let begin = self.rank as usize * count;
        let all = 0..buffer.len();
        let memory = Memory::of_one(buffer, all, begin..begin + count);
        self.launch(&request, memory, operation.scalar.bits())
    }

    /// Gives every rank's input to all. The output holds a block for each rank.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let collective = Collective::AllGather;
        let expected = input.len() * self.ranks as usize;
        Self::expect(collective, "the output", output.len(), expected, PER_RANK)?;
        let request = self.request::<T>(collective, input.len());
        self.launch(&request, Memory::separate(input, output), 0)
    }

    /// As [`Self::all_gather`]; the input is the own rank's block of the buffer.
    ///
    /// # Errors
    /// The length is no multiple of the number of ranks, or the launch failed.
    pub fn all_gather_in_place<T: Element>(&mut self, buffer: &mut [T]) -> Result<(), Error> {
        let count = self.block(Collective::AllGather, buffer)?;
        let request = Request {
            in_place: true,
            ..self.request::<T>(Collective::AllGather, count)
        };
        let begin = self.rank as usize * count;
        let all = 0..buffer.len();
        let memory = Memory::of_one(buffer, begin..begin + count, all);
        self.launch(&request, memory, 0)
    }

    /// Gives each rank its block of every rank's input: block r of the output is what rank r had for this rank.
    ///
    /// # Errors
    /// The lengths do not fit, or the launch failed.
    pub fn all_to_all<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let collective = Collective::AllToAll;
        let count = self.block(collective, input)?;
        Self::expect(
            collective,
            "the output",
            output.len(),
            input.len(),
            ALL_BLOCKS,
        )?;
        let request = self.request::<T>(collective, count);
        self.launch(&request, Memory::separate(input, output), 0)
    }

    /// As [`Self::all_to_all`], with one buffer.
    ///
    /// # Errors
    /// The length is no multiple of the number of ranks, or the launch failed.
    pub fn all_to_all_in_place<T: Element>(&mut self, buffer: &mut [T]) -> Result<(), Error> {
        let count = self.block(Collective::AllToAll, buffer)?;
        let request = Request {
            in_place: true,
            ..self.request::<T>(Collective::AllToAll, count)
        };
        self.launch(&request, whole(buffer), 0)
    }

    /// Gives the root's input to all. The other ranks' input is not read and may be empty.
    ///
    /// # Errors
    /// The root's buffers have different lengths, there is no such root, or the launch failed.
    pub fn broadcast<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let collective = Collective::Broadcast;
        if self.rank == root {
            Self::expect(collective, "the output", output.len(), input.len(), WHOLE)?;
        }
        let request = Request {
            root,
            ..self.request::<T>(collective, output.len())
        };
        self.launch(&request, Memory::separate(input, output), 0)
    }

    /// As [`Self::broadcast`], with one buffer.
    ///
    /// # Errors
    /// There is no such root, or the launch failed.
    pub fn broadcast_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let request = Request {
            root,
            in_place: true,
            ..self.request::<T>(Collective::Broadcast, buffer.len())
        };
        self.launch(&request, whole(buffer), 0)
    }

    /// Reduces the inputs of all ranks into the root's output. The other ranks' output is not written and may be empty.
    ///
    /// # Errors
    /// The root's buffers have different lengths, there is no such root, or the launch failed.
    pub fn reduce<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        operation: impl Into<Operation<T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let operation = operation.into();
        let collective = Collective::Reduce;
        if self.rank == root {
            Self::expect(collective, "the output", output.len(), input.len(), WHOLE)?;
        }
        let request = Request {
            reduction: operation.reduction,
            root,
            ..self.request::<T>(collective, input.len())
        };
        self.launch(
            &request,
            Memory::separate(input, output),
            operation.scalar.bits(),
        )
    }

    /// As [`Self::reduce`], with one buffer. What the other ranks' buffers hold afterwards is not said.
    ///
    /// # Errors
    /// There is no such root, or the launch failed.
    pub fn reduce_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        operation: impl Into<Operation<T>>,
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let operation = operation.into();
        let request = Request {
            reduction: operation.reduction,
            root,
            in_place: true,
            ..self.request::<T>(Collective::Reduce, buffer.len())
        };
        self.launch(&request, whole(buffer), operation.scalar.bits())
    }

    /// Gives every rank's input to the root, whose output holds a block for each rank. The other ranks' output is not
    /// written and may be empty.
    ///
    /// # Errors
    /// The lengths do not fit, there is no such root, or the launch failed.
    pub fn gather<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let collective = Collective::Gather;
        if self.rank == root {
            let expected = input.len() * self.ranks as usize;
            Self::expect(collective, "the output", output.len(), expected, PER_RANK)?;
        }
        let request = Request {
            root,
            ..self.request::<T>(collective, input.len())
        };
        self.launch(&request, Memory::separate(input, output), 0)
    }

    /// As [`Self::gather`]; the root's buffer holds a block for each rank with its own in place, the others' buffers
    /// hold their block.
    ///
    /// # Errors
    /// The root's length is no multiple of the number of ranks, there is no such root, or the launch failed.
    pub fn gather_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let (count, own) = self.own_block(Collective::Gather, buffer, root)?;
        let request = Request {
            root,
            in_place: true,
            ..self.request::<T>(Collective::Gather, count)
        };
        let all = 0..buffer.len();
        self.launch(&request, Memory::of_one(buffer, own, all), 0)
    }

    /// Gives each rank its block of the root's input. The other ranks' input is not read and may be empty.
    ///
    /// # Errors
    /// The lengths do not fit, there is no such root, or the launch failed.
    pub fn scatter<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let collective = Collective::Scatter;
        if self.rank == root {
            let expected = output.len() * self.ranks as usize;
            Self::expect(collective, "the input", input.len(), expected, PER_RANK)?;
        }
        let request = Request {
            root,
            ..self.request::<T>(collective, output.len())
        };
        self.launch(&request, Memory::separate(input, output), 0)
    }

    /// As [`Self::scatter`]; the root's buffer holds a block for each rank and keeps its own in place, the others'
    /// buffers get their block.
    ///
    /// # Errors
    /// The root's length is no multiple of the number of ranks, there is no such root, or the launch failed.
    pub fn scatter_in_place<T: Element>(
        &mut self,
        buffer: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.expect_rank(root)?;
        let (count, own) = self.own_block(Collective::Scatter, buffer, root)?;
        let request = Request {
            root,
            in_place: true,
            ..self.request::<T>(Collective::Scatter, count)
        };
        let all = 0..buffer.len();
        self.launch(&request, Memory::of_one(buffer, all, own), 0)
    }

    /// Elements of a block, and where the own one is in a buffer that holds all at the root and one elsewhere.
    fn own_block<T>(
        &self,
        collective: Collective,
        buffer: &[T],
        root: u32,
    ) -> Result<(usize, std::ops::Range<usize>), Error> {
        if self.rank != root {
            return Ok((buffer.len(), 0..buffer.len()));
        }
        let count = self.block(collective, buffer)?;
        let begin = self.rank as usize * count;
        Ok((count, begin..begin + count))
    }

    /// Starts [`Self::all_reduce_in_place`] in the background. Several may be under way; they are carried out in the
    /// order in which they were started.
    ///
    /// # Errors
    /// The background thread cannot be started.
    pub fn start_all_reduce<T: Element, S>(
        &mut self,
        mut buffer: S,
        operation: impl Into<Operation<T>>,
    ) -> Result<Pending<S>, Error>
    where
        S: AsMut<[T]> + Send + 'static,
    {
        let operation = operation.into();
        let request = Request {
            reduction: operation.reduction,
            in_place: true,
            ..self.request::<T>(Collective::AllReduce, buffer.as_mut().len())
        };
        self.start(move |engine| {
            let scalar = operation.scalar.bits();
            engine.launch(&request, whole(buffer.as_mut()), scalar)?;
            Ok(buffer)
        })
    }

    /// Starts [`Self::all_gather_in_place`] in the background, as [`Self::start_all_reduce`] does.
    ///
    /// # Errors
    /// The length is no multiple of the number of ranks, or the background thread cannot be started.
    pub fn start_all_gather<T: Element, S>(&mut self, mut buffer: S) -> Result<Pending<S>, Error>
    where
        S: AsMut<[T]> + Send + 'static,
    {
        let count = self.block(Collective::AllGather, buffer.as_mut())?;
        let request = Request {
            in_place: true,
            ..self.request::<T>(Collective::AllGather, count)
        };
        let begin = self.rank as usize * count;
        self.start(move |engine| {
            let slice = buffer.as_mut();
            let all = 0..slice.len();
            let memory = Memory::of_one(slice, begin..begin + count, all);
            engine.launch(&request, memory, 0)?;
            Ok(buffer)
        })
    }

    /// Starts [`Self::reduce_scatter_in_place`] in the background, as [`Self::start_all_reduce`] does.
    ///
    /// # Errors
    /// The length is no multiple of the number of ranks, or the background thread cannot be started.
    pub fn start_reduce_scatter<T: Element, S>(
        &mut self,
        mut buffer: S,
        operation: impl Into<Operation<T>>,
    ) -> Result<Pending<S>, Error>
    where
        S: AsMut<[T]> + Send + 'static,
    {
        let operation = operation.into();
        let count = self.block(Collective::ReduceScatter, buffer.as_mut())?;
        let request = Request {
            reduction: operation.reduction,
            in_place: true,
            ..self.request::<T>(Collective::ReduceScatter, count)
        };
        let begin = self.rank as usize * count;
        self.start(move |engine| {
            let slice = buffer.as_mut();
            let all = 0..slice.len();
            let memory = Memory::of_one(slice, all, begin..begin + count);
            engine.launch(&request, memory, operation.scalar.bits())?;
            Ok(buffer)
        })
    }

    /// Starts [`Self::broadcast_in_place`] in the background, as [`Self::start_all_reduce`] does.
    ///
    /// # Errors
    /// There is no such root, or the background thread cannot be started.
    pub fn start_broadcast<T: Element, S>(
        &mut self,
        mut buffer: S,
        root: u32,
    ) -> Result<Pending<S>, Error>
    where
        S: AsMut<[T]> + Send + 'static,
    {
        self.expect_rank(root)?;
        let request = Request {
            root,
            in_place: true,
            ..self.request::<T>(Collective::Broadcast, buffer.as_mut().len())
        };
        self.start(move |engine| {
            engine.launch(&request, whole(buffer.as_mut()), 0)?;
            Ok(buffer)
        })
    }

    /// Starts anything in the background.
    fn start<S: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Engine<B>) -> Result<S, Error> + Send + 'static,
    ) -> Result<Pending<S>, Error> {
        let (sender, receiver) = channel();
        self.home.start(Box::new(move |engine| {
            // Nobody is there to be told if the caller dropped what it would have waited for.
            let _ = sender.send(job(engine));
        }))?;
        Ok(Pending::new(self.rank, receiver))
    }
}

/// All of a buffer as input and as output.
fn whole<T: Element>(buffer: &mut [T]) -> Memory<'_> {
    let all = 0..buffer.len();
    Memory::of_one(buffer, all.clone(), all)
}
