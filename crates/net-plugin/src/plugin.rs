//! A loaded and started plug-in, with its devices.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::connection::{Connecting, Handle, Listening};
use crate::device::Device;
use crate::error::{Error, Place};
use crate::functions::Functions;
use crate::library::{self, Wanted};

/// More devices than any machine has.
const MOST_DEVICES: i32 = 1024;

/// A started plug-in. Its connections keep it loaded.
#[derive(Clone)]
pub struct Plugin(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub functions: Functions,
    /// An address that is the plug-in's own, or 0.
    pub context: usize,
    pub devices: Vec<Device>,
    /// By device: connections.
    used: Vec<AtomicU32>,
}

impl Plugin {
    /// Loads the wanted plug-in and starts it for the communicator of this number. Returns `None` if none is
    /// wanted, or none is named and none can be found.
    ///
    /// # Errors
    /// It cannot be loaded or started, has no devices, or reports invalid properties.
    pub fn load(wanted: &Wanted, communicator: u64) -> Result<Option<Self>, Error> {
        let names = match wanted {
            Wanted::Nothing => return Ok(None),
            Wanted::Found => {
                let found = library::find()?;
                return found.map(|it| Self::start(it, communicator)).transpose();
            }
            Wanted::Named(names) => names,
        };
        let mut problems = Vec::new();
        for name in names {
            let started = library::open(name).and_then(|it| Self::start(it, communicator));
            match started {
                Ok(plugin) => return Ok(Some(plugin)),
                Err(error) => problems.push(error),
            }
        }
        Err(match problems.len() {
            1 => problems.remove(0),
            _ => {
                let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Error::Name(format!("no net plug-in works: {}", all.join("; ")))
            }
        })
    }

    /// Starts a plug-in whose table is in this process: for tests.
    ///
    /// # Errors
    /// As [`Self::load`].
    ///
    /// # Safety
    /// The table has that version, and stays until the plug-in and its connections are dropped.
    #[doc(hidden)]
    pub unsafe fn of_table(
        version: u32,
        table: *const c_void,
        communicator: u64,
    ) -> Result<Self, Error> {
        let place = Place {
            library: "a table in this process".to_owned(),
            version,
        };
        // SAFETY: the caller's promise.
        let functions = unsafe { Functions::of(place, table) }?;
        Self::start(functions, communicator)
    }

    fn start(functions: Functions, communicator: u64) -> Result<Self, Error> {
        let context = functions.init(communicator)?;
        // From here on, dropping it ends the plug-in.
        let mut inner = Inner {
            functions,
            context,
            devices: Vec::new(),
            used: Vec::new(),
        };
        let functions = &inner.functions;
        let count = functions.devices()?;
        if count < 1 {
            let what = match count {
                0 => "no devices; expected one or more, so look whether the NICs and their drivers are there".to_owned(),
                _ => format!("{count} devices; expected one or more"),
            };
            return Err(functions.place.absurd("devices", what));
        }
        if count > MOST_DEVICES {
            let what = format!("{count} devices; expected {MOST_DEVICES} at most");
            return Err(functions.place.absurd("devices", what));
        }
        let devices: Result<Vec<Device>, Error> =
            (0..count).map(|it| functions.properties(it)).collect();
        inner.devices = devices?;
        inner.used = inner.devices.iter().map(|_| AtomicU32::new(0)).collect();
        Ok(Self(Arc::new(inner)))
    }

    /// The name that it reports.
    pub fn name(&self) -> &str {
        &self.0.functions.name
    }

    /// The version of the ABI that is used.
    pub fn version(&self) -> u32 {
        self.0.functions.place.version
    }

    /// The file of the library.
    pub fn path(&self) -> &str {
        &self.0.functions.place.library
    }

    /// Its devices, at least one.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// Listens for one connection on a device; the sender needs the handle.
    ///
    /// # Errors
    /// There is no such device, it takes no memory of the host or no more connections, or the plug-in fails.
    pub fn listen(&self, device: u32) -> Result<(Listening, Handle), Error> {
        let seat = self.seat("listen", device)?;
        Listening::new(&self.0, seat, device)
    }

    /// Begins to connect from a device to the rank with this handle.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn connect(&self, device: u32, handle: &Handle) -> Result<Connecting, Error> {
        let seat = self.seat("connect", device)?;
        Ok(Connecting::new(&self.0, seat, device, handle))
    }

    /// A place for one more connection on a device.
    fn seat(&self, function: &'static str, number: u32) -> Result<Seat, Error> {
        let place = &self.0.functions.place;
        let Some(device) = self.0.devices.get(number as usize) else {
            let what = format!(
                "no device {number}; expected one below {}",
                self.0.devices.len()
            );
            return Err(place.absurd(function, what));
        };
        if !device.takes_host_memory() {
            let what = format!(
                "device {number} ({}), which takes memory of the kinds {}; expected host among them",
                device.name,
                device.memory()
            );
            return Err(place.absurd(function, what));
        }
        let used = self.0.used[number as usize].fetch_add(1, Ordering::Relaxed);
        let seat = Seat {
            inner: Arc::clone(&self.0),
            device: number as usize,
        };
        if used >= device.most_communicators {
            let what = format!(
                "room for {} connections on device {number} ({}), and all are taken; use fewer channels",
                device.most_communicators, device.name
            );
            return Err(place.absurd(function, what));
        }
        Ok(seat)
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name())
            .field("version", &self.version())
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nothing can be done about an error.
        let _ = self.functions.finalize(self.context);
    }
}

/// One of the connections that a device has room for.
pub(crate) struct Seat {
    inner: Arc<Inner>,
    device: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.inner.used[self.device].fetch_sub(1, Ordering::Relaxed);
    }
}
