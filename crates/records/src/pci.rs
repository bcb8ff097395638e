//! `lspci -vv`: PCI functions, their bridges and links.

use crate::gpu::{self, Kind};
use crate::pci_link::Link;
use crate::text::MOST;

/// A bus of a PCI domain.
pub type Bus = (u32, u8);

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Function {
    /// Its bus.
    pub bus: Bus,
    /// Device and function on the bus, such as `00.0`.
    pub slot: String,
    /// The kind of function in lspci's words, such as `3D controller`.
    pub kind: String,
    /// Vendor and device in lspci's words.
    pub name: String,
    /// Vendor and device as numbers, if lspci was asked for them (`-nn`) or knows no name.
    pub ids: (Option<u16>, Option<u16>),
    /// The bus behind a bridge.
    pub secondary: Option<Bus>,
    /// Its NUMA node.
    pub numa: Option<i32>,
    /// What its link can do.
    pub capability: Option<Link>,
    /// What its link does now.
    pub status: Option<Link>,
    /// Whether the port sends requests between its devices up to the host bridge (ACS redirection).
    pub redirects: bool,
    /// Whether it is a switch's port towards the host.
    pub is_upstream: bool,
    /// The device's serial number, such as `00-80-5e-4e-c7-25-dc-08`.
    pub serial: Option<String>,
}

impl Function {
    /// The bus id as NCCL writes it, such as `0000:1b:00.0`.
    pub fn bus_id(&self) -> String {
        format!("{:04x}:{:02x}:{}", self.bus.0, self.bus.1, self.slot)
    }

    /// Whether it is a GPU of NVIDIA.
    pub fn is_gpu(&self) -> bool {
        let display = [
            "3D controller",
            "VGA compatible controller",
            "Display controller",
        ];
        display.iter().any(|kind| self.kind.starts_with(kind)) && self.name.contains("NVIDIA")
    }

    /// Whether it is a bridge of NVIDIA's NVSwitch.
    pub fn is_nvswitch(&self) -> bool {
        self.kind.starts_with("Bridge") && self.name.contains("NVIDIA")
    }

    /// Whether it is an adapter that NCCL uses by RDMA: one of Mellanox, or of Amazon (EFA).
    pub fn is_adapter(&self) -> bool {
        let network = [
            "Infiniband controller",
            "InfiniBand controller",
            "Ethernet controller",
        ];
        network.iter().any(|kind| self.kind.starts_with(kind))
            && (self.name.contains("Mellanox") || self.name.contains("Elastic Fabric Adapter"))
    }

    /// The kind of a GPU, by its name or device id.
    pub fn gpu_kind(&self) -> Option<Kind> {
        gpu::kind_of_name(&self.name).or_else(|| gpu::kind_of_id(self.ids.1?))
    }

    /// NCCL's `class` of the function.
    pub fn class(&self) -> &'static str {
        match self.kind.as_str() {
            kind if kind.starts_with("PCI bridge") => "0x060400",
            kind if kind.starts_with("3D controller") => "0x030200",
            kind if kind.starts_with("VGA") || kind.starts_with("Display") => "0x030000",
            kind if kind.starts_with("Infini") => "0x020700",
            _ => "0x020000",
        }
    }
}

/// The functions of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct PciReader {
    pub(crate) functions: Vec<Function>,
    /// Whether indented lines describe the last function.
    inside: bool,
}

impl PciReader {
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(function) = head(line) {
            self.inside = self.functions.len() < MOST;
            if self.inside {
                self.functions.push(function);
            }
            return;
        }
        self.inside &= line.starts_with(char::is_whitespace);
        let Some(function) = self.functions.last_mut().filter(|_| self.inside) else {
            return;
        };
        let line = line.trim();
        if let Some(buses) = line.strip_prefix("Bus: ") {
            let secondary = buses.split("secondary=").nth(1);
            let secondary = secondary.and_then(|it| u8::from_str_radix(it.get(..2)?, 16).ok());
            function.secondary = secondary.map(|bus| (function.bus.0, bus));
        } else if let Some(node) = line.strip_prefix("NUMA node: ") {
            function.numa = node.trim().parse().ok().filter(|it| (0..1024).contains(it));
        } else if line.starts_with("LnkCap:") {
            function.capability = Link::read(line);
        } else if line.starts_with("LnkSta:") {
            function.status = Link::read(line);
        } else if let Some(control) = line.strip_prefix("ACSCtl:") {
            function.redirects = control.contains("ReqRedir+") || control.contains("CmpltRedir+");
        } else if line.starts_with("Capabilities: ") {
            function.is_upstream |= line.contains("] Express ") && line.contains(" Upstream Port");
            let number = line.split("Device Serial Number ").nth(1);
            function.serial = function.serial.take().or(number.and_then(serial));
        }
    }
}

/// Eight bytes in hexadecimal, parted by `-`. Devices without a number have zeros.
fn serial(text: &str) -> Option<String> {
    let text = text.trim();
    let is_byte = |it: &str| it.len() == 2 && it.bytes().all(|it| it.is_ascii_hexdigit());
    let fits = text.split('-').count() == 8 && text.split('-').all(is_byte);
    let is_number = text.bytes().any(|it| !matches!(it, b'0' | b'-'));
    (fits && is_number).then(|| text.to_owned())
}

/// The first line of a function, such as `1b:00.0 3D controller: NVIDIA Corporation …`.
fn head(line: &str) -> Option<Function> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, name) = rest.split_once(": ")?;
    let mut parts: Vec<&str> = address.split(':').collect();
    let slot = parts.pop()?;
    let bus = u8::from_str_radix(parts.pop()?, 16).ok()?;
    let domain = parts
        .pop()
        .map_or(Some(0), |it| u32::from_str_radix(it, 16).ok())?;
    let hexadecimal = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
    let (device, function) = slot.split_once('.')?;
    let fits = parts.is_empty() && device.len() == 2 && function.len() == 1;
    if !fits || !hexadecimal(device) || !hexadecimal(function) {
        return None;
    }
    Some(Function {
        bus: (domain, bus),
        slot: slot.to_owned(),
        kind: kind.to_owned(),
        ids: ids(name),
        name: name.to_owned(),
        ..Function::default()
    })
}

/// `[10de:2330]`, or `Device 2bb5` where lspci knows no name.
pub(crate) fn ids(name: &str) -> (Option<u16>, Option<u16>) {
    let number = |text: &str| u16::from_str_radix(text, 16).ok();
    for part in name.split('[').skip(1) {
        let pair = part.split(']').next().and_then(|it| it.split_once(':'));
        if let Some((vendor, device)) =
            pair.filter(|(vendor, device)| vendor.len() == 4 && device.len() == 4)
        {
            return (number(vendor), number(device));
        }
    }
    let device = name
        .split("Device ")
        .nth(1)
        .and_then(|it| number(it.get(..4)?));
    (None, device)
}
