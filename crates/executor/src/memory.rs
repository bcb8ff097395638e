//! The memory of a launch: its input and output, borrowed while it runs.

use std::marker::PhantomData;
use std::ops::Range;

use crate::element::Element;
use crate::error::Error;
use crate::request::Request;

/// Input and output of a launch. Backends use the addresses; the caller lends the memory for `'a`.
#[derive(Debug)]
pub struct Memory<'a> {
    input: *const u8,
    input_bytes: usize,
    output: *mut u8,
    output_bytes: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Memory<'a> {
    /// Two buffers.
    pub const fn separate<T: Element>(input: &'a [T], output: &'a mut [T]) -> Self {
        Self {
            input: input.as_ptr().cast(),
            input_bytes: size_of_val(input),
            output: output.as_mut_ptr().cast(),
            output_bytes: size_of_val(output),
            borrow: PhantomData,
        }
    }

    /// No memory.
    pub(crate) const fn nothing() -> Self {
        Self {
            input: std::ptr::null(),
            input_bytes: 0,
            output: std::ptr::null_mut(),
            output_bytes: 0,
            borrow: PhantomData,
        }
    }

    /// Memory that no slice can describe, such as a GPU's.
    ///
    /// # Safety
    /// For `'a` programs may read `input_bytes` at the input, and read and write `output_bytes` at
    /// the output: on the processor, or on the GPU whose memory it is. Nobody else writes the input
    /// or uses the output meanwhile.
    #[expect(unsafe_code, reason = "the caller promises what a slice would")]
    pub const unsafe fn at(
        input: *const u8,
        input_bytes: usize,
        output: *mut u8,
        output_bytes: usize,
    ) -> Self {
        Self {
            input,
            input_bytes,
            output,
            output_bytes,
            borrow: PhantomData,
        }
    }

    /// The same memory for a shorter time.
    pub(crate) const fn lend(&mut self) -> Memory<'_> {
        Memory {
            borrow: PhantomData,
            ..*self
        }
    }

    /// The input of this and the output of another one.
    pub(crate) const fn to<'b>(&'b self, other: &'b Self) -> Memory<'b> {
        Memory {
            output: other.output,
            output_bytes: other.output_bytes,
            borrow: PhantomData,
            ..*self
        }
    }

    /// Two ranges of elements of one buffer, which may overlap.
    ///
    /// # Panics
    /// A range is not in the buffer.
    pub fn of_one<T: Element>(
        buffer: &'a mut [T],
        input: Range<usize>,
        output: Range<usize>,
    ) -> Self {
        assert!(input.end <= buffer.len() && output.end <= buffer.len());
        let base: *mut u8 = buffer.as_mut_ptr().cast();
        let bytes = |range: &Range<usize>| range.len() * size_of::<T>();
        Self {
            // In range, as was asserted, so nothing wraps.
            input: base.wrapping_add(input.start * size_of::<T>()),
            input_bytes: bytes(&input),
            output: base.wrapping_add(output.start * size_of::<T>()),
            output_bytes: bytes(&output),
            borrow: PhantomData,
        }
    }

    /// The address of the input. [`Self::input_bytes`] there may be read for `'a`.
    pub const fn input(&self) -> *const u8 {
        self.input
    }

    /// Length of the input, bytes.
    pub const fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// The address of the output. [`Self::output_bytes`] there may be read and written for `'a`.
    pub const fn output(&self) -> *mut u8 {
        self.output
    }

    /// Length of the output, bytes.
    pub const fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Refuses memory that is shorter than what programs of a request access, bytes.
    #[inline]
    pub(crate) fn expect(
        &self,
        request: &Request,
        (input, output): (u64, u64),
    ) -> Result<(), Error> {
        match self.input_bytes as u64 >= input && self.output_bytes as u64 >= output {
            true => Ok(()),
            false => Err(self.too_short(request, (input, output))),
        }
    }

    #[cold]
    fn too_short(&self, request: &Request, expected: (u64, u64)) -> Error {
        let (buffer, found, expected) = match (self.input_bytes as u64) < expected.0 {
            true => ("the input", self.input_bytes, expected.0),
            false => ("the output", self.output_bytes, expected.1),
        };
        let element = request.element.bytes() as usize;
        Error::Length {
            collective: request.collective,
            buffer,
            found: found / element,
            expected: expected as usize / element,
            why: "the request has so many",
        }
    }
}
