//! Plain memory of one end, in which a slot lies in a row though its lines hold flags too.

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

#[derive(Debug)]
pub struct Staging(Box<[Block]>);

impl Staging {
    pub fn new(bytes: usize) -> Self {
        Self(vec![Block([0; 64]); bytes.div_ceil(64).max(1)].into_boxed_slice())
    }

    #[inline(always)]
    pub fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}
