//! One GPU: its context, its stream and its properties.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use cudarc::driver::{DriverError, result};

use device_runtime::Kernel;

use crate::error::{Driver, Error};
use crate::handles::{caller, digits, lock};
use crate::module::{Module, Origin};
use crate::prebuilt::MULTICAST_PTX;
use crate::presence;

/// `CU_STREAM_LEGACY`; 0 is the same stream. It has the default priority.
const LEGACY: u64 = 1;

/// The least compute capability × 10 of code that has multicasts.
const MULTICAST_CAPABILITY: u32 = 90;

/// Properties of a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuProperties {
    /// Name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major number.
    pub major: i32,
    /// Compute capability, minor number.
    pub minor: i32,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Highest clock of the multiprocessors, MHz.
    pub clock_mhz: u32,
    /// Highest clock of the memory, MHz.
    pub memory_clock_mhz: u32,
    /// The driver's version as CUDA's number, such as 13000.
    pub driver: i32,
    /// Origin of the kernels.
    pub kernels: Origin,
    /// Time to load the kernels, ms.
    pub kernels_ms: f64,
}

/// The primary context of a GPU, which all users of a process share.
#[derive(Debug)]
struct PrimaryContext {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // The end of the process frees what an error leaves.
        // SAFETY: retained once, when this was made.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A stream of kernels.
#[derive(Debug)]
pub(crate) struct Stream(sys::CUstream);

impl Stream {
    /// A stream of the current context that does not wait for the default stream.
    pub(crate) fn new() -> Result<Self, DriverError> {
        result::stream::create(result::stream::StreamKind::NonBlocking).map(Self)
    }

    /// As [`Self::new`], of the highest priority of the GPU.
    fn urgent() -> Result<Self, DriverError> {
        let (mut stream, mut highest) = (std::ptr::null_mut(), 0);
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; the driver writes a number, and then a handle.
        unsafe {
            sys::cuCtxGetStreamPriorityRange(std::ptr::null_mut(), &raw mut highest).result()?;
            sys::cuStreamCreateWithPriority(&raw mut stream, flags, highest).result()?;
        }
        Ok(Self(stream))
    }

    pub(crate) const fn handle(&self) -> sys::CUstream {
        self.0
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, in the context that is current; every launch was waited for.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// A GPU that has answered.
struct Started {
    context: PrimaryContext,
    streams: [Stream; 3],
}

// SAFETY: contexts and streams are handles that the driver lets any thread use.
unsafe impl Send for Started {}

impl Started {
    fn new(number: c_int) -> Result<Self, DriverError> {
        let device = result::device::get(number)?;
        // SAFETY: the device is one that the driver gave.
        let context = unsafe { result::primary_ctx::retain(device) }?;
        let context = PrimaryContext { device, context };
        // SAFETY: the context is retained until this is dropped.
        unsafe { result::ctx::set_current(context.context) }?;
        let streams = [Stream::new()?, Stream::urgent()?, Stream::new()?];
        Ok(Self { context, streams })
    }
}

/// A GPU in use.
#[derive(Debug)]
pub struct Device {
    pub(crate) number: u32,
    device: sys::CUdevice,
    // Dropped in this order.
    pub(crate) module: Module,
    stream: Stream,
    urgent: Stream,
    copies: Stream,
    /// Whether the last launch in the order of other streams was on the urgent stream.
    last_is_urgent: Mutex<bool>,
    context: PrimaryContext,
    /// Whether it has several memory synchronization domains.
    pub(crate) has_domains: bool,
    /// Whether a kernel of this process does not end although it was told to. Nothing can be freed
    /// then, also by others that use the GPU.
    stuck: Arc<AtomicBool>,
    /// Known numbers of resident blocks, by kernel and threads per block.
    pub(crate) resident: Mutex<Vec<(Kernel, u32, u32)>>,
    /// Its properties.
    pub properties: GpuProperties,
}

// SAFETY: contexts and streams are handles that the driver lets any thread use.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's functions are safe to call from several threads.
unsafe impl Sync for Device {}

/// The flags of stuck GPUs, which all users of a process share, by the driver's ordinal.
static STUCK: Mutex<BTreeMap<sys::CUdevice, Arc<AtomicBool>>> = Mutex::new(BTreeMap::new());

fn stuck(device: sys::CUdevice) -> Arc<AtomicBool> {
    Arc::clone(lock(&STUCK).entry(device).or_default())
}

/// The number of GPUs of this machine. `longest` is how long the driver may take to start.
///
/// # Errors
/// The driver finds none, or hangs.
pub(crate) fn count(longest: Duration) -> Result<u32, Error> {
    let none = |why| Error::NoDevice { why };
    let started = presence::answer("cuInit", longest, result::init)?;
    started.map_err(|error| none(crate::error::words(error)))?;
    let count = result::device::get_count().to(|| "counting GPUs".to_owned())?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(none("it counts 0".to_owned())),
    }
}

/// The UUID of a GPU.
fn identity(device: sys::CUdevice) -> Result<String, DriverError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the device is one that the driver gave, which writes 16 bytes.
    unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) }.result()?;
    let bytes = uuid.bytes.map(|byte| byte as u8);
    Ok(format!("GPU-{}", digits(&bytes)))
}

impl Device {
    /// Opens a GPU.
    ///
    /// # Errors
    /// There is no such GPU, it reports an error, or there are no kernels for it.
    pub(crate) fn open(number: u32, options: &crate::Options) -> Result<Self, Error> {
        let count = count(options.longest_start())?;
        if number >= count {
            let device = number;
            return Err(Error::NoSuchDevice { device, count });
        }
        let what = || format!("opening GPU {number}");
        // A GPU that has fallen off the bus may hang here.
        let longest = options.longest_start();
        let started = presence::answer(&what(), longest, move || Started::new(number as c_int))?;
        let Started { context, streams } = started.to(what)?;
        let [stream, urgent, copies] = streams;
        let device = context.device;
        // SAFETY: the context is retained until this device is dropped.
        unsafe { result::ctx::set_current(context.context) }.to(what)?;
        let attribute = |attribute| {
            // SAFETY: as above.
            unsafe { result::device::get_attribute(device, attribute) }.to(what)
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let khz = |value: i32| u32::try_from(value / 1000).unwrap_or_default();
        let name = result::device::get_name(device).to(what)?;
        let mut driver = 0;
        // SAFETY: the driver writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut driver) }.to(what)?;
        let began = std::time::Instant::now();
        let (module, kernels) = Module::load(&name, major, minor, options)?;
        let properties = GpuProperties {
            name,
            major,
            minor,
            multiprocessors: u32::try_from(attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )?)
            .unwrap_or_default(),
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device) }.to(what)? as u64,
            clock_mhz: khz(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
            memory_clock_mhz: khz(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?),
            driver,
            kernels,
            kernels_ms: began.elapsed().as_secs_f64() * 1e3,
        };
        // Drivers before CUDA 12.0 do not know the attribute.
        let domains = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
        Ok(Self {
            number,
            device,
            module,
            stream,
            urgent,
            copies,
            last_is_urgent: Mutex::default(),
            context,
            has_domains: domains.is_ok_and(|domains| domains > 1),
            stuck: stuck(device),
            resident: Mutex::default(),
            properties,
        })
    }

    /// The stream of its kernels.
    pub(crate) const fn stream(&self) -> sys::CUstream {
        self.stream.handle()
    }

    /// Waits for its kernels.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let mut streams = [&self.stream, &self.urgent].into_iter();
        // SAFETY: the streams are the device's.
        streams.try_for_each(|it| unsafe { result::stream::synchronize(it.handle()) })
    }

    /// Fails with "not ready" while its kernels run.
    pub(crate) fn query(&self) -> Result<(), DriverError> {
        let mut streams = [&self.stream, &self.urgent].into_iter();
        // SAFETY: the streams are the device's.
        streams.try_for_each(|it| unsafe { sys::cuStreamQuery(it.handle()) }.result())
    }

    /// Submits a launch in the order of these streams of callers: to the stream of kernels or, if
    /// one of them has a priority above the default, to one with the highest, because its blocks
    /// would wait behind those of all kernels launched before. A launch waits for the one before,
    /// also if that is on the other of these two streams; `event` is recorded for that.
    pub(crate) fn submit_among(
        &self,
        callers: &[u64],
        event: sys::CUevent,
        submit: impl FnOnce(sys::CUstream) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let mut is_urgent = false;
        for stream in callers.iter().filter(|it| **it > LEGACY) {
            let mut priority = 0;
            // SAFETY: callers give streams of this device; the driver writes a number.
            unsafe { sys::cuStreamGetPriority(caller(*stream), &raw mut priority) }.result()?;
            is_urgent |= priority < 0;
        }
        // Held until the launch is submitted, so that a later one cannot overtake it.
        let mut last_is_urgent = lock(&self.last_is_urgent);
        let streams = [self.stream(), self.urgent.handle()];
        let [own, other] = [is_urgent, !is_urgent].map(|it| streams[usize::from(it)]);
        if *last_is_urgent != is_urgent {
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // SAFETY: streams and event are of this device's context.
            unsafe {
                result::event::record(event, other)?;
                result::stream::wait_event(own, event, flags)?;
            }
            *last_is_urgent = is_urgent;
        }
        submit(own)
    }

    /// The stream of copies to and from memory of this backend, on which nothing waits for kernels.
    /// The legacy stream would wait for streams of the program, and break their captures.
    pub(crate) const fn copies(&self) -> sys::CUstream {
        self.copies.handle()
    }

    /// Checks that the loaded kernels have the instructions of multicasts, whatever the GPU has.
    /// Others do nothing in place of them: with a trap there the kernel of 8-bit integers for
    /// compute capability 8.0 would spill. Ranks take NVLS only where this succeeds for all of
    /// them, so those kernels are never launched with a program that has multicasts.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn expect_multicast_code(&self) -> Result<(), String> {
        let (number, capability) = (self.number, self.module.capability);
        if capability >= MULTICAST_CAPABILITY {
            return Ok(());
        }
        Err(format!(
            "the kernels that GPU {number} loaded ({}) are for compute capability {}.{} and have no multicast (NVLS), which \
             needs those for 9.0; install a driver of 535 or newer, which loads {}",
            self.properties.kernels,
            capability / 10,
            capability % 10,
            MULTICAST_PTX.file()
        ))
    }

    /// The GPU's number, from 0.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns an attribute of the device.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<i32, Error> {
        // SAFETY: the device is one that the driver gave.
        let value = unsafe { result::device::get_attribute(self.device, attribute) };
        value.to(|| format!("asking GPU {} for {attribute:?}", self.number))
    }

    /// Whether MPS shares the GPU between processes; `None` if the driver does not say, as those
    /// before CUDA 12.2.
    pub fn mps(&self) -> Option<bool> {
        let mps = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
        mps.ok().map(|value| value != 0)
    }

    /// The driver's ordinal of the device.
    pub(crate) const fn ordinal(&self) -> c_int {
        self.device
    }

    /// The GPU's UUID, equal in all processes.
    pub(crate) fn identity(&self) -> Result<String, Error> {
        identity(self.device).to(|| format!("asking GPU {} for its UUID", self.number))
    }

    /// Whether LL128 lines arrive as a whole in the memory of the GPU with this UUID. That holds
    /// over NVLink, which also carries atomic operations; `false` if this process cannot see the
    /// GPU.
    pub(crate) fn keeps_lines_to(&self, other: &str) -> Result<bool, Error> {
        let what = || format!("asking GPU {} how it reaches {other}", self.number);
        for number in 0..result::device::get_count().to(what)? {
            let peer = result::device::get(number).to(what)?;
            if identity(peer).to(what)? != other {
                continue;
            }
            let mut atomic = 0;
            let attribute =
                sys::CUdevice_P2PAttribute_enum::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
            if peer != self.device {
                // SAFETY: both are devices that the driver gave; it writes one number.
                unsafe {
                    sys::cuDeviceGetP2PAttribute(&raw mut atomic, attribute, self.device, peer)
                }
                .to(what)?;
            }
            return Ok(peer == self.device || atomic != 0);
        }
        Ok(false)
    }

    /// Notes that a kernel does not end. From now on nobody can use this GPU or free its memory.
    pub(crate) fn give_up(&self) {
        self.stuck.store(true, Ordering::Release);
    }

    /// Makes this GPU's context current on this thread.
    pub(crate) fn enter(&self) -> Result<(), String> {
        if self.stuck.load(Ordering::Acquire) {
            let number = self.number;
            return Err(format!(
                "GPU {number}: a kernel does not end although it was told to; end this process"
            ));
        }
        // SAFETY: the context is retained until this device is dropped.
        let entered = unsafe { result::ctx::set_current(self.context.context) };
        Ok(entered.to(|| format!("using GPU {}", self.number))?)
    }

    /// Allows kernels of this GPU to access the memory of another one.
    pub(crate) fn allow_peer(&self, peer: &Self) -> Result<(), Error> {
        let what = || {
            format!(
                "letting GPU {} access the memory of GPU {}",
                self.number, peer.number
            )
        };
        let mut can = 0;
        // SAFETY: both are devices that the driver gave; it writes one number.
        unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, peer.device) }.to(what)?;
        if can == 0 {
            return Err(Error::Driver {
                what: what(),
                why: "they cannot reach each other (nvidia-smi topo -p2p r shows which can); take GPUs that can, or one GPU"
                    .to_owned(),
            });
        }
        self.enter()
            .map_err(|why| Error::Driver { what: what(), why })?;
        // SAFETY: the peer's context is retained until it is dropped.
        let allowed = unsafe { sys::cuCtxEnablePeerAccess(peer.context.context, 0) };
        match allowed {
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            other => other.to(what),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // What is dropped after this belongs to the context. If entering fails, so does freeing,
        // and the end of the process frees the rest.
        let _ = self.enter();
    }
}
