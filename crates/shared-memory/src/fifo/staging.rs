//! Plain memory of one end, in which a slot lies in a row though its lines hold flags too.

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

/// As long as the longest slot that was staged. Ends of which a rank has many are mostly used for short ones, or never.
#[derive(Debug, Default)]
pub struct Staging(Box<[Block]>);

impl Staging {
    /// Where `bytes` bytes are. What was there is lost if they are more than ever before.
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
