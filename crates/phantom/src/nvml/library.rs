//! The machine, handles of GPUs, results, and the frame of the exported functions.

use std::ffi::{CStr, c_char, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::machine::{Gpu, Machine};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH as LIB_RM_VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t, nvmlSystemConfComputeSettings_t,
};

/// An answer, or NVML's number of an error.
pub(crate) type Answer<T = ()> = Result<T, nvmlReturn_t>;

static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();

/// By NVML's number the place of a GPU in the machine, and nothing for GPUs that the topology file
/// lacks.
static NUMBERS: OnceLock<Vec<Option<usize>>> = OnceLock::new();

/// Most GPUs that NCCL lets NVML list.
const MOST_NUMBERS: usize = 32;

/// How many calls of `nvmlInit_v2` were not yet undone by `nvmlShutdown`.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Presents a machine to this process, whatever the variable says. GPUs have the numbers of the
/// topology file. The file of a job may lack some numbers; these get handles of unknown GPUs.
///
/// # Errors
/// A machine is presented already.
pub fn present(machine: Machine) -> Result<(), String> {
    if let Some(numbers) = numbers_of_file(&machine) {
        // Only if nothing is presented, which the next call finds out.
        let _ = NUMBERS.set(numbers);
    }
    let presented = MACHINE.set(Ok(machine));
    presented.map_err(|_| "a machine is presented already".to_owned())
}

/// The machine, if the library is initialized.
pub(crate) fn machine() -> Answer<&'static Machine> {
    if USERS.load(Ordering::Acquire) == 0 {
        return Err(UNINITIALIZED);
    }
    let opened = MACHINE.get().ok_or(UNINITIALIZED)?;
    opened.as_ref().map_err(|_| DRIVER_NOT_LOADED)
}

/// By the number in the topology file the place of each GPU; nothing if a number is none of NVML's.
fn numbers_of_file(machine: &Machine) -> Option<Vec<Option<usize>>> {
    let mut numbers = Vec::new();
    for (place, gpu) in machine.gpus.iter().enumerate() {
        let number = usize::try_from(gpu.number).ok()?;
        if number >= MOST_NUMBERS {
            return None;
        }
        numbers.resize(numbers.len().max(number + 1), None);
        // The parts of a GPU (MLOPart) are one GPU to NVML.
        numbers[number].get_or_insert(place);
    }
    Some(numbers)
}

/// By NVML's number the place of each GPU in the machine.
fn numbers() -> Answer<&'static [Option<usize>]> {
    let machine = machine()?;
    Ok(NUMBERS.get_or_init(|| (0..machine.gpus.len()).map(Some).collect()))
}

/// NVML's number by a handle: the number plus one.
fn number(handle: nvmlDevice_t) -> Answer<usize> {
    let number = handle.addr().checked_sub(1);
    let count = numbers()?.len();
    number.filter(|it| *it < count).ok_or(INVALID_ARGUMENT)
}

/// The place of a GPU in the machine by its handle, and nothing for one that the file lacks.
pub(crate) fn place(handle: nvmlDevice_t) -> Answer<Option<usize>> {
    let number = number(handle)?;
    Ok(numbers()?[number])
}

/// A GPU by its handle.
pub(crate) fn gpu(handle: nvmlDevice_t) -> Answer<&'static Gpu> {
    let place = place(handle)?.ok_or(NOT_SUPPORTED)?;
    machine()?.gpus.get(place).ok_or(INVALID_ARGUMENT)
}

/// The number that a function returns.
pub(crate) fn finish(answer: Answer) -> nvmlReturn_t {
    answer.err().unwrap_or(SUCCESS)
}

/// A pointer of a caller to a place for a result.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub(crate) fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: callers of NVML promise that a pointer that is not null leads to a place.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// This many values, which the caller has written.
    pub(crate) fn values<'a>(self, count: usize) -> Answer<&'a mut [T]> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: callers of NVML promise that arrays are as long as they say.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, count) })
    }

    /// The value, which the caller has written.
    pub(crate) fn value<'a>(self) -> Answer<&'a mut T> {
        // SAFETY: as in `put`.
        unsafe { self.0.as_mut() }.ok_or(INVALID_ARGUMENT)
    }
}

impl Out<c_char> {
    /// Writes a text and its final zero into a buffer of this length, bytes.
    pub(crate) fn put_text(self, length: c_uint, text: &str) -> Answer {
        if text.len() >= length as usize {
            return Err(INSUFFICIENT_SIZE);
        }
        let mut letters = text.bytes().chain([0]).enumerate();
        letters.try_for_each(|(at, letter)| {
            let place = match self.0.is_null() {
                true => self,
                false => Self(self.0.wrapping_add(at)),
            };
            place.put(letter as c_char)
        })
    }
}

/// Defines exported functions.
macro_rules! functions {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// The arguments are as NVML's documentation of this function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($argument: $type),*
        ) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            let answer = || -> $crate::nvml::library::Answer { $body };
            $crate::nvml::library::finish(answer())
        }
    )*};
}
pub(crate) use functions;

/// `nvmlErrorString`: also before initialization.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text: &CStr = match result {
        SUCCESS => c"success",
        UNINITIALIZED => c"not initialized",
        INVALID_ARGUMENT => c"invalid argument",
        NOT_SUPPORTED => c"not supported",
        INSUFFICIENT_SIZE => c"insufficient size",
        DRIVER_NOT_LOADED => c"driver not loaded",
        // Tests plant these; programs print them.
        GPU_IS_LOST => c"GPU is lost",
        LIB_RM_VERSION_MISMATCH => c"Driver/library version mismatch",
        _ => c"another error of the topo phantom",
    };
    text.as_ptr()
}

functions! {
    /// Initializes the library.
    fn nvmlInit_v2() {
        let opened = MACHINE.get_or_init(|| {
            let opened = crate::machine::open();
            if let Err(why) = &opened {
                eprintln!("topo phantom: {why}");
            }
            opened
        });
        opened.as_ref().map_err(|_| DRIVER_NOT_LOADED)?;
        USERS.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Undoes an initialization.
    fn nvmlShutdown() {
        let less = |users: u32| users.checked_sub(1);
        let ended = USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        ended.map(drop).map_err(|_| UNINITIALIZED)
    }

    /// The version of the driver.
    fn nvmlSystemGetDriverVersion(version: Out<c_char>, length: c_uint) {
        let driver = machine()?.setup.driver;
        let text = format!("topo phantom of CUDA {}.{}", driver / 1000, driver % 1000 / 10);
        version.put_text(length, &text)
    }

    /// Confidential computing is off.
    fn nvmlSystemGetConfComputeSettings(settings: Out<nvmlSystemConfComputeSettings_t>) {
        machine()?;
        let settings = settings.value()?;
        (settings.ccFeature, settings.multiGpuMode) = (0, 0);
        Ok(())
    }

    /// The number of GPUs.
    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) {
        count.put(numbers()?.len() as c_uint)
    }

    /// The handle of a GPU by its index.
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<nvmlDevice_t>) {
        let handle = std::ptr::without_provenance_mut(index as usize + 1);
        number(handle)?;
        device.put(handle)
    }

    /// The handle of a GPU by its bus id.
    fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, device: Out<nvmlDevice_t>) {
        let machine = machine()?;
        if bus_id.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: callers of NVML promise that texts end with a 0.
        let text = unsafe { CStr::from_ptr(bus_id) }.to_string_lossy();
        let place = machine.by_bus_id(&text).ok_or(NOT_FOUND)?;
        let mut numbers = numbers()?.iter();
        let number = numbers.position(|it| *it == Some(place)).ok_or(NOT_FOUND)?;
        device.put(std::ptr::without_provenance_mut(number + 1))
    }

    /// The index of a GPU.
    fn nvmlDeviceGetIndex(device: nvmlDevice_t, found: Out<c_uint>) {
        found.put(number(device)? as c_uint)
    }
}
