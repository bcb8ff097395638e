//! Loading and starting a plug-in.

use std::ffi::c_void;
use std::sync::Arc;

use crate::connect::{ConnectAttempt, Handle, ListenComm};
use crate::device::Device;
use crate::error::{Error, Place};
use crate::functions::Functions;
use crate::instance::Instance;
use crate::library::{self, PluginChoice};

/// A started plug-in. Its connections keep it loaded.
#[derive(Clone)]
pub struct Plugin(Arc<Instance>);

impl Plugin {
    /// Loads the wanted plug-in and starts it for the communicator of this number. Returns `None`
    /// if none is wanted, or none is named and none can be found.
    ///
    /// # Errors
    /// It cannot be loaded or started, has no devices, or reports invalid properties.
    pub fn load(wanted: &PluginChoice, communicator: u64) -> Result<Option<Self>, Error> {
        let names = match wanted {
            PluginChoice::Nothing => return Ok(None),
            PluginChoice::Found => {
                let found = library::find()?;
                return found.map(|it| Self::start(it, communicator)).transpose();
            }
            PluginChoice::Named(names) => names,
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
        Ok(Self(Arc::new(Instance::start(functions, communicator)?)))
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
    /// There is no such device, it takes no memory of the host or no more connections, or the
    /// plug-in fails.
    pub fn listen(&self, device: u32) -> Result<(ListenComm, Handle), Error> {
        ListenComm::new(self.0.seat("listen", device)?)
    }

    /// Begins to connect from a device to the rank with this handle.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn connect(&self, device: u32, handle: &Handle) -> Result<ConnectAttempt, Error> {
        Ok(ConnectAttempt::new(self.0.seat("connect", device)?, handle))
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
