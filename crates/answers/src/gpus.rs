//! The GPUs of a host that have a rank, in rank order.

use plan::ranges;
use planner::gpu_devices;
use serde::Deserialize;
use topology::xml::Document;

use crate::JsonSchema;
use crate::values::ascending;

/// The text for the list of GPUs that `CUDA_VISIBLE_DEVICES` has.
const VISIBLE: &str = "visible";

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

/// The GPUs of a host, as a question names them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a list of device numbers, or a text such as 0-3,6 or visible"
)]
pub enum AskedGpus {
    /// Device numbers in rank order; none: all.
    Listed(Vec<i64>),
    /// A text.
    Text(String),
}

impl AskedGpus {
    /// Reads a text.
    ///
    /// # Errors
    /// It is no list; a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == VISIBLE {
            return Ok(Self::Text(text.to_owned()));
        }
        let numbers = ascending(text, MOST_GPUS)?;
        Ok(Self::Listed(numbers.into_iter().map(i64::from).collect()))
    }

    /// The GPUs. `visible` is the value of `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// The text is no list, or `visible` is asked for and missing; a sentence.
    pub fn gpus(&self, visible: Option<&str>) -> Result<Gpus, String> {
        match self {
            Self::Listed(list) if list.is_empty() => Ok(Gpus::All),
            Self::Listed(list) => Ok(Gpus::Listed(list.clone())),
            Self::Text(text) if text == VISIBLE => match visible {
                Some(list) => Ok(Gpus::Visible(list.to_owned())),
                None => Err(format!("gpus {VISIBLE}: CUDA_VISIBLE_DEVICES is not set")),
            },
            Self::Text(text) => {
                let list = Self::parse(text).map_err(|why| format!("gpus {text}: {why}"))?;
                list.gpus(visible)
            }
        }
    }
}

/// The GPUs of a host that have a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gpus {
    /// All, by device number.
    #[default]
    All,
    /// These device numbers, in rank order.
    Listed(Vec<i64>),
    /// As CUDA reads this value of `CUDA_VISIBLE_DEVICES`: what is no GPU ends the list.
    Visible(String),
}

/// Why a list of GPUs does not fit a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpusError {
    /// The list is empty.
    #[error("the list of GPUs is empty; expected at least one device number")]
    Empty,
    /// There is no such GPU.
    #[error("{file} has no GPU{gpu}; it has GPU {}", ranges(.known, ", "))]
    Unknown {
        /// The file.
        file: String,
        /// The device number.
        gpu: i64,
        /// Those that there are.
        known: Vec<i32>,
    },
    /// A GPU is named twice.
    #[error("GPU{0} is named twice")]
    Twice(i64),
    /// The list has names.
    #[error(
        "CUDA_VISIBLE_DEVICES={list} names `{name}`, but a topology file has no such names; expected device numbers, such \
         as 0,1"
    )]
    VisibleName {
        /// The list.
        list: String,
        /// The name.
        name: String,
    },
    /// The list names a GPU twice.
    #[error("CUDA_VISIBLE_DEVICES={list} names GPU{gpu} twice: CUDA would show no GPU")]
    VisibleTwice {
        /// The list.
        list: String,
        /// The GPU.
        gpu: i32,
    },
    /// The list shows no GPU.
    #[error("CUDA_VISIBLE_DEVICES={list} shows no GPU; the machine has GPU {}", ranges(.known, ", "))]
    NoneVisible {
        /// The list.
        list: String,
        /// Those that there are.
        known: Vec<i32>,
    },
}

impl Gpus {
    /// These GPUs, in rank order.
    pub fn of(devices: &[i32]) -> Self {
        Self::Listed(devices.iter().copied().map(i64::from).collect())
    }

    /// The device numbers in rank order.
    ///
    /// # Errors
    /// The list does not fit the machine.
    pub fn devices(&self, document: &Document) -> Result<Vec<i32>, GpusError> {
        let there = gpu_devices(document);
        match self {
            Self::All => Ok(there),
            Self::Listed(list) => listed(list, &there, &document.file),
            Self::Visible(list) => visible(list, &there),
        }
    }
}

fn listed(list: &[i64], there: &[i32], file: &str) -> Result<Vec<i32>, GpusError> {
    let mut devices: Vec<i32> = Vec::new();
    for gpu in list {
        let found = i32::try_from(*gpu).ok().filter(|it| there.contains(it));
        let dev = found.ok_or_else(|| GpusError::Unknown {
            file: file.to_owned(),
            gpu: *gpu,
            known: there.to_vec(),
        })?;
        if devices.contains(&dev) {
            return Err(GpusError::Twice(*gpu));
        }
        devices.push(dev);
    }
    match devices.is_empty() {
        true => Err(GpusError::Empty),
        false => Ok(devices),
    }
}

fn visible(list: &str, there: &[i32]) -> Result<Vec<i32>, GpusError> {
    let mut items = list.split(',');
    if let Some(name) = items.find(|it| it.trim_start().starts_with(char::is_alphabetic)) {
        return Err(GpusError::VisibleName {
            list: list.to_owned(),
            name: name.to_owned(),
        });
    }
    let mut devices: Vec<i32> = Vec::new();
    for text in list.split(',') {
        match text.trim().parse().ok().filter(|dev| there.contains(dev)) {
            Some(gpu) if devices.contains(&gpu) => {
                return Err(GpusError::VisibleTwice {
                    list: list.to_owned(),
                    gpu,
                });
            }
            Some(dev) => devices.push(dev),
            None => break,
        }
    }
    match devices.is_empty() {
        true => Err(GpusError::NoneVisible {
            list: list.to_owned(),
            known: there.to_vec(),
        }),
        false => Ok(devices),
    }
}
