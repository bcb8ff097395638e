//! The driver's library.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;

use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};
use nvml_wrapper::enum_wrappers::nv_link::Capability;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Handle};

use super::answers::{Answer, C2cLink, FabricInfo, MigMode, PciInfo, PeerStatus};
use super::{LIBRARY, NO_ANSWER, Nvml, raw};

/// The library, initialized. It stays so: its destructor panics if the library cannot be shut down.
#[derive(Debug)]
pub struct Library {
    nvml: ManuallyDrop<Handle>,
}

impl Library {
    /// Loads the library and initializes it.
    ///
    /// # Errors
    /// Why that is impossible, in a few words.
    pub fn load() -> Result<Self, String> {
        let loaded = Handle::builder().lib_path(OsStr::new(LIBRARY)).init();
        match loaded {
            Ok(nvml) => Ok(Self {
                nvml: ManuallyDrop::new(nvml),
            }),
            Err(NvmlError::LibloadingError(_)) => Err(format!("{LIBRARY} cannot be loaded")),
            Err(NvmlError::FailedToLoadSymbol(why)) => {
                Err(format!("{NO_ANSWER}: {LIBRARY} lacks a function: {why}"))
            }
            Err(error) => Err(name(&error)),
        }
    }

    fn with<T>(
        &self,
        gpu: u32,
        call: impl FnOnce(&Device<'_>) -> Result<T, NvmlError>,
    ) -> Answer<T> {
        answer(
            self.nvml
                .device_by_index(gpu)
                .and_then(|device| call(&device)),
        )
    }
}

/// The name of an error, such as `NotSupported`.
fn name(error: &NvmlError) -> String {
    let text = format!("{error:?}");
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    text[..end].to_owned()
}

fn answer<T>(result: Result<T, NvmlError>) -> Answer<T> {
    match result {
        Ok(value) => Answer::Value(value),
        Err(error) => Answer::failed(name(&error)),
    }
}

fn status(result: Result<P2pStatus, NvmlError>) -> Answer<String> {
    answer(result.map(|status| format!("{status:?}")))
}

impl Nvml for Library {
    fn driver(&self) -> Answer<String> {
        answer(self.nvml.sys_driver_version())
    }
    fn count(&self) -> Answer<u32> {
        answer(self.nvml.device_count())
    }
    fn name(&self, gpu: u32) -> Answer<String> {
        self.with(gpu, |device| device.name())
    }
    fn brand(&self, gpu: u32) -> Answer<String> {
        self.with(gpu, |device| Ok(format!("{:?}", device.brand()?)))
    }
    fn uuid(&self, gpu: u32) -> Answer<String> {
        self.with(gpu, |device| device.uuid())
    }
    fn pci(&self, gpu: u32) -> Answer<PciInfo> {
        self.with(gpu, |device| {
            let pci = device.pci_info()?;
            Ok(PciInfo {
                bus_id: format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device),
                device: pci.pci_device_id,
                subsystem: pci.pci_sub_system_id.unwrap_or(0),
            })
        })
    }
    fn compute_capability(&self, gpu: u32) -> Answer<i32> {
        self.with(gpu, |device| {
            let capability = device.cuda_compute_capability()?;
            Ok(capability.major * 10 + capability.minor)
        })
    }
    fn link_generation(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| device.current_pcie_link_gen())
    }
    fn max_link_generation(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| device.max_pcie_link_gen())
    }
    fn link_width(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| device.current_pcie_link_width())
    }
    fn max_link_width(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| device.max_pcie_link_width())
    }
    fn performance_state(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| Ok(device.performance_state()?.as_c()))
    }
    fn mig(&self, gpu: u32) -> Answer<MigMode> {
        self.with(gpu, |device| {
            let enabled = device.mig_mode()?.current == 1;
            let slots = if enabled {
                device.mig_device_count()?
            } else {
                0
            };
            // Slots can be empty.
            let parts =
                (0..slots).filter_map(|slot| device.mig_device_by_index(slot).ok()?.uuid().ok());
            Ok(MigMode {
                enabled,
                parts: parts.collect(),
            })
        })
    }
    fn nvlink_p2p(&self, gpu: u32, link: u32) -> Answer<bool> {
        self.with(gpu, |device| {
            device
                .link_wrapper_for(link)
                .has_capability(Capability::P2p)
        })
    }
    fn nvlink_up(&self, gpu: u32, link: u32, by_field: bool) -> Answer<bool> {
        if by_field {
            return self.with(gpu, |device| {
                Ok(raw::field(&self.nvml, device, raw::NVLINK_STATE, link)? == 1)
            });
        }
        self.with(gpu, |device| device.link_wrapper_for(link).is_active())
    }
    fn nvlink_remote(&self, gpu: u32, link: u32) -> Answer<String> {
        self.with(gpu, |device| raw::nvlink_remote(&self.nvml, device, link))
    }
    fn c2c_count(&self, gpu: u32) -> Answer<u32> {
        self.with(gpu, |device| {
            raw::field(&self.nvml, device, raw::C2C_COUNT, 0)
        })
    }
    fn c2c(&self, gpu: u32, link: u32) -> C2cLink {
        C2cLink {
            up: self.with(gpu, |device| {
                Ok(raw::field(&self.nvml, device, raw::C2C_STATUS, link)? == 1)
            }),
            bandwidth: self.with(gpu, |device| {
                raw::field(&self.nvml, device, raw::C2C_MAX_BANDWIDTH, link)
            }),
        }
    }
    fn peer(&self, gpu: u32, other: u32) -> PeerStatus {
        let ask = |what| {
            let devices = self
                .nvml
                .device_by_index(gpu)
                .and_then(|device| Ok((device, self.nvml.device_by_index(other)?)));
            status(devices.and_then(|(device, other)| device.p2p_status(&other, what)))
        };
        PeerStatus {
            read: ask(P2pCapabilitiesIndex::Read),
            write: ask(P2pCapabilitiesIndex::Write),
        }
    }
    fn fabric(&self, gpu: u32) -> Answer<FabricInfo> {
        self.with(gpu, |device| raw::fabric(&self.nvml, device))
    }
}
