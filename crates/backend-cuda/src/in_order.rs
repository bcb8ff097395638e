//! Launches in the order of a caller's stream: which streams and memory they take.

use cudarc::driver::sys;
use device_runtime::LaunchMemory;
use device_runtime::driver::places;
use executor::Memory;

use crate::callers_memory::{Place, place_of};
use crate::driver::Cuda;
use crate::error::words;
use crate::handles::{caller, lock};
use crate::memory::Block;

/// `CU_STREAM_PER_THREAD`
const PER_THREAD: u64 = 2;

impl Cuda {
    /// Refuses what a launch in the order of a stream cannot use: a stream of another GPU, one that
    /// captures a graph, one that depends on the thread, and buffers elsewhere.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn check_in_order(
        &self,
        place: u32,
        stream: u64,
        memory: &Memory<'_>,
    ) -> Result<(), String> {
        let device = self.device(place)?;
        if stream == PER_THREAD {
            return Err(
                "stream 2 is another one for each thread; make a stream and give its handle, or 0 for the legacy stream"
                    .to_owned(),
            );
        }
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller gives a stream; the driver writes a number.
        let asked = unsafe { sys::cuStreamIsCapturing(caller(stream), &raw mut status) };
        asked.result().map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => format!(
                "the legacy stream of GPU {} cannot be used while a stream that waits for it captures a CUDA graph; end the \
                 capture before, or call the collective on another stream",
                device.number
            ),
            _ => format!(
                "{stream:#x} is no stream of GPU {}: {}",
                device.number,
                words(error)
            ),
        })?;
        if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(format!(
                "stream {stream:#x} captures a CUDA graph, which no collective can join, because the host looks after \
                 each launch; end the capture, call the collective on the stream, and capture the rest as another graph"
            ));
        }
        let buffers = [
            ("input", memory.input().addr(), memory.input_bytes()),
            ("output", memory.output().addr(), memory.output_bytes()),
        ];
        for (what, address, _) in buffers.into_iter().filter(|(.., bytes)| *bytes > 0) {
            let of = place_of(address as u64).map(|place| place.ordinal);
            if of.is_none() || of != u32::try_from(device.ordinal()).ok() {
                return Err(format!(
                    "the {what} at {address:#x} is not in memory of GPU {}; give a buffer of that GPU",
                    device.number
                ));
            }
        }
        Ok(())
    }

    /// As [`DeviceDriver::locate`](device_runtime::DeviceDriver::locate).
    pub(crate) fn locate_in_order(
        &self,
        place: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
        seen: bool,
    ) -> Result<LaunchMemory<Block>, String> {
        let input = memory.input().expose_provenance() as u64;
        let output = memory.output().expose_provenance() as u64;
        let (input_bytes, output_bytes) =
            (memory.input_bytes() as u64, memory.output_bytes() as u64);
        let device = u32::try_from(self.device(place)?.ordinal());
        // Memory of another GPU is reached if peer access covers it, and other GPUs reach no other.
        let reached = |it: Place| it.is_of_peers || (!seen && device == Ok(it.ordinal));
        let here = |address, bytes| bytes == 0 || place_of(address).is_some_and(reached);
        if at.is_none() && here(input, input_bytes) && here(output, output_bytes) {
            return Ok(LaunchMemory::of_caller(memory));
        }
        let (input_at, output_at, bytes) =
            places(input..input + input_bytes, output..output + output_bytes);
        let (address, staging) = match at {
            Some(at) => (at, None),
            None => {
                let staging = self.staging_buffer(place, bytes)?;
                (staging.address, Some(Block::Plain(staging)))
            }
        };
        Ok(LaunchMemory {
            input: address + input_at,
            output: address + output_at,
            staged: true,
            staging,
        })
    }

    /// Takes a staging buffer for later launches.
    pub(crate) fn take_staging(&self, place: u32, staged: LaunchMemory<Block>) {
        if let Some(Block::Plain(staging)) = staged.staging {
            lock(&self.staging).push((place, staging));
        }
    }
}
