//! Staging memory of one end, in which a slot's data is contiguous although its lines have flags.

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

/// As long as the longest staged slot so far. Most ends of a rank send short messages or none.
#[derive(Debug, Default)]
pub struct Staging(Box<[Block]>);

impl Staging {
    /// The address of `bytes` bytes. Their contents are lost if the memory grows.
    #[inline(always)]
    pub fn address(&mut self, bytes: usize) -> *mut u8 {
        if bytes > size_of_val(&*self.0) {
            self.grow(bytes);
        }
        self.0.as_mut_ptr().cast()
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let blocks = bytes.div_ceil(size_of::<Block>()).next_power_of_two();
        self.0 = vec![Block([0; 64]); blocks].into_boxed_slice();
    }
}
