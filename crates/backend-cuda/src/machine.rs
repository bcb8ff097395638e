//! GPUs as the machine that runs kernels.

use std::ffi::c_void;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cudarc::driver::{result, sys};
use executor::Memory;
use kernel_bundle::layout::{Launch, MOST_PARTS};
use kernel_bundle::machine::Start;
use kernel_bundle::{Everywhere, Kernel, Lent, Machine};

use crate::device::{self, Device};
use crate::error::{Error, words};
use crate::launch::{AbortWord, Launched, Spare, Timed, lock};
use crate::multicast::Multicast;
use crate::presence;

/// How GPUs are opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// GPUs that are used, by number; the first if none is named.
    pub devices: Vec<u32>,
    /// Folder in which compiled kernels are kept; none is kept without one.
    pub cache: Option<PathBuf>,
    /// NVRTC's library; by its name if not said.
    pub nvrtc: Option<PathBuf>,
    /// Whether kernels are compiled though the binary has some that fit.
    pub compile: bool,
}

/// GPUs of this process.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    spare: Arc<Spare>,
    /// Memory that stood for callers' and is free again.
    staging: Mutex<Vec<(u32, Block)>>,
}

/// Memory of a GPU.
#[derive(Debug)]
pub struct Block {
    device: Arc<Device>,
    address: u64,
    bytes: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: it was allocated by `Cuda::allocate` and is freed once; no kernel runs that was given it, for every
            // launch is waited for.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

impl Cuda {
    /// Takes GPUs into use.
    ///
    /// # Errors
    /// There is no driver, no GPU, or no kernels for it; or two GPUs cannot access each other's memory.
    pub fn open(options: &Options) -> Result<Self, Error> {
        presence::check()?;
        let numbers = if options.devices.is_empty() {
            vec![0]
        } else {
            options.devices.clone()
        };
        let mut devices = Vec::with_capacity(numbers.len());
        for number in numbers {
            devices.push(Arc::new(Device::open(number, options)?));
        }
        for one in &devices {
            for other in devices.iter().filter(|other| other.number != one.number) {
                one.allow_peer(other)?;
            }
        }
        Ok(Self {
            devices,
            spare: Arc::default(),
            staging: Mutex::default(),
        })
    }

    /// GPUs of this machine.
    ///
    /// # Errors
    /// There is no driver or no GPU.
    pub fn count() -> Result<u32, Error> {
        presence::check()?;
        device::count()
    }

    /// The GPUs in use; a rank's device is a place among them.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().map(Arc::as_ref)
    }

    fn device(&self, place: u32) -> Result<&Arc<Device>, String> {
        let device = self.devices.get(place as usize);
        let device = device.ok_or_else(|| format!("there is no device {place} in use"))?;
        device.enter()?;
        Ok(device)
    }

    /// How fast a GPU copies from its memory to its memory, GB/s of bytes copied: the best of some copies of `bytes` bytes.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn copy_bandwidth(&self, place: u32, bytes: u64) -> Result<f64, String> {
        let (_from_block, from) = self.allocate(place, bytes)?;
        let (_to_block, to) = self.allocate(place, bytes)?;
        let device = self.device(place)?;
        let failed = |error| {
            format!(
                "copying {bytes} bytes on GPU {}: {}",
                device.number,
                words(error)
            )
        };
        let timed = self.timed(device)?;
        let (begin, end) = (timed.begin, timed.end);
        let mut best: f64 = 0.0;
        for _ in 0..10 {
            // SAFETY: both blocks are as long and live until the end of this function; the events were created above.
            let time = unsafe {
                result::event::record(begin, device.stream).map_err(failed)?;
                result::memcpy_dtod_async(to, from, bytes as usize, device.stream)
                    .map_err(failed)?;
                result::event::record(end, device.stream).map_err(failed)?;
                result::stream::synchronize(device.stream).map_err(failed)?;
                result::event::elapsed(begin, end).map_err(failed)?
            };
            best = best.max(bytes as f64 / (f64::from(time) * 1e6));
        }
        Ok(best)
    }

    /// What times a launch, new or used before.
    fn timed(&self, device: &Arc<Device>) -> Result<Timed, String> {
        let mut spare = lock(&self.spare.events);
        let found = spare
            .iter()
            .position(|timed| timed.device.number == device.number);
        if let Some(found) = found {
            return Ok(spare.swap_remove(found));
        }
        drop(spare);
        let event = || {
            result::event::create(sys::CUevent_flags_enum::CU_EVENT_DEFAULT).map_err(|error| {
                format!("making an event on GPU {}: {}", device.number, words(error))
            })
        };
        Ok(Timed {
            device: Arc::clone(device),
            begin: event()?,
            end: event()?,
        })
    }

    /// A block of at least so many bytes, new or used before.
    fn stage(&self, place: u32, bytes: u64) -> Result<Block, String> {
        let mut staging = lock(&self.staging);
        let found = staging.iter().position(|(of, block)| {
            *of == place && block.bytes >= bytes && block.bytes <= 2 * bytes
        });
        if let Some(found) = found {
            return Ok(staging.swap_remove(found).1);
        }
        drop(staging);
        Ok(self.allocate(place, bytes)?.0)
    }
}

/// Whether an address is memory of a GPU.
fn is_of_device(address: u64) -> bool {
    let mut kind: u32 = 0;
    // SAFETY: the driver writes one number, and takes any address.
    let asked = unsafe {
        sys::cuPointerGetAttribute(
            (&raw mut kind).cast::<c_void>(),
            sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            address,
        )
    };
    asked == sys::CUresult::CUDA_SUCCESS
        && kind == sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE as u32
}

/// Where input and output lie in memory that stands for a caller's two buffers: as they lie there, if they overlap, for a
/// program in place counts on it; else one behind the other. Bytes from its start, and how many there are.
fn places(input: Range<u64>, output: Range<u64>) -> (u64, u64, u64) {
    let overlap = input.start < output.end && output.start < input.end;
    // A multiple of what GPUs like, with the caller's place in it kept, so that elements stay aligned.
    let line = 256;
    if overlap {
        let start = input.start.min(output.start);
        let base = start - start % line;
        let end = input.end.max(output.end);
        (input.start - base, output.start - base, end - base)
    } else {
        let bytes = |range: &Range<u64>| range.end - range.start;
        let second = bytes(&input).next_multiple_of(line);
        (0, second, second + bytes(&output))
    }
}

impl Machine for Cuda {
    type Block = Block;
    type Multicast = Multicast;
    type Running = Launched;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn allocate(&self, place: u32, bytes: u64) -> Result<(Block, u64), String> {
        let device = self.device(place)?;
        let failed = |error| {
            format!(
                "allocating {bytes} bytes on GPU {}: {}",
                device.number,
                words(error)
            )
        };
        let size = bytes.max(1) as usize;
        // SAFETY: the device's context is current.
        let address = unsafe { result::malloc_sync(size) }.map_err(failed)?;
        let block = Block {
            device: Arc::clone(device),
            address,
            bytes: size as u64,
        };
        // SAFETY: it was allocated just now. The streams of launches do not wait for the default stream, so this does.
        unsafe {
            result::memset_d8_sync(address, 0, size).map_err(failed)?;
            result::stream::synchronize(result::stream::null()).map_err(failed)?;
        }
        Ok((block, address))
    }

    fn write(&self, place: u32, address: u64, bytes: &[u8]) -> Result<(), String> {
        let device = self.device(place)?;
        let failed = |error| format!("writing to GPU {}: {}", device.number, words(error));
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: callers write into blocks that they hold. The copy may still be under way when the call returns, and the
        // streams of launches do not wait for the default stream, so this does.
        unsafe {
            result::memcpy_htod_sync(address, bytes).map_err(failed)?;
            result::stream::synchronize(result::stream::null()).map_err(failed)
        }
    }

    fn read(&self, place: u32, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        let device = self.device(place)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: callers read blocks that they hold.
        unsafe { result::memcpy_dtoh_sync(bytes, address) }
            .map_err(|error| format!("reading from GPU {}: {}", device.number, words(error)))
    }

    fn export(&self, place: u32, address: u64) -> Result<String, String> {
        let device = self.device(place)?;
        let failed = |error| {
            format!(
                "sharing memory of GPU {} with other processes: {}",
                device.number,
                words(error)
            )
        };
        let mut base = 0;
        let mut size = 0;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the driver writes what the pointers lead to; the address is one that it allocated.
        unsafe {
            sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address)
                .result()
                .map_err(failed)?;
            sys::cuIpcGetMemHandle(&raw mut handle, base)
                .result()
                .map_err(failed)?;
        }
        let mut word: String = handle
            .reserved
            .iter()
            .map(|byte| format!("{:02x}", *byte as u8))
            .collect();
        word.push_str(&format!("+{:x}", address - base));
        Ok(word)
    }

    fn import(&self, place: u32, word: &str) -> Result<u64, String> {
        let device = self.device(place)?;
        let wrong =
            || "another process shares memory in a form that this version does not know".to_owned();
        let (digits, offset) = word.split_once('+').ok_or_else(wrong)?;
        let offset = u64::from_str_radix(offset, 16).map_err(|_| wrong())?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        if digits.len() != 2 * handle.reserved.len() || !digits.is_ascii() {
            return Err(wrong());
        }
        for (at, byte) in handle.reserved.iter_mut().enumerate() {
            let parsed = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16);
            *byte = parsed.map_err(|_| wrong())? as _;
        }
        let mut base = 0;
        // SAFETY: the driver writes one address, and checks the handle. The memory stays open as long as the process.
        let opened = unsafe {
            sys::cuIpcOpenMemHandle_v2(
                &raw mut base,
                handle,
                sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32,
            )
        };
        opened.result().map_err(|error| {
            format!(
                "opening memory of another process on GPU {}: {}",
                device.number,
                words(error)
            )
        })?;
        Ok(base + offset)
    }

    fn multicast(
        &self,
        devices: &[u32],
        bytes: u64,
    ) -> Result<(Multicast, Vec<Everywhere>), String> {
        let devices = devices.iter().map(|place| self.device(*place).cloned());
        let devices: Result<Vec<_>, String> = devices.collect();
        let multicast = Multicast::new(&devices?, bytes)?;
        let addresses = multicast.addresses();
        Ok((multicast, addresses))
    }

    fn lend(&self, place: u32, memory: &Memory<'_>) -> Result<Lent<Block>, String> {
        let device = self.device(place)?;
        let input = memory.input().expose_provenance() as u64;
        let output = memory.output().expose_provenance() as u64;
        let (input_bytes, output_bytes) =
            (memory.input_bytes() as u64, memory.output_bytes() as u64);
        let here = |address, bytes| bytes == 0 || is_of_device(address);
        if here(input, input_bytes) && here(output, output_bytes) {
            return Ok(Lent {
                input,
                output,
                staging: None,
            });
        }
        let (input_at, output_at, bytes) =
            places(input..input + input_bytes, output..output + output_bytes);
        let staging = self.stage(place, bytes)?;
        let address = staging.address;
        let failed = |error| format!("copying to GPU {}: {}", device.number, words(error));
        if input_bytes > 0 {
            // SAFETY: the input is lent for this launch.
            let bytes = unsafe { std::slice::from_raw_parts(memory.input(), memory.input_bytes()) };
            // SAFETY: the block is as long as `places` said. As in `write`, the copy is waited for.
            unsafe {
                result::memcpy_htod_sync(address + input_at, bytes).map_err(failed)?;
                result::stream::synchronize(result::stream::null()).map_err(failed)?;
            }
        }
        Ok(Lent {
            input: address + input_at,
            output: address + output_at,
            staging: Some(staging),
        })
    }

    fn give_back(&self, place: u32, lent: Lent<Block>, memory: &Memory<'_>) -> Result<(), String> {
        let Some(staging) = lent.staging else {
            return Ok(());
        };
        if memory.output_bytes() > 0 {
            // SAFETY: the output is lent for this launch, and nobody else writes it.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(memory.output(), memory.output_bytes()) };
            self.read(place, lent.output, bytes)?;
        }
        lock(&self.staging).push((place, staging));
        Ok(())
    }

    fn resident_blocks(&self, place: u32, kernel: Kernel, threads: u32) -> Result<u32, String> {
        let device = self.device(place)?;
        let mut known = lock(&device.resident);
        let asked_before = known
            .iter()
            .find(|(of, by, _)| (*of, *by) == (kernel, threads));
        if let Some((_, _, blocks)) = asked_before {
            return Ok(*blocks);
        }
        let function = device.module.function(kernel);
        let function = function.ok_or_else(|| format!("there is no kernel {kernel:?}"))?;
        // SAFETY: the function is of a module that is loaded.
        let blocks = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(function, threads as i32, 0)
        };
        let blocks = blocks.map_err(words)?;
        let blocks = u32::try_from(blocks).unwrap_or_default() * device.facts.multiprocessors;
        known.push((kernel, threads, blocks));
        Ok(blocks)
    }

    fn start(&self, starts: &[Start<'_>], repeat: u32) -> Result<Launched, String> {
        for start in starts {
            let resident = self.resident_blocks(start.device, start.kernel, start.threads)?;
            let blocks = start.blocks();
            if blocks > resident {
                let device = self.device(start.device)?;
                return Err(format!(
                    "GPU {} ({}) runs {resident} blocks of {} threads at a time, and the ranks on it need {blocks}, which \
                     wait for each other; take fewer channels (--channels) or fewer ranks on this GPU",
                    device.number, device.facts.name, start.threads
                ));
            }
        }
        if let Some(first) = starts.first() {
            self.device(first.device)?;
        } else if let Some(device) = self.devices.first() {
            device.enter()?;
        }
        let abort = match lock(&self.spare.words).pop() {
            Some(abort) => abort,
            None => AbortWord::new().map_err(|error| error.to_string())?,
        };
        let mut launched = Launched {
            spare: Arc::clone(&self.spare),
            abort: Some(abort),
            given_up: false,
            timed: Vec::with_capacity(starts.len()),
            more: Vec::new(),
        };
        for start in starts {
            self.start_one(start, repeat, &mut launched)?;
        }
        Ok(launched)
    }
}

impl Cuda {
    fn start_one(
        &self,
        start: &Start<'_>,
        repeat: u32,
        launched: &mut Launched,
    ) -> Result<(), String> {
        let mut launch = Launch {
            // Pinned memory has the same address for all.
            abort: launched
                .abort
                .as_ref()
                .map_or(0, |abort| abort.0.expose_provenance() as u64),
            count: u32::try_from(start.parts.len()).unwrap_or(u32::MAX),
            ..Launch::default()
        };
        if start.parts.len() <= MOST_PARTS {
            launch.parts[..start.parts.len()].copy_from_slice(start.parts);
        } else {
            let (block, address) = self.allocate(start.device, size_of_val(start.parts) as u64)?;
            // SAFETY: parts are plain numbers without padding.
            let bytes = unsafe {
                std::slice::from_raw_parts(
                    start.parts.as_ptr().cast::<u8>(),
                    size_of_val(start.parts),
                )
            };
            self.write(start.device, address, bytes)?;
            launch.more = address;
            launched.more.push(block);
        }
        let device = self.device(start.device)?;
        let failed = |error| {
            format!(
                "starting {} blocks on GPU {}: {}",
                start.blocks(),
                device.number,
                words(error)
            )
        };
        let function = device.module.function(start.kernel);
        let function = function.ok_or_else(|| format!("there is no kernel {:?}", start.kernel))?;
        let timed = self.timed(device)?;
        let mut arguments = [(&raw mut launch).cast::<c_void>()];
        // SAFETY: the function takes one `Launch` by value, whose addresses are those of memory that its ranks hold until
        // the launch has ended. A cooperative launch is refused if not all blocks can run at the same time.
        unsafe {
            result::event::record(timed.begin, device.stream).map_err(failed)?;
            for _ in 0..repeat {
                result::launch_cooperative_kernel(
                    function,
                    (start.blocks(), 1, 1),
                    (start.threads, 1, 1),
                    0,
                    device.stream,
                    &mut arguments,
                )
                .map_err(failed)?;
            }
            result::event::record(timed.end, device.stream).map_err(failed)?;
        }
        launched.timed.push(timed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_overlap_stay_so() {
        // The second of four blocks of 100 bytes, and all of them.
        assert_eq!(places(4196..4296, 4096..4496), (100, 0, 400));
        // One behind the other, each on a line.
        assert_eq!(places(4000..4100, 9000..9050), (0, 256, 306));
        assert_eq!(places(5000..5000, 5000..5100), (0, 0, 100));
    }
}
