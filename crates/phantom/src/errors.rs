//! Names and meanings of CUDA's errors.

use std::ffi::CStr;

use cudarc::driver::sys::CUresult;

/// The name and the meaning of each error that this library returns, in own words.
const ALL: [(CUresult, &CStr, &CStr); 40] = [
    (CUresult::CUDA_SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (
        CUresult::CUDA_ERROR_INVALID_VALUE,
        c"CUDA_ERROR_INVALID_VALUE",
        c"an argument is out of its range",
    ),
    (
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        c"CUDA_ERROR_OUT_OF_MEMORY",
        c"there is not enough memory",
    ),
    (
        CUresult::CUDA_ERROR_NOT_INITIALIZED,
        c"CUDA_ERROR_NOT_INITIALIZED",
        c"cuInit was not called",
    ),
    (
        CUresult::CUDA_ERROR_NO_DEVICE,
        c"CUDA_ERROR_NO_DEVICE",
        c"there is no GPU",
    ),
    (
        CUresult::CUDA_ERROR_INVALID_DEVICE,
        c"CUDA_ERROR_INVALID_DEVICE",
        c"there is no such GPU, or it cannot do this",
    ),
    (
        CUresult::CUDA_ERROR_INVALID_IMAGE,
        c"CUDA_ERROR_INVALID_IMAGE",
        c"the image of the kernels is not valid",
    ),
    (
        CUresult::CUDA_ERROR_INVALID_CONTEXT,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"no valid context is current",
    ),
    (
        CUresult::CUDA_ERROR_MAP_FAILED,
        c"CUDA_ERROR_MAP_FAILED",
        c"mapping failed",
    ),
    (
        CUresult::CUDA_ERROR_ALREADY_MAPPED,
        c"CUDA_ERROR_ALREADY_MAPPED",
        c"something is mapped there",
    ),
    (
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"the image has no kernels for this GPU",
    ),
    (
        CUresult::CUDA_ERROR_NOT_MAPPED,
        c"CUDA_ERROR_NOT_MAPPED",
        c"nothing is mapped there",
    ),
    (
        CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
        c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        c"the GPUs cannot access each other's memory",
    ),
    (
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the PTX is newer than the driver",
    ),
    (
        CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
        c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        c"a shared library cannot be used",
    ),
    (
        CUresult::CUDA_ERROR_INVALID_HANDLE,
        c"CUDA_ERROR_INVALID_HANDLE",
        c"the handle is not valid",
    ),
    (
        CUresult::CUDA_ERROR_ILLEGAL_STATE,
        c"CUDA_ERROR_ILLEGAL_STATE",
        c"this is not possible in this state",
    ),
    (
        CUresult::CUDA_ERROR_NOT_FOUND,
        c"CUDA_ERROR_NOT_FOUND",
        c"there is no such name",
    ),
    (
        CUresult::CUDA_ERROR_NOT_READY,
        c"CUDA_ERROR_NOT_READY",
        c"work is not done yet",
    ),
    (
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"a kernel accessed an illegal address",
    ),
    (
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"the launch needs too much",
    ),
    (
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        c"CUDA_ERROR_LAUNCH_TIMEOUT",
        c"the kernel took too long",
    ),
    (
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        c"peer access is already enabled",
    ),
    (
        CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
        c"peer access is not enabled",
    ),
    (
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
        c"the context was destroyed",
    ),
    (
        CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"the host memory is already registered",
    ),
    (
        CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"the host memory is not registered",
    ),
    (
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"the kernel failed",
    ),
    (
        CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        c"the blocks of a cooperative launch do not fit on the GPU",
    ),
    (
        CUresult::CUDA_ERROR_NOT_PERMITTED,
        c"CUDA_ERROR_NOT_PERMITTED",
        c"the operation is not permitted",
    ),
    (
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
        c"CUDA_ERROR_NOT_SUPPORTED",
        c"the operation is not supported",
    ),
    (
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"the stream captures, which does not permit this",
    ),
    (
        CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"an earlier error made the capture invalid",
    ),
    (
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
        c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"the stream did not begin the capture",
    ),
    (
        CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        c"the legacy stream would depend on a capture",
    ),
    (
        CUresult::CUDA_ERROR_CAPTURED_EVENT,
        c"CUDA_ERROR_CAPTURED_EVENT",
        c"the event was captured",
    ),
    (
        CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
        c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        c"another thread began the capture",
    ),
    (
        CUresult::CUDA_ERROR_TIMEOUT,
        c"CUDA_ERROR_TIMEOUT",
        c"the call took too long",
    ),
    (
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
        c"CUDA_ERROR_SYSTEM_NOT_READY",
        c"the system is not ready",
    ),
    (
        CUresult::CUDA_ERROR_UNKNOWN,
        c"CUDA_ERROR_UNKNOWN",
        c"an unknown error",
    ),
];

/// The name and the meaning of an error.
pub fn words(error: u32) -> Option<(&'static CStr, &'static CStr)> {
    let found = ALL.iter().find(|(it, ..)| *it as u32 == error);
    found.map(|(_, name, text)| (*name, *text))
}
