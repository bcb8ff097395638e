//! Collectives as C describes them: numbers and addresses become requests.

use std::ffi::{c_int, c_void};

use executor::{Memory, Request};
use program::{Collective, ElementType, Reduction};

use crate::error::Fault;

/// The collectives by their numbers in `topo.h`.
const COLLECTIVES: [Collective; 8] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
];

/// The operations by their numbers in `topo.h`. A pre-multiplied sum needs a factor, for which C
/// has no parameter.
const OPERATIONS: [Reduction; 5] = [
    Reduction::Sum,
    Reduction::Product,
    Reduction::Minimum,
    Reduction::Maximum,
    Reduction::Average,
];

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

// SAFETY: the caller of `topo_start` lends the memory to whichever thread runs the collective.
unsafe impl Send for Launch {}

impl Launch {
    /// The memory for the runtime.
    pub fn memory(&self) -> Memory<'_> {
        Memory::at(self.input, self.input_bytes, self.output, self.output_bytes)
    }
}

/// The arguments of `topo_run` and `topo_start`.
#[derive(Debug, Clone, Copy)]
pub struct Arguments {
    /// Number of the collective.
    pub collective: c_int,
    /// The input.
    pub input: *const c_void,
    /// The output.
    pub output: *mut c_void,
    /// Elements of a block.
    pub count: usize,
    /// Number of the element type.
    pub element: c_int,
    /// Number of the operation.
    pub operation: c_int,
    /// The root.
    pub root: u32,
}

impl Arguments {
    /// Checks the arguments for a rank.
    ///
    /// # Errors
    /// A number is unknown, the buffers overlap, or there is none.
    pub fn read(&self, rank: u32, ranks: u32) -> Result<Launch, Fault> {
        let collective = *number(&COLLECTIVES, self.collective, "collective")?;
        let element = element(self.element)?;
        let operation = match collective.reduces() {
            true => *number(&OPERATIONS, self.operation, "operation")?,
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
        let (input, output) = (self.input.cast::<u8>(), self.output.cast::<u8>());
        let own = rank as usize * block;
        let in_place = match collective {
            Collective::AllGather => input.addr() == output.addr().wrapping_add(own),
            Collective::ReduceScatter => output.addr() == input.addr().wrapping_add(own),
            Collective::Gather | Collective::Scatter => false,
            _ => input.addr() == output.addr(),
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

/// The element type with this number.
pub fn element(given: c_int) -> Result<ElementType, Fault> {
    number(&ElementType::ALL, given, "element type").copied()
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

fn number<'a, T>(of: &'a [T], given: c_int, what: &str) -> Result<&'a T, Fault> {
    let found = usize::try_from(given).ok().and_then(|at| of.get(at));
    found.ok_or_else(|| {
        let last = of.len() - 1;
        Fault::invalid(format!(
            "{given} is no {what}; expected 0 to {last}, see topo.h"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(collective: c_int, buffer: &mut [f32], apart: usize) -> Arguments {
        let base = buffer.as_mut_ptr();
        Arguments {
            collective,
            input: base.cast_const().cast(),
            output: base.wrapping_add(apart).cast(),
            count: 4,
            element: 8,
            operation: 0,
            root: 0,
        }
    }

    #[test]
    fn equal_addresses_are_in_place_and_overlaps_are_refused() {
        let mut buffer = [0.0; 16];
        let equal = arguments(4, &mut buffer, 0).read(1, 2).unwrap();
        assert!(equal.request.in_place);
        let apart = arguments(4, &mut buffer, 4).read(1, 2).unwrap();
        assert!(!apart.request.in_place);
        let overlapping = arguments(4, &mut buffer, 1).read(1, 2).unwrap_err();
        assert!(overlapping.text.contains("overlap"), "{overlapping:?}");
        // The block of rank 1 in an input of two blocks.
        let scattered = arguments(3, &mut buffer, 4).read(1, 2).unwrap();
        assert!(scattered.request.in_place);
        assert!(arguments(3, &mut buffer, 4).read(0, 2).is_err());
    }

    #[test]
    fn unknown_numbers_and_lengths_are_refused() {
        let mut buffer = [0.0; 16];
        let good = arguments(4, &mut buffer, 4);
        for wrong in [
            Arguments {
                collective: 8,
                ..good
            },
            Arguments {
                collective: -1,
                ..good
            },
            Arguments {
                element: 10,
                ..good
            },
            Arguments {
                operation: 5,
                ..good
            },
            Arguments {
                collective: 0,
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
            assert!(wrong.read(0, 2).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn other_ranks_need_no_buffer_for_the_root() {
        let mut buffer = [0.0; 16];
        let reduce = Arguments {
            output: std::ptr::null_mut(),
            ..arguments(1, &mut buffer, 0)
        };
        assert!(reduce.read(1, 2).is_ok());
        assert!(reduce.read(0, 2).is_err());
    }
}
