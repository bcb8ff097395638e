//! The driver's state: contexts, objects, addresses.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::machine::{Gpu, Machine};
use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Refusal, Section, ensure, refuse};
use crate::event::Event;
use crate::execution::Residency;
use crate::image::Image;
use crate::report;
use crate::space::{Kind, Physical, Space};
use crate::start;
use crate::stream::{Stream, Work};
use crate::table::Table;

/// The first handle of contexts.
const CONTEXTS: u64 = 0x7c00_0000_0000;

/// Difference between handles of contexts.
const CONTEXT_STEP: u64 = 4096;

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// The device of its context.
    pub device: usize,
    /// Its kernels.
    pub image: Image,
}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct Function {
    /// The device of its context.
    pub device: usize,
    /// The module's handle.
    pub module: u64,
    /// Its name.
    pub name: std::ffi::CString,
    /// Registers of a thread.
    pub registers: u32,
    /// Compute capability × 10 that its code is for.
    pub capability: u32,
    /// Bytes of its argument.
    pub parameters: usize,
}

/// A graph or an executable graph.
pub struct Graph {
    /// The device of the captured stream.
    pub device: usize,
    /// Its nodes, one after the other.
    pub nodes: Vec<Work>,
    /// What a launch counts against the limit of bytes of a queue.
    pub bytes: usize,
    /// Of an executable graph: its last launch, which the next one follows.
    pub last: Mutex<Option<(Arc<Stream>, u64)>>,
}

/// All objects with handles.
pub struct Objects {
    /// `CUstream`
    pub streams: Table<Arc<Stream>>,
    /// `CUevent`
    pub events: Table<Arc<Event>>,
    /// `CUmodule`
    pub modules: Table<Module>,
    /// `CUfunction`
    pub functions: Table<Function>,
    /// `CUgraph`
    pub graphs: Table<Arc<Graph>>,
    /// `CUgraphExec`
    pub executables: Table<Arc<Graph>>,
    /// `CUmemGenericAllocationHandle`
    pub physical: Table<Arc<Physical>>,
}

/// A device's primary context.
#[derive(Debug)]
pub struct Primary {
    references: AtomicU32,
    /// The error that sticks, and the word that ends running kernels; 0: none.
    pub fault: AtomicU32,
    /// The error that the next call finds that waits for the GPU; 0: none.
    pub late: AtomicU32,
    /// What a blocked launch holds, where the machine file says so.
    pub(crate) lock: Mutex<()>,
    /// What a grid holds that overlaps with no other one that holds it.
    pub alone: Mutex<()>,
    /// The stream 0.
    pub legacy: Arc<Stream>,
    /// Room for blocks.
    pub residency: Residency,
    /// Number of launches so far.
    pub launches: AtomicU64,
    /// Bytes of the device's memory that this process allocated.
    pub used: AtomicU64,
}

/// By device: bytes that this process allocated and has not freed.
pub fn used() -> Vec<u64> {
    let contexts = driver().map_or(&[][..], |it| &it.contexts);
    let used = contexts.iter().map(|it| it.used.load(Ordering::Acquire));
    used.collect()
}

/// The driver.
pub struct Driver {
    /// What it presents.
    pub machine: &'static Machine,
    /// By device.
    pub contexts: Vec<Primary>,
    space: Mutex<Space>,
    objects: Mutex<Objects>,
}

thread_local! {
    /// The device whose context is current.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// The driver.
///
/// # Errors
/// `cuInit` has not succeeded.
pub fn driver() -> Answer<&'static Driver> {
    let rule = "cuInit must be called first";
    let error = CUresult::CUDA_ERROR_NOT_INITIALIZED;
    ensure(
        start::is_initialised(),
        error,
        Section::Initialization,
        rule,
    )?;
    let Ok(machine) = start::machine() else {
        return refuse(error, Section::Initialization, rule);
    };
    Ok(DRIVER.get_or_init(|| Driver::new(machine)))
}

/// The driver and the device of the current context.
///
/// # Errors
/// No context is current, it was destroyed, or one of its kernels failed.
pub fn current() -> Answer<(&'static Driver, usize)> {
    let driver = driver()?;
    let Some(device) = CURRENT.get() else {
        return refuse(
            CUresult::CUDA_ERROR_INVALID_CONTEXT,
            Section::Context,
            "no context is current on this thread",
        );
    };
    let context = &driver.contexts[device];
    ensure(
        context.references.load(Ordering::Acquire) > 0,
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Section::Context,
        "the current context was destroyed",
    )?;
    driver.pass(device);
    driver.sound(device)?;
    Ok((driver, device))
}

impl Driver {
    fn new(machine: &'static Machine) -> Self {
        let primary = |device| Primary {
            references: AtomicU32::new(0),
            fault: AtomicU32::new(0),
            late: AtomicU32::new(0),
            lock: Mutex::default(),
            alone: Mutex::default(),
            legacy: Stream::new(device, true),
            residency: Residency::default(),
            launches: AtomicU64::new(0),
            used: AtomicU64::new(0),
        };
        report::set_leaks(|| DRIVER.get().map_or_else(Vec::new, |it| it.leaks(None)));
        Self {
            machine,
            contexts: (0..machine.gpus.len()).map(primary).collect(),
            space: Mutex::default(),
            objects: Mutex::new(Objects {
                streams: Table::new(0x51),
                events: Table::new(0x52),
                modules: Table::new(0x53),
                functions: Table::new(0x54),
                graphs: Table::new(0x55),
                executables: Table::new(0x56),
                physical: Table::new(0x57),
            }),
        }
    }

    /// The addresses.
    pub fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds memory or a multicast object; returns its handle.
    pub fn add(&self, memory: Physical) -> u64 {
        self.objects().physical.insert(Arc::new(memory))
    }

    /// A device by its number.
    ///
    /// # Errors
    /// There is none.
    pub fn device(&self, number: i32) -> Answer<(usize, &'static Gpu)> {
        let index = usize::try_from(number).ok();
        let found = index.and_then(|it| Some((it, self.machine.gpus.get(it)?)));
        match found {
            Some(found) => Ok(found),
            None => refuse(
                CUresult::CUDA_ERROR_INVALID_DEVICE,
                Section::Device,
                format!("there is no device {number}"),
            ),
        }
    }

    /// The device with a UUID.
    pub fn by_uuid(&self, uuid: [u8; 16]) -> Option<usize> {
        self.machine.gpus.iter().position(|it| it.uuid == uuid)
    }

    /// Fails with the error that sticks to a context, if there is one.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn sound(&self, device: usize) -> Answer {
        match self.contexts[device].fault.load(Ordering::Acquire) {
            0 => Ok(()),
            error => Err(Refusal {
                error,
                section: Section::Context,
                rule: String::new(),
            }),
        }
    }

    /// A kernel of a device failed.
    pub fn fail(&self, device: usize, error: CUresult, why: &str) {
        let fault = &self.contexts[device].fault;
        let first = fault.compare_exchange(0, error as u32, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            report::note(format!("fault GPU {device}: {error:?}: {why}"));
        }
    }

    /// Retains a device's context; returns its handle.
    pub fn retain(&self, device: usize) -> u64 {
        self.contexts[device]
            .references
            .fetch_add(1, Ordering::AcqRel);
        self.context_handle(device)
    }

    /// Releases a device's context. With the last reference, its objects are destroyed.
    ///
    /// # Errors
    /// It is not retained.
    pub fn release(&self, device: usize) -> Answer {
        let references = &self.contexts[device].references;
        let less = |count: u32| count.checked_sub(1);
        match references.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(1) => self.destroy(device),
            Ok(_) => {}
            Err(_) => {
                return refuse(
                    CUresult::CUDA_ERROR_INVALID_CONTEXT,
                    Section::PrimaryContext,
                    "the primary context is not retained",
                );
            }
        }
        Ok(())
    }

    /// The device of a context's handle.
    ///
    /// # Errors
    /// It is no context, or was destroyed.
    pub fn context(&self, handle: u64) -> Answer<usize> {
        let index = handle
            .checked_sub(CONTEXTS)
            .map(|it| (it / CONTEXT_STEP) as usize);
        let index =
            index.filter(|it| *it < self.contexts.len() && handle.is_multiple_of(CONTEXT_STEP));
        let Some(index) = index else {
            return refuse(
                CUresult::CUDA_ERROR_INVALID_CONTEXT,
                Section::Context,
                "the handle is no context",
            );
        };
        let live = self.contexts[index].references.load(Ordering::Acquire) > 0;
        let error = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
        ensure(live, error, Section::Context, "the context was destroyed")?;
        Ok(index)
    }

    /// Makes a context current on this thread.
    pub fn enter(&self, device: Option<usize>) {
        CURRENT.set(device);
    }

    /// The handle of the current context; 0: none.
    pub fn entered(&self) -> u64 {
        CURRENT
            .get()
            .map_or(0, |device| self.context_handle(device))
    }

    /// The handle of a device's primary context.
    pub fn context_handle(&self, device: usize) -> u64 {
        CONTEXTS + device as u64 * CONTEXT_STEP
    }

    /// Destroys what belongs to a context.
    fn destroy(&self, device: usize) {
        self.leaks(Some(device)).into_iter().for_each(report::note);
        let mut objects = self.objects();
        for (_, stream) in objects.streams.take(|it| it.device == device) {
            stream.end();
        }
        objects.events.take(|it| it.device == device);
        objects.functions.take(|it| it.device == device);
        objects.modules.take(|it| it.device == device);
        let mut space = self.space();
        let own = space.blocks.iter().filter(|(_, it)| it.device == device);
        let own: Vec<u64> = own.map(|(base, _)| *base).collect();
        for base in own {
            space.remove_block(base);
        }
        space
            .peers
            .retain(|(one, other)| *one != device && *other != device);
        self.contexts[device].fault.store(0, Ordering::Release);
        self.contexts[device].late.store(0, Ordering::Release);
    }

    /// Lines of the report: what was not destroyed, of a context or at all.
    pub fn leaks(&self, of: Option<usize>) -> Vec<String> {
        let mut leaks = Vec::new();
        // A context whose kernel failed cannot free anything.
        let lost = |device: usize| self.contexts[device].fault.load(Ordering::Acquire) != 0;
        let own = |device: usize| of.is_none_or(|of| of == device) && !lost(device);
        let (objects, space) = (self.objects(), self.space());
        let mut leak = |what: String, device: usize| {
            if own(device) {
                leaks.push(format!("{what} of GPU {device}"));
            }
        };
        objects
            .streams
            .all()
            .for_each(|(_, it)| leak("a stream".to_owned(), it.device));
        objects
            .events
            .all()
            .for_each(|(_, it)| leak("an event".to_owned(), it.device));
        objects
            .modules
            .all()
            .for_each(|(_, it)| leak("a module".to_owned(), it.device));
        for (base, block) in &space.blocks {
            let kind = match block.kind {
                Kind::Device(_) => "memory",
                Kind::Imported(_) => "opened memory",
                Kind::Host => "host memory",
                Kind::Registered => "registered memory",
            };
            leak(
                format!("{} bytes of {kind} at {base:#x}", block.bytes),
                block.device,
            );
        }
        if of.is_none() {
            let graphs = objects.graphs.all().chain(objects.executables.all());
            graphs.for_each(|(_, it)| leak("a graph".to_owned(), it.device));
            let physical = objects.physical.all();
            physical.for_each(|(_, it)| leak(format!("a handle of {} bytes", it.bytes), it.device));
            for (base, mapping) in &space.mappings {
                let bytes = mapping.bytes;
                leak(
                    format!("a mapping of {bytes} bytes at {base:#x}"),
                    mapping.physical.device,
                );
            }
            for (device, context) in self.contexts.iter().enumerate() {
                if context.references.load(Ordering::Acquire) > 0 {
                    leak("the primary context".to_owned(), device);
                }
            }
            let reserved = space.reservations.iter();
            leaks
                .extend(reserved.map(|(base, it)| format!("{it} reserved addresses at {base:#x}")));
        }
        // A launch that was given up keeps all that it may use, also memory of other GPUs.
        let given_up = objects.events.all().any(|(_, it)| it.is_given_up());
        let what = if given_up { "kept" } else { "leak" };
        leaks.iter().map(|it| format!("{what} {it}")).collect()
    }
}
