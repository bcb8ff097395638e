//! Arguments of the exported functions: pointers, and structures with plain numbers instead of
//! enumerations, because callers may pass any number.

use std::ffi::{CStr, c_char, c_void};

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Section, refuse};

/// A pointer to a place for a result.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> From<*mut T> for Out<T> {
    fn from(place: *mut T) -> Self {
        Self(place)
    }
}

impl<T> Out<T> {
    /// Writes the result.
    ///
    /// # Errors
    /// The pointer is null.
    pub fn put(self, value: T, section: Section) -> Answer {
        if self.0.is_null() {
            return refuse(
                CUresult::CUDA_ERROR_INVALID_VALUE,
                section,
                "a pointer is null",
            );
        }
        // SAFETY: callers of the driver's functions promise that a pointer that is not null leads
        // to a place for the result.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// The place of an element of an array.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        match self.0.is_null() {
            true => self,
            false => Self(self.0.wrapping_add(index)),
        }
    }

    /// Reads the input that the result replaces.
    ///
    /// # Errors
    /// The pointer is null.
    pub fn get(self, section: Section) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get(section)
    }

    /// Writes the result unless the pointer is null.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `put`.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

/// A pointer to an input.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(place: *const T) -> Self {
        Self(place)
    }
}

impl<T: Copy> In<T> {
    /// Reads the input.
    ///
    /// # Errors
    /// The pointer is null.
    pub fn get(self, section: Section) -> Answer<T> {
        self.nth(0, section)
    }

    /// Reads an element of an array.
    ///
    /// # Errors
    /// The pointer is null.
    pub fn nth(self, index: usize, section: Section) -> Answer<T> {
        if self.0.is_null() {
            return refuse(
                CUresult::CUDA_ERROR_INVALID_VALUE,
                section,
                "a pointer is null",
            );
        }
        // SAFETY: callers of the driver's functions promise that a pointer that is not null leads
        // to the input, and that arrays are as long as they say.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }
}

/// `CUlaunchAttribute`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`
    pub id: u32,
    padding: u32,
    /// The value's bytes.
    pub value: [u32; 16],
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    /// Blocks in three dimensions.
    pub grid: [u32; 3],
    /// Threads of a block in three dimensions.
    pub block: [u32; 3],
    /// Shared memory of a block, bytes.
    pub shared: u32,
    /// `CUstream`
    pub stream: u64,
    /// The attributes.
    pub attributes: In<LaunchAttribute>,
    /// Their number.
    pub count: u32,
}

/// A text that ends with a 0.
///
/// # Errors
/// The pointer is null, or the text is not UTF-8.
pub(crate) fn text(pointer: *const c_char, section: Section) -> Answer<String> {
    if pointer.is_null() {
        return refuse(
            CUresult::CUDA_ERROR_INVALID_VALUE,
            section,
            "a name is null",
        );
    }
    // SAFETY: callers of the driver's functions promise that names end with a 0.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => refuse(
            CUresult::CUDA_ERROR_INVALID_VALUE,
            section,
            "a name is not UTF-8",
        ),
    }
}

/// Copies bytes from the caller.
///
/// # Errors
/// The pointer is null.
pub fn bytes(pointer: *const c_void, count: usize, section: Section) -> Answer<Vec<u8>> {
    if pointer.is_null() {
        return refuse(
            CUresult::CUDA_ERROR_INVALID_VALUE,
            section,
            "a pointer is null",
        );
    }
    let mut bytes = vec![0; count];
    // SAFETY: callers of the driver's functions promise `count` bytes there, and the new vector has
    // as many.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast(), bytes.as_mut_ptr(), count) };
    Ok(bytes)
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// A `CUmemLocationType`.
    pub kind: u32,
    /// The device.
    pub id: i32,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocationProperties {
    /// A `CUmemAllocationType`.
    pub kind: u32,
    /// A set of `CUmemAllocationHandleType`.
    pub handle_types: u32,
    /// Where the memory is.
    pub location: Location,
    /// Only for Windows.
    pub windows: *mut c_void,
    /// Compression, GPUDirect RDMA, usage.
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDescription {
    /// The device.
    pub location: Location,
    /// A `CUmemAccess_flags`.
    pub flags: u32,
}

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MulticastProperties {
    /// Number of devices.
    pub devices: u32,
    /// Bytes.
    pub size: usize,
    /// A set of `CUmemAllocationHandleType`.
    pub handle_types: u64,
    /// Must be 0.
    pub flags: u64,
}

/// `CUipcMemHandle` and `CUmemFabricHandle`: 64 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Handle64(pub [u8; 64]);
