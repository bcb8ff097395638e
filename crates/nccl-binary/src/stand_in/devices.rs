//! The devices that a host presents.

use std::ffi::CString;
use std::sync::OnceLock;

use phantom_machine::{Gpu, Machine, Setup};
use topology::xml::{self, Document, Element, Tag};

use crate::message::Network;

/// The driver's version as CUDA's number: 12.9.
pub(crate) const DRIVER_VERSION: i32 = 12_090;

/// Speed of a port that the file gives none, Mb/s: NCCL's default.
const DEFAULT_SPEED: i32 = 10_000;

/// Connections of a port that the file gives none: NCCL's default.
const DEFAULT_CONNECTIONS: i32 = 65_536;

static DEVICES: OnceLock<Devices> = OnceLock::new();

/// GPUs and network ports.
#[derive(Debug)]
pub(crate) struct Devices {
    /// The GPUs by CUDA's number.
    pub gpus: Vec<Gpu>,
    /// The ports by the plug-in's number.
    pub ports: Vec<Port>,
    /// The GPUs say that they are in an NVLink domain of several hosts.
    pub nvlink_domain: bool,
}

/// A network port.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub name: CString,
    pub guid: u64,
    /// Mb/s.
    pub speed: i32,
    pub port: i32,
    pub latency: f32,
    pub connections: i32,
    pub gdr: bool,
}

impl Devices {
    fn of(document: &Document, network: Network, nvlink_domain: bool) -> Result<Self, String> {
        let machine = Machine::new(document, Setup::of(document.file.to_string()))?;
        let mut ports = Vec::new();
        add_ports(&document.root, &mut ports);
        if network == Network::Socket {
            ports.clear();
        }
        Ok(Self {
            gpus: machine.gpus,
            ports,
            nvlink_domain,
        })
    }
}

fn add_ports(element: &Element, ports: &mut Vec<Port>) {
    if element.tag == Tag::Net {
        let number = |name: &str| element.get(name).and_then(|it| it.parse::<i32>().ok());
        let device = number("dev").and_then(|dev| usize::try_from(dev).ok());
        let device = device.unwrap_or(ports.len());
        let name = element.get("name").map(str::to_owned);
        let name = name.unwrap_or_else(|| format!("net{device}"));
        let port = Port {
            name: CString::new(name).unwrap_or_default(),
            guid: element.get("guid").map_or(device as u64, guid),
            speed: number("speed").unwrap_or(DEFAULT_SPEED),
            port: number("port").unwrap_or(1),
            latency: element
                .get("latency")
                .and_then(|it| it.parse().ok())
                .unwrap_or(0.0),
            connections: number("maxconn").unwrap_or(DEFAULT_CONNECTIONS),
            gdr: number("gdr").unwrap_or(0) != 0,
        };
        // Numbers that the file leaves out are ports that nothing is known of.
        while ports.len() <= device {
            ports.push(Port {
                name: CString::new(format!("net{}", ports.len())).unwrap_or_default(),
                guid: ports.len() as u64,
                ..port.clone()
            });
        }
        ports[device] = port;
    }
    for child in &element.children {
        add_ports(child, ports);
    }
}

/// A guid: decimal, or hexadecimal after 0x.
fn guid(text: &str) -> u64 {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let read = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.unwrap_or(0)
}

/// Presents the devices of a topology file from now on.
pub(crate) fn present(text: &str, network: Network, nvlink_domain: bool) -> Result<usize, String> {
    let document = xml::parse("topology.xml", text.as_bytes()).map_err(|it| it.to_string())?;
    let devices = Devices::of(&document, network, nvlink_domain)?;
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
        nvlink_domain: false,
    };
    DEVICES.get().unwrap_or(&NONE)
}

/// A GPU by CUDA's number.
pub(crate) fn gpu(number: i32) -> Option<&'static Gpu> {
    devices().gpus.get(usize::try_from(number).ok()?)
}

/// A port by the plug-in's number.
pub(crate) fn port(number: i32) -> Option<&'static Port> {
    devices().ports.get(usize::try_from(number).ok()?)
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
