//! Collectives on memory at addresses: their arguments become requests.

use executor::{Memory, Request};
use program::{Collective, ElementType, Reduction};

use crate::communicator::error::Fault;

/// A collective with its memory, which the caller lends until it is done.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// What runs.
    pub request: Request,
    input: *const u8,
    input_bytes: usize,
    output: *mut u8,
    output_bytes: usize,
}

// SAFETY: the caller of [`Arguments::read`] lends the memory to any thread that runs it.
unsafe impl Send for Launch {}

impl Launch {
    /// The memory for the runtime.
    pub(crate) fn memory(&self) -> Memory<'static> {
        // SAFETY: it is lent until the launch has ended ([`Arguments::read`]).
        unsafe { Memory::at(self.input, self.input_bytes, self.output, self.output_bytes) }
    }
}

/// The arguments of a collective.
#[derive(Debug, Clone, Copy)]
pub struct Arguments {
    /// The collective; no transfer.
    pub collective: Collective,
    /// The input; may be null where this rank needs none.
    pub input: *const u8,
    /// The output; may be null where this rank needs none.
    pub output: *mut u8,
    /// Elements of a block.
    pub count: usize,
    /// Type of the elements.
    pub element: ElementType,
    /// The operation. Collectives that do not reduce ignore it.
    pub operation: Reduction,
    /// The root. Collectives without one ignore it.
    pub root: u32,
}

impl Arguments {
    /// Checks the arguments for a rank.
    ///
    /// # Errors
    /// There is no such root, the buffers overlap, or there is none.
    ///
    /// # Safety
    /// Until every use of the launch and of its copies has ended, the input is readable, and the
    /// output writable and used by nobody else, for as many bytes as the collective has on this
    /// rank.
    pub unsafe fn read(&self, rank: u32, ranks: u32) -> Result<Launch, Fault> {
        let Self {
            collective,
            element,
            input,
            output,
            ..
        } = *self;
        let operation = match collective.reduces() {
            true => self.operation,
            false => Reduction::Sum,
        };
        let root = if collective.has_root() { self.root } else { 0 };
        if root >= ranks {
            return Err(Fault::invalid(format!(
                "{collective}: root {root} does not exist: the communicator has {ranks} ranks, numbered from 0"
            )));
        }
        let block = bytes(self.count, element)?;
        let all = block.checked_mul(ranks as usize);
        let all = all.filter(|it| isize::try_from(*it).is_ok());
        let all = all.ok_or_else(|| too_long(self.count))?;
        let is_root = rank == root;
        let (input_bytes, output_bytes) = match collective {
            Collective::AllReduce => (block, block),
            Collective::AllGather => (block, all),
            Collective::ReduceScatter => (all, block),
            Collective::AllToAll => (all, all),
            Collective::Broadcast => (block, block),
            Collective::Reduce => (block, if is_root { block } else { 0 }),
            Collective::Gather => (block, if is_root { all } else { 0 }),
            _ => (if is_root { all } else { 0 }, block),
        };
        let own = rank as usize * block;
        let in_place = match collective {
            Collective::AllGather => input.addr() == output.addr().wrapping_add(own),
            Collective::ReduceScatter => output.addr() == input.addr().wrapping_add(own),
            Collective::Gather | Collective::Scatter => false,
            _ => input.addr() == output.addr(),
        };
        let output_bytes = match collective {
            // Partial results take the place of inputs.
            Collective::Reduce if in_place => block,
            _ => output_bytes,
        };
        // Only the root of a broadcast has an input of its own.
        let input_bytes = match collective {
            Collective::Broadcast if !is_root && !in_place => 0,
            _ => input_bytes,
        };
        let launch = Launch {
            request: Request {
                collective,
                element,
                reduction: operation,
                root,
                to: 0,
                tag: 0,
                in_place,
                count: self.count as u64,
                choice: None,
            },
            input,
            input_bytes,
            output,
            output_bytes,
        };
        launch.check()?;
        Ok(launch)
    }
}

impl Launch {
    fn check(&self) -> Result<(), Fault> {
        let collective = self.request.collective;
        for (name, address, length) in [
            ("input", self.input.addr(), self.input_bytes),
            ("output", self.output.addr(), self.output_bytes),
        ] {
            if address == 0 && length > 0 {
                return Err(Fault::invalid(format!(
                    "{collective}: the {name} is null, expected {length} bytes"
                )));
            }
        }
        let (input, output) = (self.input.addr(), self.output.addr());
        let apart = input.saturating_add(self.input_bytes) <= output
            || output.saturating_add(self.output_bytes) <= input;
        let uses_both = self.input_bytes > 0 && self.output_bytes > 0;
        if uses_both && !apart && !self.request.in_place {
            return Err(Fault::invalid(format!(
                "{collective}: input and output overlap; give separate buffers, or those of a collective in place \
                 (topo.h says which these are)"
            )));
        }
        Ok(())
    }
}

/// The bytes of a block.
pub fn bytes(count: usize, element: ElementType) -> Result<usize, Fault> {
    let bytes = count.checked_mul(element.bytes() as usize);
    let bytes = bytes.filter(|it| isize::try_from(*it).is_ok());
    bytes.ok_or_else(|| too_long(count))
}

fn too_long(count: usize) -> Fault {
    Fault::invalid(format!("{count} elements exceed the address space"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks arguments; nothing runs.
    fn read(arguments: Arguments, rank: u32) -> Result<Launch, Fault> {
        // SAFETY: the launch is not run.
        unsafe { arguments.read(rank, 2) }
    }

    fn arguments(collective: Collective, buffer: &mut [f32], apart: usize) -> Arguments {
        let base = buffer.as_mut_ptr();
        Arguments {
            collective,
            input: base.cast_const().cast(),
            output: base.wrapping_add(apart).cast(),
            count: 4,
            element: ElementType::F32,
            operation: Reduction::Sum,
            root: 0,
        }
    }

    #[test]
    fn equal_addresses_are_in_place_and_overlaps_are_refused() {
        let mut buffer = [0.0; 16];
        let equal = read(arguments(Collective::AllReduce, &mut buffer, 0), 1).unwrap();
        assert!(equal.request.in_place);
        let apart = read(arguments(Collective::AllReduce, &mut buffer, 4), 1).unwrap();
        assert!(!apart.request.in_place);
        let overlapping = read(arguments(Collective::AllReduce, &mut buffer, 1), 1).unwrap_err();
        assert!(overlapping.text.contains("overlap"), "{overlapping:?}");
        // The block of rank 1 in an input of two blocks.
        let scattered = read(arguments(Collective::ReduceScatter, &mut buffer, 4), 1).unwrap();
        assert!(scattered.request.in_place);
        assert!(read(arguments(Collective::ReduceScatter, &mut buffer, 4), 0).is_err());
    }

    #[test]
    fn unknown_roots_and_lengths_are_refused() {
        let mut buffer = [0.0; 16];
        let good = arguments(Collective::AllReduce, &mut buffer, 4);
        for wrong in [
            Arguments {
                collective: Collective::Broadcast,
                root: 2,
                ..good
            },
            Arguments {
                count: usize::MAX / 2,
                ..good
            },
            Arguments {
                output: std::ptr::null_mut(),
                ..good
            },
        ] {
            assert!(read(wrong, 0).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn other_ranks_need_no_buffer_for_the_root() {
        let mut buffer = [0.0; 16];
        let reduce = Arguments {
            output: std::ptr::null_mut(),
            ..arguments(Collective::Reduce, &mut buffer, 0)
        };
        assert!(read(reduce, 1).is_ok());
        assert!(read(reduce, 0).is_err());
    }
}
