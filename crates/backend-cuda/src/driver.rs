//! GPUs as a [`DeviceDriver`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys;
use device_runtime::driver::Start;
use device_runtime::{
    Allocation, Bindable, DeviceDriver, Kernel, LaunchMemory, LaunchOptions, MulticastAddresses,
    NicMemory, Repeats, Team,
};
use executor::Memory;
use shared_memory::Mapping;

use crate::bindable;
use crate::callers_memory::{self, place_of};
use crate::device::{self, Device};
use crate::error::{Error, words};
use crate::handles::lock;
use crate::launch::{RunningLaunch, Spare};
use crate::memory::{Block, Host, MemoryKind, Plain};
use crate::multicast::{Multicast, Objects};
use crate::presence;
use crate::rdma;
use crate::sharing::{MemorySharing, OpenedMemory};

/// Options for opening GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Numbers of the GPUs to use; empty: the first.
    pub devices: Vec<u32>,
    /// Folder for compiled kernels; `None`: they are not kept.
    pub cache: Option<PathBuf>,
    /// Path of NVRTC's library; `None`: the loader's default.
    pub nvrtc: Option<PathBuf>,
    /// Whether to compile kernels even if prebuilt ones fit.
    pub compile: bool,
    /// The only kind of memory to share with other processes; `None`: the best available.
    pub memory: Option<MemoryKind>,
    /// How long the driver may take to load, and then to start; `None`:
    /// [`presence::LONGEST_START`].
    pub longest_start: Option<Duration>,
}

impl Options {
    /// Options for opening the GPUs with these numbers, to launch kernels with `launches`.
    ///
    /// # Errors
    /// There is no such kind of memory.
    pub fn of(devices: Vec<u32>, launches: &LaunchOptions) -> Result<Self, Error> {
        let kind = |name: &String| {
            let found = MemoryKind::ALL.into_iter().find(|it| it.name() == name);
            found.ok_or_else(|| Error::NoSuchMemory { name: name.clone() })
        };
        Ok(Self {
            devices,
            memory: launches.memory.as_ref().map(kind).transpose()?,
            ..Self::default()
        })
    }

    /// How long the driver may take to load, and then to start.
    pub(crate) fn longest_start(&self) -> Duration {
        self.longest_start.unwrap_or(presence::LONGEST_START)
    }
}

/// The GPUs of this process.
pub struct Cuda {
    devices: Vec<Arc<Device>>,
    pub(crate) spare: Arc<Spare>,
    /// Free staging buffers, with their device.
    pub(crate) staging: Mutex<Vec<(u32, Plain)>>,
    sharing: MemorySharing,
    multicasts: Objects,
    /// Pairs of GPUs of which the first cannot access the memory of the second, and why.
    apart: Vec<(u32, u32, String)>,
}

/// Most bytes of a copy that is timed; longer ones take as much longer.
const MOST_TIMED: u64 = 64 << 20;

impl Cuda {
    /// Opens GPUs.
    ///
    /// # Errors
    /// There is no driver, no GPU, or no kernels for it; or the driver hangs.
    pub fn open(options: &Options) -> Result<Self, Error> {
        presence::check(options.longest_start())?;
        let numbers = if options.devices.is_empty() {
            vec![0]
        } else {
            options.devices.clone()
        };
        let mut devices = Vec::with_capacity(numbers.len());
        for number in numbers {
            devices.push(Arc::new(Device::open(number, options)?));
        }
        let mut apart = Vec::new();
        for (one, from) in (0..).zip(&devices) {
            for (other, to) in (0..).zip(&devices) {
                let allowed = match from.number == to.number {
                    true => Ok(()),
                    false => from.allow_peer(to),
                };
                let problem = allowed.err().map(|why| (one, other, why.to_string()));
                apart.extend(problem);
            }
        }
        Ok(Self {
            devices,
            spare: Arc::default(),
            staging: Mutex::default(),
            sharing: MemorySharing::new(options.memory),
            multicasts: Objects::default(),
            apart,
        })
    }

    /// The number of GPUs of this machine. `longest` is how long the driver may take to load, and
    /// then to start.
    ///
    /// # Errors
    /// There is no driver or no GPU, or the driver hangs.
    pub fn count(longest: Duration) -> Result<u32, Error> {
        presence::check(longest)?;
        device::count(longest)
    }

    /// The GPUs in use, indexed by the ranks' devices.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().map(Arc::as_ref)
    }

    pub(crate) fn device(&self, place: u32) -> Result<&Arc<Device>, String> {
        let device = self.devices.get(place as usize);
        let device = device.ok_or_else(|| format!("there is no device {place} in use"))?;
        device.enter()?;
        Ok(device)
    }

    /// Whether MPS shares the GPUs in use between processes; `None` if the driver does not say.
    pub fn mps(&self) -> Option<bool> {
        let said = self.devices.iter().map(|device| device.mps());
        said.reduce(|all, one| Some(all? && one?)).flatten()
    }

    /// Bandwidth of copies of `bytes` bytes within a GPU's memory, GB/s: the best of ten copies.
    ///
    /// # Errors
    /// There is not enough memory.
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
        let timed = self.events(device, true)?;
        let (begin, end) = (timed.begin, timed.end);
        let mut best: f64 = 0.0;
        for _ in 0..10 {
            // SAFETY: both blocks have `bytes` bytes and live until the end of this function; the
            // events were created above.
            let time = unsafe {
                result::event::record(begin, device.stream()).map_err(failed)?;
                result::memcpy_dtod_async(to, from, bytes as usize, device.stream())
                    .map_err(failed)?;
                result::event::record(end, device.stream()).map_err(failed)?;
                result::stream::synchronize(device.stream()).map_err(failed)?;
                presence::elapsed_ms(begin, end).map_err(failed)?
            };
            best = best.max(bytes as f64 / (f64::from(time) * 1e6));
        }
        Ok(best)
    }

    /// Copies `bytes` bytes within a GPU's memory and compares them.
    ///
    /// # Errors
    /// There is not enough memory, or a byte is wrong.
    pub fn check_copy(&self, place: u32, bytes: u64) -> Result<(), String> {
        let (_from_block, from) = self.allocate(place, bytes)?;
        let (_to_block, to) = self.allocate(place, bytes)?;
        let pattern: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        self.write(place, from, &pattern)?;
        self.copy_within(place, from, to, pattern.len())?;
        let mut copied = vec![0; pattern.len()];
        self.read(place, to, &mut copied)?;
        let wrong = copied.iter().zip(&pattern).filter(|(it, of)| it != of);
        match wrong.count() {
            0 => Ok(()),
            wrong => Err(format!(
                "{wrong} of {bytes} bytes that GPU {place} copied within its memory are wrong"
            )),
        }
    }

    /// Returns a staging buffer of at least `bytes` bytes, new or reused.
    pub(crate) fn staging_buffer(&self, place: u32, bytes: u64) -> Result<Plain, String> {
        let mut staging = lock(&self.staging);
        let found = staging.iter().position(|(of, block)| {
            *of == place && block.bytes >= bytes && block.bytes <= 2 * bytes
        });
        if let Some(found) = found {
            return Ok(staging.swap_remove(found).1);
        }
        drop(staging);
        Plain::new(self.device(place)?, bytes)
    }

    /// Copies from a caller's buffer, in host or device memory, to a GPU.
    fn copy_in(&self, place: u32, from: *const u8, to: u64, bytes: usize) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        let address = from.expose_provenance() as u64;
        if place_of(address).is_some() {
            return self.copy_within(place, address, to, bytes);
        }
        // SAFETY: the input is valid during this launch.
        let bytes = unsafe { std::slice::from_raw_parts(from, bytes) };
        self.write(place, to, bytes)
    }

    /// Copies from a GPU to a caller's buffer.
    fn copy_out(&self, place: u32, from: u64, to: *mut u8, bytes: usize) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        let address = to.expose_provenance() as u64;
        if place_of(address).is_some() {
            return self.copy_within(place, from, address, bytes);
        }
        // SAFETY: the output is valid during this launch, and nobody else writes it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        self.read(place, from, bytes)
    }

    fn copy_within(&self, place: u32, from: u64, to: u64, bytes: usize) -> Result<(), String> {
        let device = self.device(place)?;
        let failed = |error| format!("copying on GPU {}: {}", device.number, words(error));
        // SAFETY: both ranges are device memory of `bytes` bytes: a caller's buffer and its staging
        // buffer. The driver returns before such a copy has ended, so the stream is awaited.
        unsafe {
            sys::cuMemcpyDtoD_v2(to, from, bytes)
                .result()
                .map_err(failed)?;
            result::stream::synchronize(result::stream::null()).map_err(failed)
        }
    }
}

impl DeviceDriver for Cuda {
    type Block = Block;
    type Multicast = Multicast;
    type Running = RunningLaunch;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn allocate(&self, place: u32, bytes: u64) -> Result<(Block, u64), String> {
        let plain = Plain::new(self.device(place)?, bytes)?;
        let address = plain.address;
        Ok((Block::Plain(plain), address))
    }

    fn write(&self, place: u32, address: u64, bytes: &[u8]) -> Result<(), String> {
        let device = self.device(place)?;
        let failed = |error| format!("writing to GPU {}: {}", device.number, words(error));
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: callers write into blocks that they hold. The copy is awaited, because the launch
        // streams do not wait for it.
        unsafe {
            result::memcpy_htod_async(address, bytes, device.copies()).map_err(failed)?;
            result::stream::synchronize(device.copies()).map_err(failed)
        }
    }

    fn read(&self, place: u32, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        let device = self.device(place)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let failed = |error| format!("reading from GPU {}: {}", device.number, words(error));
        // SAFETY: callers read blocks that they hold. The bytes are there until the copy has ended.
        unsafe {
            result::memcpy_dtoh_async(bytes, address, device.copies()).map_err(failed)?;
            result::stream::synchronize(device.copies()).map_err(failed)
        }
    }

    fn allocate_for_peers(&self, place: u32, bytes: u64) -> Result<(Block, u64), String> {
        self.sharing.allocate(self.device(place)?, bytes)
    }

    fn export(&self, place: u32, address: u64) -> Result<String, String> {
        self.sharing.export(self.device(place)?, address)
    }

    fn import(&self, place: u32, word: &str, bytes: u64) -> Result<u64, String> {
        let Some((address, number)) = self.sharing.own(word) else {
            return self.sharing.import(self.device(place)?, word, bytes);
        };
        let mut owners = (0_u32..).zip(&self.devices);
        match owners.find(|(_, it)| it.number == number) {
            Some((owner, _)) => self.reaches(place, owner).map(|()| address),
            None => Err(format!("GPU {number} is not in use")),
        }
    }

    fn spans_hosts(&self, word: &str) -> bool {
        word.starts_with(MemoryKind::Fabric.name())
    }

    fn register_host(&self, place: u32, memory: &Arc<Mapping>) -> Result<(Block, u64), String> {
        let host = Host::new(self.device(place)?, memory)?;
        let address = host.address;
        Ok((Block::Host(host), address))
    }

    fn rdma(&self, place: u32) -> Result<(), String> {
        let device = self.device(place)?;
        rdma::check(device)
    }

    fn allocate_for_nics(&self, place: u32, bytes: u64) -> Result<NicMemory<Block>, String> {
        rdma::allocate(self.device(place)?, bytes)
    }

    fn identity(&self, place: u32) -> Result<String, String> {
        Ok(self.device(place)?.identity()?)
    }

    fn reaches(&self, place: u32, other: u32) -> Result<(), String> {
        let apart = self.apart.iter();
        let mut problem = apart.filter(|(one, two, _)| (*one, *two) == (place, other));
        problem.next().map_or(Ok(()), |(.., why)| Err(why.clone()))
    }

    fn keeps_lines(&self) -> bool {
        // PCIe may split a line.
        false
    }

    fn keeps_lines_to(&self, place: u32, identity: &str) -> Result<bool, String> {
        Ok(self.device(place)?.keeps_lines_to(identity)?)
    }

    fn multicast_kinds(&self, place: u32) -> Result<Vec<String>, String> {
        let device = self.device(place)?;
        let kinds = self.sharing.multicast_kinds(device)?;
        device.expect_multicast_code().map(|()| kinds)
    }

    fn multicasts_within_devices(&self) -> bool {
        false
    }

    fn begin_multicast(&self, place: u32, team: &Team) -> Result<(Multicast, String), String> {
        Multicast::begin(self.device(place)?, team, &self.multicasts)
    }

    fn join_multicast(
        &self,
        place: u32,
        team: &Team,
        word: &str,
    ) -> Result<(Multicast, String), String> {
        Multicast::join(self.device(place)?, team, word, &self.multicasts)
    }

    fn bind_multicast(
        &self,
        place: u32,
        part: &mut Multicast,
        _words: &[String],
    ) -> Result<MulticastAddresses, String> {
        self.device(place)?;
        part.bind()
    }

    fn bindable(&self, place: u32, address: u64, team: &Team) -> Result<Bindable, String> {
        bindable::bindable(self.device(place)?, address, team)
    }

    fn stage(
        &self,
        place: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
        seen: bool,
    ) -> Result<LaunchMemory<Block>, String> {
        self.device(place)?;
        let located = self.locate_in_order(place, memory, at, seen)?;
        if located.staged {
            self.copy_in(place, memory.input(), located.input, memory.input_bytes())?;
        }
        Ok(located)
    }

    fn copy_back(
        &self,
        place: u32,
        staged: LaunchMemory<Block>,
        memory: &Memory<'_>,
    ) -> Result<(), String> {
        if staged.staged {
            self.copy_out(place, staged.output, memory.output(), memory.output_bytes())?;
        }
        self.take_staging(place, staged);
        Ok(())
    }

    fn locate(
        &self,
        place: u32,
        memory: &Memory<'_>,
        at: Option<u64>,
        seen: bool,
    ) -> Result<LaunchMemory<Block>, String> {
        self.locate_in_order(place, memory, at, seen)
    }

    fn allocation(&self, place: u32, address: u64, bytes: u64) -> Option<Allocation> {
        callers_memory::allocation(self.device(place).ok()?, address, bytes)
    }

    fn offer(
        &self,
        place: u32,
        allocation: &Allocation,
    ) -> Result<(String, Option<Block>), String> {
        let (word, kept) = callers_memory::offer(self.device(place)?, allocation)?;
        Ok((word, kept.map(|it| Block::Kept(Box::new(it)))))
    }

    fn open(&self, place: u32, word: &str, bytes: u64) -> Result<(Block, u64), String> {
        let opened = OpenedMemory::open(self.device(place)?, word)?;
        let address = opened.at(0, bytes)?;
        Ok((Block::Kept(Box::new(opened)), address))
    }

    fn take_back(&self, place: u32, staged: LaunchMemory<Block>) {
        self.take_staging(place, staged);
    }

    fn copy_time_us(&self, place: u32, bytes: u64) -> Result<f64, String> {
        if bytes == 0 {
            return Ok(0.0);
        }
        let bandwidth = self.copy_bandwidth(place, bytes.min(MOST_TIMED))?;
        Ok(bytes as f64 / (bandwidth * 1e3))
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
        let number = device.number;
        let blocks = blocks.map_err(|error| format!("GPU {number}: {}", words(error)))?;
        let blocks = u32::try_from(blocks).unwrap_or_default() * device.properties.multiprocessors;
        known.push((kernel, threads, blocks));
        Ok(blocks)
    }

    fn takes_turns(&self) -> bool {
        self.mps() != Some(true)
    }

    fn synchronize(&self, place: u32) -> Result<(), String> {
        let device = self.device(place)?;
        let waited = device.synchronize();
        waited.map_err(|error| format!("GPU {}: a kernel failed: {}", device.number, words(error)))
    }

    fn start(&self, starts: &[Start<'_>], repeats: Repeats) -> Result<RunningLaunch, String> {
        self.start_all(starts, repeats)
    }
}
