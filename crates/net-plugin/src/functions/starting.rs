//! Starting a plug-in, and the properties of its devices.

use std::ffi::{CStr, c_int};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use super::{Functions, Init, Pointer, Properties, config};
use crate::abi::{Code, GetProperties, MOST_BYTES, NO_ID, PropertiesV8, PropertiesV9};
use crate::device::Device;
use crate::error::{Error, Place};
use crate::log;

/// Tables up to v10 whose `init` was called: once per process.
static STARTED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Ignores a plug-in's events.
unsafe extern "C" fn profile(
    _event: *mut Pointer,
    _kind: c_int,
    _parent: Pointer,
    _plugin: i64,
    _details: Pointer,
) -> Code {
    0
}

impl Functions {
    /// Starts the plug-in for a communicator. Returns its context, or 0 for versions without one.
    pub fn init(&self, communicator: u64) -> Result<usize, Error> {
        let mut context = null_mut();
        let logger = log::logger();
        let code = match self.init {
            Init::Context(init) => {
                let mut config = config();
                // SAFETY: all pointers have the expected types and are valid until the function
                // returns.
                unsafe { init(&mut context, communicator, &mut config, logger, profile) }
            }
            Init::Plain(_) | Init::Profiled(_) => {
                let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
                if started.contains(&self.table) {
                    return Ok(0);
                }
                // SAFETY: the arguments are functions, which stay.
                let code = unsafe {
                    match self.init {
                        Init::Plain(init) => init(logger),
                        Init::Profiled(init) => init(logger, profile),
                        Init::Context(_) => 0,
                    }
                };
                if code == 0 {
                    started.push(self.table);
                }
                code
            }
        };
        self.place.check("init", code)?;
        Ok(context as usize)
    }

    /// Ends what [`Self::init`] began.
    pub fn finalize(&self, context: usize) -> Result<(), Error> {
        let Some(finalize) = self.finalize else {
            return Ok(());
        };
        // SAFETY: the context is the plug-in's, and nothing uses it any more.
        let code = unsafe { finalize(context as Pointer) };
        self.place.check("finalize", code)
    }

    /// The number of devices.
    pub fn devices(&self) -> Result<c_int, Error> {
        let mut count = 0;
        // SAFETY: the function writes one number.
        let code = unsafe { (self.devices)(&mut count) };
        self.place.check("devices", code)?;
        Ok(count)
    }

    /// The properties of a device.
    pub fn properties(&self, number: c_int) -> Result<Device, Error> {
        let none = (false, MOST_BYTES, NO_ID, NO_ID);
        // SAFETY: each function fills in the properties of its version.
        let (first, (force_flush, most_bytes, rail, plane)) = unsafe {
            match self.properties {
                Properties::V8(get) => (self.filled(get, number)?, none),
                Properties::V9(get) => of_v9(&self.filled(get, number)?, NO_ID, NO_ID),
                Properties::V11(get) => of_v9(&self.filled(get, number)?.common, NO_ID, NO_ID),
                Properties::V12(get) => {
                    let it = self.filled(get, number)?;
                    of_v9(&it.common, it.rail, it.plane)
                }
            }
        };
        // SAFETY: texts of a plug-in end.
        let text = |at| unsafe { text(&self.place, "getProperties", at) };
        let name = text(first.name)?;
        let name = name.ok_or_else(|| {
            let what = format!("no name for device {number}; expected one");
            self.place.absurd("getProperties", what)
        })?;
        let device = Device {
            number: number as u32,
            name,
            pci_path: text(first.pci_path)?,
            guid: first.guid,
            speed_mbps: first.speed.max(0) as u32,
            port: first.port,
            latency_us: first.latency,
            pointers: first.pointers as u32,
            most_communicators: first.most_communicators.max(0) as u32,
            most_receives: first.most_receives.max(0) as u32,
            // 0 means unknown. A longer message would not fit into the `int` of `test`.
            most_bytes: match most_bytes {
                0 => MOST_BYTES,
                some => some.min(MOST_BYTES),
            },
            force_flush,
            rail: (rail != NO_ID).then_some(rail),
            plane: (plane != NO_ID).then_some(plane),
        };
        self.check_device(&device, &first)?;
        Ok(device)
    }

    /// Properties as a function of the plug-in fills them in.
    ///
    /// # Safety
    /// `P` is one of the versions' properties.
    unsafe fn filled<P>(&self, get: GetProperties<P>, number: c_int) -> Result<P, Error> {
        // SAFETY: all properties are pointers and numbers, which may be zero.
        let mut properties = unsafe { std::mem::zeroed() };
        // SAFETY: the function fills in the properties of its version.
        let code = unsafe { get(number, &mut properties) };
        self.place.check("getProperties", code)?;
        Ok(properties)
    }

    fn check_device(&self, device: &Device, raw: &PropertiesV8) -> Result<(), Error> {
        let (number, name) = (device.number, &device.name);
        let what = if raw.speed < 0 {
            format!("a speed of {} Mbit/s; expected 0 or more", raw.speed)
        } else if raw.latency < 0.0 || !raw.latency.is_finite() {
            format!("a latency of {} µs; expected 0 or more", raw.latency)
        } else if raw.most_communicators < 1 {
            format!(
                "room for {} connections; expected 1 or more",
                raw.most_communicators
            )
        } else if raw.most_receives < 1 {
            format!(
                "groups of {} receives; expected 1 or more",
                raw.most_receives
            )
        } else {
            return Ok(());
        };
        let what = format!("for device {number} ({name}) {what}");
        Err(self.place.absurd("getProperties", what))
    }
}

/// Properties of v9 and newer: those that v8 has too, and the others.
const fn of_v9<const N: usize>(
    it: &PropertiesV9<N>,
    rail: i16,
    plane: i16,
) -> (PropertiesV8, (bool, usize, i16, i16)) {
    let first = PropertiesV8 {
        name: it.name,
        pci_path: it.pci_path,
        guid: it.guid,
        pointers: it.pointers,
        registration_is_global: it.registration_is_global,
        speed: it.speed,
        port: it.port,
        latency: it.latency,
        most_communicators: it.most_communicators,
        most_receives: it.most_receives,
        offload: it.offload,
        offload_version: it.offload_version,
    };
    (first, (it.force_flush != 0, it.most_bytes, rail, plane))
}

/// A string of the plug-in; `None` if the pointer is null.
///
/// # Safety
/// The string is terminated.
pub unsafe fn text(
    place: &Place,
    function: &'static str,
    at: *const std::ffi::c_char,
) -> Result<Option<String>, Error> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(at) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => {
            let shown = text.to_string_lossy();
            let what = format!("the text `{shown}`, which is no UTF-8; expected UTF-8");
            Err(place.absurd(function, what))
        }
    }
}
