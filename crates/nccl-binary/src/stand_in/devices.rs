//! The devices that a host presents.

use std::sync::OnceLock;

use phantom::calls::device::cuInit;
use phantom::machine::setup::{PeerRule, Sizes};
use phantom::machine::{Fabric, Gpu, Machine, Setup};
use topology::xml;

use super::ports::{self, Port, UsedPorts};
use crate::message::{Network, Request};

/// Memory of each GPU, MiB: more than processors address.
const ENDLESS_MIB: u64 = 1 << 40;

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
    /// The ports are found by verbs.
    pub has_verbs: bool,
    /// That function refuses (`NCCL_IB_MERGE_NICS`, which only NCCL's own transport reads).
    pub refuses_merges: bool,
    /// A tuner plug-in that is loaded instead of the stand-in.
    pub tuner: Option<String>,
}

/// A machine whose memory is endless and costs nothing until it is written.
fn setup(request: &Request) -> Setup {
    Setup {
        driver: request.driver,
        fabric: match request.nvlink_domain {
            true => Fabric::Whole,
            false => Fabric::None,
        },
        peers: match request.peer_access {
            true => PeerRule::All,
            false => PeerRule::None,
        },
        sizes: Sizes {
            memory_mib: Some(ENDLESS_MIB),
            multiprocessors: None,
        },
        arbitrary: false,
        ..Setup::of("topology.xml")
    }
}

impl Devices {
    /// The devices of a request, whose GPUs the phantoms present from now on.
    fn of(request: &Request) -> Result<Self, String> {
        let document = xml::parse("topology.xml", request.topology.as_bytes());
        let document = document.map_err(|it| it.to_string())?;
        let machine = Machine::new(&document, setup(request))?;
        phantom::present(machine.clone())?;
        phantom::nvml::library::present(machine.clone())?;
        // SAFETY: the call takes a number.
        unsafe { cuInit(0) };
        let variables = &request.variables;
        let merging = variables
            .iter()
            .find(|(name, _)| name == "NCCL_IB_MERGE_NICS");
        Ok(Self {
            gpus: machine.gpus,
            ports: match request.network {
                Network::Socket => Vec::new(),
                Network::Plugin | Network::Merging | Network::Verbs => {
                    ports::of(&document, &UsedPorts::of(variables))
                }
            },
            merges: request.network == Network::Merging,
            has_verbs: request.network == Network::Verbs,
            refuses_merges: merging.is_some_and(|(_, it)| !it.is_empty() && xml::c_int(it) == 0),
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
        has_verbs: false,
        refuses_merges: false,
        tuner: None,
    };
    DEVICES.get().unwrap_or(&NONE)
}

/// A GPU by CUDA's number.
pub(crate) fn gpu(number: i32) -> Option<&'static Gpu> {
    devices().gpus.get(usize::try_from(number).ok()?)
}
