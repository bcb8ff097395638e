//! A started plug-in, which its connections keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::Device;
use crate::error::Error;
use crate::functions::Functions;

/// More devices than any machine has.
const MOST_DEVICES: i32 = 1024;

pub struct Instance {
    pub functions: Functions,
    /// An address that the plug-in chose, or 0.
    pub context: usize,
    pub devices: Vec<Device>,
    /// Connections by device.
    used: Vec<AtomicU32>,
}

impl Instance {
    pub fn start(functions: Functions, communicator: u64) -> Result<Self, Error> {
        let context = functions.init(communicator)?;
        // From here on, dropping it ends the plug-in.
        let mut instance = Self {
            functions,
            context,
            devices: Vec::new(),
            used: Vec::new(),
        };
        let functions = &instance.functions;
        let count = functions.devices()?;
        let wrong = match count {
            1..=MOST_DEVICES => None,
            0 => Some(
                "no devices; expected one or more, so check the NICs and their drivers".to_owned(),
            ),
            ..0 => Some(format!("{count} devices; expected one or more")),
            _ => Some(format!("{count} devices; expected {MOST_DEVICES} at most")),
        };
        if let Some(what) = wrong {
            return Err(functions.place.absurd("devices", what));
        }
        let devices: Result<_, Error> = (0..count).map(|it| functions.properties(it)).collect();
        instance.devices = devices?;
        instance.used = (0..count).map(|_| AtomicU32::new(0)).collect();
        Ok(instance)
    }

    /// Takes one of the connections that a device supports.
    pub fn seat(self: &Arc<Self>, function: &'static str, number: u32) -> Result<Seat, Error> {
        let wrong = |what: String| Err(self.functions.place.absurd(function, what));
        let Some(device) = self.devices.get(number as usize) else {
            let count = self.devices.len();
            return wrong(format!("no device {number}; expected one below {count}"));
        };
        let (name, most) = (&device.name, device.most_communicators);
        if !device.takes_host_memory() {
            return wrong(format!(
                "device {number} ({name}), which takes memory of the kinds {}; expected host among them",
                device.memory()
            ));
        }
        let used = self.used[number as usize].fetch_add(1, Ordering::Relaxed);
        let seat = Seat {
            instance: Arc::clone(self),
            number,
        };
        if used >= most {
            return wrong(format!(
                "room for {most} connections on device {number} ({name}), and all are taken; use fewer channels"
            ));
        }
        Ok(seat)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about an error.
        let _ = self.functions.finalize(self.context);
    }
}

/// One connection of a device, given back when dropped.
pub struct Seat {
    pub instance: Arc<Instance>,
    number: u32,
}

impl Seat {
    pub fn functions(&self) -> &Functions {
        &self.instance.functions
    }

    pub fn device(&self) -> &Device {
        &self.instance.devices[self.number as usize]
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.instance.used[self.number as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
