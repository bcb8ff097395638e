//! The answers as plain data, and as a document.

use serde::{Deserialize, Serialize};

use super::Nvml;

/// What a call gave: a value, or the name of what went wrong (`NotSupported`, `GpuLost` …).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// It failed.
    Failed(Failure),
    /// It worked.
    Value(T),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// NVML's name for it.
    pub failed: String,
}

impl<T> Answer<T> {
    /// A failure with this name.
    pub fn failed(name: impl Into<String>) -> Self {
        Self::Failed(Failure {
            failed: name.into(),
        })
    }

    /// The value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Failed(_) => None,
        }
    }

    /// The name of the failure, if it is one.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Failed(failure) => Some(&failure.failed),
        }
    }
}

/// A PCI function as NVML knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pci {
    /// Bus id, lower case: `0000:1b:00.0`.
    pub bus_id: String,
    /// Device id in the high 16 bits, vendor id in the low ones.
    pub device: u32,
    /// The same of the board.
    pub subsystem: u32,
}

/// Partitions of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MigMode {
    /// It is partitioned.
    pub enabled: bool,
    /// UUIDs of the parts.
    pub parts: Vec<String>,
}

/// What is known of an NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvlinkAnswers {
    /// It can carry traffic between GPUs.
    pub p2p: Answer<bool>,
    /// It is up.
    pub up: Answer<bool>,
    /// The bus id of the other end.
    pub remote: Answer<String>,
}

impl NvlinkAnswers {
    /// Whether NCCL counts it.
    pub fn counts(&self) -> bool {
        self.p2p.value() == Some(&true)
            && self.up.value() == Some(&true)
            && self.remote.value().is_some()
    }
}

/// What is known of a C2C link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct C2cLink {
    /// It is up.
    pub up: Answer<bool>,
    /// Its bandwidth, MB/s.
    pub bandwidth: Answer<u32>,
}

/// Whether one GPU may reach another's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// `Ok`, or why it may not read.
    pub read: Answer<String>,
    /// `Ok`, or why it may not write.
    pub write: Answer<String>,
}

impl PeerStatus {
    /// Of a GPU with itself.
    pub fn same() -> Self {
        let ok = || Answer::Value("Ok".to_owned());
        Self {
            read: ok(),
            write: ok(),
        }
    }
}

/// Membership in an NVLink fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// `NotSupported`, `NotStarted`, `InProgress` or `Completed`.
    pub state: String,
    /// The fabric's UUID; zeros when there is none.
    pub cluster: String,
    /// The clique inside it.
    pub clique: u32,
}

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// [`Nvml::name`].
    pub name: Answer<String>,
    /// [`Nvml::brand`].
    pub brand: Answer<String>,
    /// [`Nvml::uuid`].
    pub uuid: Answer<String>,
    /// [`Nvml::pci`].
    pub pci: Answer<Pci>,
    /// [`Nvml::compute_capability`].
    pub compute_capability: Answer<i32>,
    /// [`Nvml::link_generation`].
    pub link_generation: Answer<u32>,
    /// [`Nvml::max_link_generation`].
    pub max_link_generation: Answer<u32>,
    /// [`Nvml::link_width`].
    pub link_width: Answer<u32>,
    /// [`Nvml::max_link_width`].
    pub max_link_width: Answer<u32>,
    /// [`Nvml::performance_state`].
    pub performance_state: Answer<u32>,
    /// [`Nvml::mig`].
    pub mig: Answer<MigMode>,
    /// NVLinks, by number.
    pub nvlinks: Vec<NvlinkAnswers>,
    /// [`Nvml::c2c_count`].
    pub c2c_count: Answer<u32>,
    /// C2C links, by number.
    pub c2c: Vec<C2cLink>,
    /// Towards each GPU, by index.
    pub peers: Vec<PeerStatus>,
    /// [`Nvml::fabric`].
    pub fabric: Answer<Fabric>,
}

/// What is known of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// [`Nvml::driver`]; a failure here means that there is no driver.
    pub driver: Answer<String>,
    /// [`Nvml::count`].
    pub count: Answer<u32>,
    /// The GPUs, by index.
    pub devices: Vec<Device>,
}

impl Answers {
    /// There is no driver.
    pub fn none(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            driver: Answer::failed(reason.clone()),
            count: Answer::failed(reason),
            devices: Vec::new(),
        }
    }

    fn of<T: Clone>(&self, gpu: u32, field: impl Fn(&Device) -> Answer<T>) -> Answer<T> {
        self.devices
            .get(gpu as usize)
            .map_or_else(|| Answer::failed("InvalidArg"), field)
    }

    fn of_link<T: Clone>(
        &self,
        gpu: u32,
        link: u32,
        field: impl Fn(&NvlinkAnswers) -> Answer<T>,
    ) -> Answer<T> {
        self.of(gpu, |device| {
            let link = device.nvlinks.get(link as usize);
            link.map_or_else(|| Answer::failed("InvalidArg"), &field)
        })
    }
}

/// Recorded answers answer again.
impl Nvml for Answers {
    fn driver(&self) -> Answer<String> {
        self.driver.clone()
    }
    fn count(&self) -> Answer<u32> {
        self.count.clone()
    }
    fn name(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.name.clone())
    }
    fn brand(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.brand.clone())
    }
    fn uuid(&self, gpu: u32) -> Answer<String> {
        self.of(gpu, |device| device.uuid.clone())
    }
    fn pci(&self, gpu: u32) -> Answer<Pci> {
        self.of(gpu, |device| device.pci.clone())
    }
    fn compute_capability(&self, gpu: u32) -> Answer<i32> {
        self.of(gpu, |device| device.compute_capability.clone())
    }
    fn link_generation(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.link_generation.clone())
    }
    fn max_link_generation(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.max_link_generation.clone())
    }
    fn link_width(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.link_width.clone())
    }
    fn max_link_width(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.max_link_width.clone())
    }
    fn performance_state(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.performance_state.clone())
    }
    fn mig(&self, gpu: u32) -> Answer<MigMode> {
        self.of(gpu, |device| device.mig.clone())
    }
    fn nvlink_p2p(&self, gpu: u32, link: u32) -> Answer<bool> {
        self.of_link(gpu, link, |link| link.p2p.clone())
    }
    fn nvlink_up(&self, gpu: u32, link: u32, _by_field: bool) -> Answer<bool> {
        self.of_link(gpu, link, |link| link.up.clone())
    }
    fn nvlink_remote(&self, gpu: u32, link: u32) -> Answer<String> {
        self.of_link(gpu, link, |link| link.remote.clone())
    }
    fn c2c_count(&self, gpu: u32) -> Answer<u32> {
        self.of(gpu, |device| device.c2c_count.clone())
    }
    fn c2c(&self, gpu: u32, link: u32) -> C2cLink {
        let known = self.devices.get(gpu as usize);
        let known = known.and_then(|device| device.c2c.get(link as usize));
        known.cloned().unwrap_or_else(|| C2cLink {
            up: Answer::failed("InvalidArg"),
            bandwidth: Answer::failed("InvalidArg"),
        })
    }
    fn peer(&self, gpu: u32, other: u32) -> PeerStatus {
        let known = self.devices.get(gpu as usize);
        let known = known.and_then(|device| device.peers.get(other as usize));
        known.cloned().unwrap_or_else(|| PeerStatus {
            read: Answer::failed("InvalidArg"),
            write: Answer::failed("InvalidArg"),
        })
    }
    fn fabric(&self, gpu: u32) -> Answer<Fabric> {
        self.of(gpu, |device| device.fabric.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_values() {
        let answers: Vec<Answer<String>> =
            serde_json::from_str(r#"["0000:01:00.0", {"failed": "NotSupported"}]"#).unwrap();
        assert_eq!(answers[0].value().map(String::as_str), Some("0000:01:00.0"));
        assert_eq!(answers[1].failure(), Some("NotSupported"));
        let text = serde_json::to_string(&answers).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<Answer<String>>>(&text).unwrap(),
            answers
        );
    }
}
