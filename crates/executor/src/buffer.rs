//! Buffers that the communicator allocates.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use shared_memory::ArenaBuffer;

use crate::element::Element;

/// Elements in memory that other ranks can access. It derefs to a slice; its first contents are
/// unspecified.
pub struct Buffer<T: Element> {
    block: ArenaBuffer,
    elements: usize,
    of: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) const fn new(block: ArenaBuffer, elements: usize) -> Self {
        Self {
            block,
            elements,
            of: PhantomData,
        }
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // The block is aligned to a page and at least as long.
        bytemuck::cast_slice(&self.block.as_bytes()[..self.elements * size_of::<T>()])
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.elements * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.block.as_bytes_mut()[..bytes])
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Element> AsRef<[T]> for Buffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> AsMut<[T]> for Buffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}
