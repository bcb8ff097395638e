//! The devices that a host presents.

use std::sync::OnceLock;

use phantom_machine::{Gpu, Machine, Setup};
use topology::xml;

use super::ports::{self, Port};
use crate::message::{Network, Request};

/// The driver's version as CUDA's number: 12.9.
pub(crate) const DRIVER_VERSION: i32 = 12_090;

static DEVICES: OnceLock<Devices> = OnceLock::new();

/// GPUs and network ports.
#[derive(Debug)]
pub(crate) struct Devices {
    /// The GPUs by CUDA's number.
    pub gpus: Vec<Gpu>,
    /// The ports by the plug-in's number.
    pub ports: Vec<Port>,
    /// The plug-in has a function that merges ports.
    pub merges: bool,
    /// That function refuses (`NCCL_IB_MERGE_NICS`, which only NCCL's own transport reads).
    pub refuses_merges: bool,
    /// The GPUs say that they are in an NVLink domain of several hosts.
    pub nvlink_domain: bool,
    /// A tuner plug-in that is loaded instead of the stand-in.
    pub tuner: Option<String>,
}

impl Devices {
    fn of(request: &Request) -> Result<Self, String> {
        let document = xml::parse("topology.xml", request.topology.as_bytes());
        let document = document.map_err(|it| it.to_string())?;
        let machine = Machine::new(&document, Setup::of(document.file.to_string()))?;
        let variables = &request.variables;
        let merging = variables
            .iter()
            .find(|(name, _)| name == "NCCL_IB_MERGE_NICS");
        Ok(Self {
            gpus: machine.gpus,
            ports: match request.network {
                Network::Socket => Vec::new(),
                Network::Plugin | Network::Merging => ports::of(&document),
            },
            merges: request.network == Network::Merging,
            refuses_merges: merging.is_some_and(|(_, it)| !it.is_empty() && xml::c_int(it) == 0),
            nvlink_domain: request.nvlink_domain,
            tuner: request
                .tuner
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
        })
    }
}

/// Presents the devices of a request from now on, and returns the number of GPUs.
pub(crate) fn present(request: &Request) -> Result<usize, String> {
    let devices = Devices::of(request)?;
    let gpus = devices.gpus.len();
    match DEVICES.set(devices) {
        Ok(()) => Ok(gpus),
        Err(_) => Err("devices are presented already".to_owned()),
    }
}

/// What is presented; nothing before [`present`].
pub(crate) fn devices() -> &'static Devices {
    static NONE: Devices = Devices {
        gpus: Vec::new(),
        ports: Vec::new(),
        merges: false,
        refuses_merges: false,
        nvlink_domain: false,
        tuner: None,
    };
    DEVICES.get().unwrap_or(&NONE)
}

/// A GPU by CUDA's number.
pub(crate) fn gpu(number: i32) -> Option<&'static Gpu> {
    devices().gpus.get(usize::try_from(number).ok()?)
}

/// The number of the GPU with a bus id.
pub(crate) fn by_bus_id(text: &str) -> Option<i32> {
    let digits = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut parts = text.split([':', '.']);
    let mut part = || parts.next().and_then(digits);
    let (domain, bus, device) = (part()?, part()?, part()?);
    let wanted = domain << 20 | bus << 12 | device << 4;
    let same = |gpu: &Gpu| gpu.bus_id.0 & !0xf == wanted;
    let found = devices().gpus.iter().position(same)?;
    i32::try_from(found).ok()
}
