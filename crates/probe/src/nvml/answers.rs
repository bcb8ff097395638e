//! The answers as plain data.

use serde::{Deserialize, Serialize};

/// The result of a call: a value, or the name of an error (`NotSupported`, `GpuLost` …).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// The call failed.
    Failed(FailedAnswer),
    /// The call succeeded.
    Value(T),
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAnswer {
    /// NVML's name of the error.
    pub failed: String,
}

impl<T> Answer<T> {
    /// Creates a failure.
    pub fn failed(name: impl Into<String>) -> Self {
        Self::Failed(FailedAnswer {
            failed: name.into(),
        })
    }

    /// The value of a successful call.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Failed(_) => None,
        }
    }

    /// The name of the error.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Failed(failure) => Some(&failure.failed),
        }
    }
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciInfo {
    /// Bus id, lower case: `0000:1b:00.0`.
    pub bus_id: String,
    /// DeviceAnswers id in the high 16 bits, vendor id in the low 16 bits.
    pub device: u32,
    /// The same for the board.
    pub subsystem: u32,
}

/// MIG mode of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MigMode {
    /// Whether the GPU is partitioned.
    pub enabled: bool,
    /// UUIDs of the parts.
    pub parts: Vec<String>,
}

/// Answers about an NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvlinkAnswers {
    /// Whether it supports traffic between GPUs.
    pub p2p: Answer<bool>,
    /// Whether it is up.
    pub up: Answer<bool>,
    /// The bus id of the other end.
    pub remote: Answer<String>,
}

impl NvlinkAnswers {
    /// Whether NCCL counts the link.
    pub fn counts(&self) -> bool {
        self.p2p.value() == Some(&true)
            && self.up.value() == Some(&true)
            && self.remote.value().is_some()
    }
}

/// Answers about a C2C link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct C2cLink {
    /// Whether it is up.
    pub up: Answer<bool>,
    /// Its bandwidth, MB/s.
    pub bandwidth: Answer<u32>,
}

/// Peer access from one GPU to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// `Ok`, or why it may not read.
    pub read: Answer<String>,
    /// `Ok`, or why it may not write.
    pub write: Answer<String>,
}

impl PeerStatus {
    /// Whether the driver refuses to read or to write, for which NCCL takes no peer access.
    pub fn is_refused(&self) -> bool {
        let refuses = |answer: &Answer<String>| answer.value().is_some_and(|it| it != "Ok");
        refuses(&self.read) || refuses(&self.write)
    }

    /// The status of a GPU with itself.
    pub fn same() -> Self {
        let ok = || Answer::Value("Ok".to_owned());
        Self {
            read: ok(),
            write: ok(),
        }
    }
}

/// NVLink fabric membership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricInfo {
    /// `NotSupported`, `NotStarted`, `InProgress` or `Completed`.
    pub state: String,
    /// UUID of the fabric; zeros if there is none.
    pub cluster: String,
    /// Clique within the fabric.
    pub clique: u32,
}

/// Answers about a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAnswers {
    /// `Nvml::name`.
    pub name: Answer<String>,
    /// `Nvml::brand`.
    pub brand: Answer<String>,
    /// `Nvml::uuid`.
    pub uuid: Answer<String>,
    /// `Nvml::pci`.
    pub pci: Answer<PciInfo>,
    /// `Nvml::compute_capability`.
    pub compute_capability: Answer<i32>,
    /// `Nvml::link_generation`.
    pub link_generation: Answer<u32>,
    /// `Nvml::max_link_generation`.
    pub max_link_generation: Answer<u32>,
    /// `Nvml::link_width`.
    pub link_width: Answer<u32>,
    /// `Nvml::max_link_width`.
    pub max_link_width: Answer<u32>,
    /// `Nvml::performance_state`.
    pub performance_state: Answer<u32>,
    /// `Nvml::mig`.
    pub mig: Answer<MigMode>,
    /// NVLinks, by number.
    pub nvlinks: Vec<NvlinkAnswers>,
    /// `Nvml::c2c_count`.
    pub c2c_count: Answer<u32>,
    /// C2C links, by number.
    pub c2c: Vec<C2cLink>,
    /// Access to each GPU, by index.
    pub peers: Vec<PeerStatus>,
    /// `Nvml::fabric`.
    pub fabric: Answer<FabricInfo>,
}

/// Answers about all GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// `Nvml::driver`; a failure means that there is no driver.
    pub driver: Answer<String>,
    /// `Nvml::count`.
    pub count: Answer<u32>,
    /// The GPUs, by index.
    pub devices: Vec<DeviceAnswers>,
}

impl Answers {
    /// Answers of a machine without a driver.
    pub fn none(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            driver: Answer::failed(reason.clone()),
            count: Answer::failed(reason),
            devices: Vec::new(),
        }
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
