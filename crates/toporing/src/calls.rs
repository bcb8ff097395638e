//! The calls of ranks: collectives and transfers on slices.

use std::marker::PhantomData;
use std::ptr;

use crate::communicator::{Arguments, Collective, Exchange, Fault, Launch, Transfer};
use executor::{Element, End, Reduction};

/// A call, with memory that is lent for `'a`.
pub(crate) struct Call<'a> {
    what: What<'a>,
    memory: PhantomData<&'a mut [u8]>,
}

enum What<'a> {
    Collective(Arguments, Lengths),
    Exchange(Exchange<'a>, Lengths),
    Transfer(Transfer),
}

/// Elements of the slices; `None` where this rank gave none.
#[derive(Clone, Copy)]
struct Lengths {
    input: Option<usize>,
    output: Option<usize>,
}

/// A call whose lengths fit.
pub(crate) enum CheckedCall {
    Collective(Launch),
    Transfers(Vec<Transfer>),
}

impl<'a> Call<'a> {
    const fn new(what: What<'a>) -> Self {
        Self {
            what,
            memory: PhantomData,
        }
    }

    /// A collective on blocks of `count` elements.
    pub(crate) fn collective<T: Element>(
        collective: Collective,
        input: Option<&'a [T]>,
        output: Option<&'a mut [T]>,
        count: usize,
        (operation, root): (Reduction, u32),
    ) -> Self {
        let lengths = Lengths {
            input: input.map(<[T]>::len),
            output: output.as_deref().map(<[T]>::len),
        };
        let arguments = Arguments {
            collective,
            input: input.map_or(ptr::null(), |it| it.as_ptr().cast()),
            output: output.map_or(ptr::null_mut(), |it| it.as_mut_ptr().cast()),
            count,
            element: T::TYPE,
            operation,
            root,
        };
        Self::new(What::Collective(arguments, lengths))
    }

    /// A collective whose output takes the place of its input.
    pub(crate) fn in_place<T: Element>(
        collective: Collective,
        buffer: &'a mut [T],
        with: (Reduction, u32),
    ) -> Self {
        let count = buffer.len();
        let mut call = Self::collective(collective, None, Some(buffer), count, with);
        if let What::Collective(arguments, _) = &mut call.what {
            arguments.input = arguments.output.cast_const();
        }
        call
    }

    /// An all-to-all with a number of elements for each rank.
    pub(crate) fn exchange<T: Element>(
        input: &'a [T],
        sent: &'a [usize],
        output: &'a mut [T],
        received: &'a [usize],
    ) -> Self {
        let lengths = Lengths {
            input: Some(input.len()),
            output: Some(output.len()),
        };
        let exchange = Exchange {
            input: input.as_ptr().cast(),
            sent,
            output: output.as_mut_ptr().cast(),
            received,
            element: T::TYPE,
        };
        Self::new(What::Exchange(exchange, lengths))
    }

    /// A message to a rank.
    pub(crate) fn send<T: Element>(buffer: &'a [T], to: u32, tag: u32) -> Self {
        let memory = (buffer.as_ptr().cast_mut().cast(), size_of_val(buffer));
        // SAFETY: the buffer is lent as long as the call, and a call is kept until it has ended.
        Self::new(What::Transfer(unsafe {
            Transfer::new(End::To(to), tag, memory, ptr::null_mut())
        }))
    }

    /// A message of a rank, or of any; whose it was goes to `source`.
    pub(crate) fn receive<T: Element>(
        buffer: &'a mut [T],
        end: End,
        tag: u32,
        source: Option<&'a mut u32>,
    ) -> Self {
        let memory = (buffer.as_mut_ptr().cast(), size_of_val(buffer));
        let source = source.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: both are lent as long as the call, and a call is kept until it has ended.
        Self::new(What::Transfer(unsafe {
            Transfer::new(end, tag, memory, source)
        }))
    }

    /// Checks the lengths, which depend on the number of ranks.
    ///
    /// # Errors
    /// A slice has another length than the call needs.
    pub(crate) fn check(self, rank: u32, ranks: u32) -> Result<CheckedCall, Fault> {
        match self.what {
            What::Collective(arguments, lengths) => {
                let all = arguments.count.saturating_mul(ranks as usize);
                let is_root = rank == arguments.root;
                let (input, output) = match arguments.collective {
                    Collective::AllGather => (arguments.count, all),
                    Collective::ReduceScatter => (all, arguments.count),
                    Collective::AllToAll => (all, all),
                    Collective::Gather => (arguments.count, if is_root { all } else { 0 }),
                    Collective::Scatter => (if is_root { all } else { 0 }, arguments.count),
                    _ => (arguments.count, arguments.count),
                };
                lengths.expect(arguments.collective, input, output)?;
                // SAFETY: the slices have these lengths and are lent as long as the call, which is
                // kept until it has ended.
                let launch = unsafe { arguments.read(rank, ranks) }?;
                Ok(CheckedCall::Collective(launch))
            }
            What::Exchange(exchange, lengths) => {
                let sum = |counts: &[usize]| {
                    counts
                        .iter()
                        .fold(0, |sum: usize, it| sum.saturating_add(*it))
                };
                let (input, output) = (sum(exchange.sent), sum(exchange.received));
                lengths.expect(Collective::AllToAll, input, output)?;
                // SAFETY: as above.
                let transfers = unsafe { exchange.read(rank, ranks) }?;
                Ok(CheckedCall::Transfers(transfers))
            }
            What::Transfer(transfer) if transfer.tag() > Transfer::MOST_TAG => {
                let (tag, most) = (transfer.tag(), Transfer::MOST_TAG);
                Err(Fault::invalid(format!(
                    "tag {tag} is too large, expected at most {most}"
                )))
            }
            What::Transfer(transfer) => Ok(CheckedCall::Transfers(vec![transfer])),
        }
    }
}

impl Lengths {
    /// Refuses slices of other lengths.
    fn expect(self, collective: Collective, input: usize, output: usize) -> Result<(), Fault> {
        for (name, found, expected) in [
            ("input", self.input, input),
            ("output", self.output, output),
        ] {
            if let Some(found) = found
                && found != expected
            {
                return Err(Fault::invalid(format!(
                    "{collective}: the {name} has {found} elements; expected {expected}"
                )));
            }
        }
        Ok(())
    }
}

/// The methods of a place where ranks call: `lend` is how it borrows.
macro_rules! calls {
    ($this:ident, [$($lend:tt)*], [$($own:tt)*]) => {
        /// Reduces the buffers of all ranks; all get the result.
        ///
        /// # Errors
        /// A rank failed, left, waited too long, or called something else.
        pub fn all_reduce<T: Element>($($lend)* $this, buffer: $($own)* [T], op: Reduction) -> Result<(), Fault> {
            $this.call(Call::in_place(Collective::AllReduce, buffer, (op, 0)))
        }

        /// Gathers the inputs of all ranks in rank order: `output` has as many elements as all
        /// inputs.
        ///
        /// # Errors
        /// As [`Self::all_reduce`]; or the output has another length.
        pub fn all_gather<T: Element>($($lend)* $this, input: $($lend)* [T], output: $($own)* [T]) -> Result<(), Fault> {
            let count = input.len();
            $this.call(Call::collective(Collective::AllGather, Some(input), Some(output), count, (Reduction::Sum, 0)))
        }

        /// Reduces the inputs of all ranks; each gets one of as many blocks as there are ranks.
        ///
        /// # Errors
        /// As [`Self::all_reduce`]; or the input has another length.
        pub fn reduce_scatter<T: Element>($($lend)* $this, input: $($lend)* [T], output: $($own)* [T], op: Reduction) -> Result<(), Fault> {
            let count = output.len();
            $this.call(Call::collective(Collective::ReduceScatter, Some(input), Some(output), count, (op, 0)))
        }

        /// Copies the root's buffer to all ranks.
        ///
        /// # Errors
        /// As [`Self::all_reduce`]; or there is no such root.
        pub fn broadcast<T: Element>($($lend)* $this, buffer: $($own)* [T], root: u32) -> Result<(), Fault> {
            $this.call(Call::in_place(Collective::Broadcast, buffer, (Reduction::Sum, root)))
        }

        /// Reduces the buffers of all ranks into the root's. Those of others then hold parts.
        ///
        /// # Errors
        /// As [`Self::broadcast`].
        pub fn reduce<T: Element>($($lend)* $this, buffer: $($own)* [T], op: Reduction, root: u32) -> Result<(), Fault> {
            $this.call(Call::in_place(Collective::Reduce, buffer, (op, root)))
        }

        /// Gathers the inputs of all ranks at the root, in rank order; others give no output.
        ///
        /// # Errors
        /// As [`Self::broadcast`]; or the root's output is missing or has another length.
        pub fn gather<T: Element>($($lend)* $this, input: $($lend)* [T], output: Option<$($own)* [T]>, root: u32) -> Result<(), Fault> {
            let count = input.len();
            $this.call(Call::collective(Collective::Gather, Some(input), output, count, (Reduction::Sum, root)))
        }

        /// Gives each rank one block of the root's input; others give no input.
        ///
        /// # Errors
        /// As [`Self::broadcast`]; or the root's input is missing or has another length.
        pub fn scatter<T: Element>($($lend)* $this, input: Option<$($lend)* [T]>, output: $($own)* [T], root: u32) -> Result<(), Fault> {
            let count = output.len();
            $this.call(Call::collective(Collective::Scatter, input, Some(output), count, (Reduction::Sum, root)))
        }

        /// Gives each rank one of as many blocks of the input as there are ranks.
        ///
        /// # Errors
        /// As [`Self::all_reduce`]; or the slices have other lengths.
        pub fn all_to_all<T: Element>($($lend)* $this, input: $($lend)* [T], output: $($own)* [T]) -> Result<(), Fault> {
            let count = input.len() / $this.ranks() as usize;
            $this.call(Call::collective(Collective::AllToAll, Some(input), Some(output), count, (Reduction::Sum, 0)))
        }

        /// Gives rank `i` the next `sent[i]` elements of the input, and takes `received[i]` of it.
        ///
        /// # Errors
        /// As [`Self::all_to_all`]; or there is not a count for each rank.
        pub fn all_to_all_v<T: Element>(
            $($lend)* $this,
            input: $($lend)* [T],
            sent: $($lend)* [usize],
            output: $($own)* [T],
            received: $($lend)* [usize],
        ) -> Result<(), Fault> {
            $this.call(Call::exchange(input, sent, output, received))
        }

        /// Sends to a rank. Messages between two ranks match in order.
        ///
        /// # Errors
        /// As [`Self::all_reduce`]; or there is no such rank.
        pub fn send<T: Element>($($lend)* $this, buffer: $($lend)* [T], to: u32) -> Result<(), Fault> {
            $this.send_tagged(buffer, to, 0)
        }

        /// Receives from a rank a message of this length.
        ///
        /// # Errors
        /// As [`Self::send`]; or the message has another length.
        pub fn receive<T: Element>($($lend)* $this, buffer: $($own)* [T], from: u32) -> Result<(), Fault> {
            $this.receive_tagged(buffer, from, 0)
        }

        /// As [`Self::send`]; only messages with equal tags match.
        ///
        /// # Errors
        /// As [`Self::send`]; or the tag is too large.
        pub fn send_tagged<T: Element>($($lend)* $this, buffer: $($lend)* [T], to: u32, tag: u32) -> Result<(), Fault> {
            $this.call(Call::send(buffer, to, tag))
        }

        /// As [`Self::receive`]; only messages with equal tags match.
        ///
        /// # Errors
        /// As [`Self::receive`]; or the tag is too large.
        pub fn receive_tagged<T: Element>($($lend)* $this, buffer: $($own)* [T], from: u32, tag: u32) -> Result<(), Fault> {
            $this.call(Call::receive(buffer, End::From(from), tag, None))
        }
    };
}

pub(crate) use calls;
