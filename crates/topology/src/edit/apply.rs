//! Applies an edit to the elements of a document.

use std::collections::BTreeSet;

use super::names::{
    Device, DeviceKind, Devices, ElementPath, NVLINKS, NVSWITCH, PEER_ACCESS, link_kind,
};
use super::{Change, Edit, EditError, Remainder};
use crate::build::DEFAULT_NET_SPEED;
use crate::bus_id::BusId;
use crate::node::NodeType;
use crate::xml::{Document, Element, Tag, c_int};

/// Lanes of a PCI link whose width is 0 or missing.
const DEFAULT_WIDTH: i32 = 16;

/// The meaning of a name on one host.
enum Target<'a> {
    Devices(Vec<&'a Device>),
    Link(Vec<&'a Device>, Vec<&'a Device>),
    /// All NVLinks of these GPUs.
    Nvlinks(Vec<&'a Device>),
    /// The peer access of these GPUs.
    PeerAccess(Vec<&'a Device>),
}

/// One direction of a link: elements whose attributes add up.
struct Wire {
    elements: Vec<ElementPath>,
    /// The attribute with the amount; `None` if a file cannot express it.
    attribute: Option<&'static str>,
    /// The quantity and unit of the attribute.
    what: &'static str,
    /// NCCL's value for a missing attribute or one below 1.
    default: i32,
}

pub(super) fn apply(edit: &Edit, document: &Document) -> Result<Document, EditError> {
    let devices = Devices::of(document);
    if let Some(host) = edit.host
        && host >= devices.hosts
    {
        return Err(EditError::NoSuchHost {
            file: document.file.to_string(),
            host,
            hosts: devices.hosts,
        });
    }
    let mut work = Work {
        document,
        devices: &devices,
        removed: BTreeSet::new(),
        set: Vec::new(),
    };
    // Without a host, the edit applies to every host that has the device.
    let (mut done, mut refusal) = (false, None);
    for host in edit.host.map_or(0..devices.hosts, |host| host..host + 1) {
        let Some(target) = target(&devices, &edit.target, host) else {
            continue;
        };
        match work.change(&target, edit.change) {
            Ok(()) => done = true,
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if done {
        return Ok(work.finish());
    }
    Err(refusal.unwrap_or_else(|| work.unknown(&edit.target)))
}

/// Resolves a text to devices or a link. Bus ids contain colons, so each may be the separator.
fn target<'a>(devices: &'a Devices, text: &str, host: u32) -> Option<Target<'a>> {
    let whole = devices.find(text, host);
    if !whole.is_empty() {
        return Some(Target::Devices(whole));
    }
    let of = text.rsplit_once(':');
    let is_access = |it: &str| it.eq_ignore_ascii_case(PEER_ACCESS);
    if is_access(text) || of.is_some_and(|(_, it)| is_access(it)) {
        let mut gpus = match of {
            Some((gpu, _)) => devices.find(gpu, host),
            None => devices.all.iter().filter(|it| it.host == host).collect(),
        };
        gpus.retain(|device| device.kind == DeviceKind::Gpu);
        return (!gpus.is_empty()).then_some(Target::PeerAccess(gpus));
    }
    if let Some((gpu, _)) = of.filter(|(_, links)| links.eq_ignore_ascii_case(NVLINKS)) {
        let mut gpus = devices.find(gpu, host);
        gpus.retain(|device| device.kind == DeviceKind::Gpu);
        return (!gpus.is_empty()).then_some(Target::Nvlinks(gpus));
    }
    splits(text).find_map(|(from, to)| {
        let (from, to) = (devices.find(from, host), devices.find(to, host));
        (!from.is_empty() && !to.is_empty()).then_some(Target::Link(from, to))
    })
}

fn splits(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(':')
        .map(|(at, _)| (&text[..at], &text[at + 1..]))
}

pub(super) struct Work<'a> {
    pub(super) document: &'a Document,
    pub(super) devices: &'a Devices,
    pub(super) removed: BTreeSet<ElementPath>,
    pub(super) set: Vec<(ElementPath, &'static str, String)>,
}

impl Work<'_> {
    pub(super) fn at(&self, path: &[usize]) -> &Element {
        path.iter().fold(&self.document.root, |element, index| {
            &element.children[*index]
        })
    }

    /// The children of an element that fit, with their paths.
    pub(super) fn children(
        &self,
        path: &[usize],
        fits: impl Fn(&Element) -> bool,
    ) -> Vec<ElementPath> {
        let children = self.at(path).children.iter().enumerate();
        children
            .filter(|(_, child)| fits(child))
            .map(|(index, _)| [path, &[index]].concat())
            .collect()
    }

    fn change(&mut self, target: &Target<'_>, change: Change) -> Result<(), EditError> {
        match (target, change) {
            (Target::Devices(devices), Change::Remove) => {
                for device in devices {
                    match device.kind {
                        DeviceKind::NvSwitch => {
                            let wires = self.switch_wires(device.host);
                            self.removed
                                .extend(wires.into_iter().flat_map(|wire| wire.elements));
                        }
                        _ => {
                            self.removed.insert(device.element.clone());
                        }
                    }
                }
                Ok(())
            }
            (Target::Devices(devices), Change::Degrade(remaining)) => {
                let mut wires = Vec::new();
                for device in devices {
                    wires.extend(self.own_wires(device)?);
                }
                self.scale(&wires, remaining)
            }
            (Target::Link(from, to), change) => {
                let wires = self.between(from, to);
                if wires.is_empty() {
                    return self.change_uplink(from, to, change);
                }
                self.change_wires(wires, change)
            }
            (Target::PeerAccess(gpus), Change::Remove) => {
                self.refuse_access(gpus);
                Ok(())
            }
            (Target::PeerAccess(_), Change::Degrade(_)) => Err(EditError::NotInFile {
                file: self.document.file.to_string(),
                what: PEER_ACCESS.to_owned(),
                why: "peer access is there or not, never slower",
            }),
            (Target::Nvlinks(gpus), change) => {
                let wires = self.all_nvlinks(gpus);
                match gpus.first() {
                    Some(gpu) if wires.is_empty() => Err(EditError::NoLink {
                        file: self.document.file.to_string(),
                        from: gpu.label.clone(),
                        to: NVLINKS.to_owned(),
                        links: self.neighbors(gpu),
                    }),
                    _ => self.change_wires(wires, change),
                }
            }
        }
    }

    fn change_wires(&mut self, wires: Vec<Wire>, change: Change) -> Result<(), EditError> {
        match change {
            Change::Degrade(remaining) => self.scale(&wires, remaining),
            Change::Remove => {
                self.removed
                    .extend(wires.into_iter().flat_map(|wire| wire.elements));
                Ok(())
            }
        }
    }

    /// Changes the PCI link between a device and its parent.
    fn change_uplink(
        &mut self,
        from: &[&Device],
        to: &[&Device],
        change: Change,
    ) -> Result<(), EditError> {
        let ends = [(from, to), (to, from)];
        let wires: Vec<Wire> = ends
            .into_iter()
            .flat_map(|(below, above)| below.iter().map(move |device| (device, above)))
            .filter_map(|(device, above)| {
                let pci = self.pci_of(device)?;
                let parent = &pci[..pci.len() - 1];
                let hangs = above.iter().any(|device| device.element == parent);
                hangs.then(|| lanes(pci))
            })
            .collect();
        let names = |devices: &[&Device]| {
            devices
                .first()
                .map_or("", |device| &device.label)
                .to_owned()
        };
        let switched = |devices: &[&Device]| {
            let mut gpus = devices.iter().filter(|it| it.kind == DeviceKind::Gpu);
            gpus.any(|gpu| self.neighbors(gpu).iter().any(|it| it == NVSWITCH))
        };
        if wires.is_empty() && switched(from) && switched(to) {
            return Err(EditError::NotInFile {
                file: self.document.file.to_string(),
                what: format!("the NVLinks between {} and {}", names(from), names(to)),
                why: "they go to NVSwitches, which join every pair of GPUs, and NCCL leaves out no single pair; \
                      name one side: all NVLinks of a GPU, such as GPU5:NVLinks, or the GPU",
            });
        }
        if wires.is_empty() {
            return Err(EditError::NoLink {
                file: self.document.file.to_string(),
                from: names(from),
                to: names(to),
                links: from
                    .first()
                    .map_or_else(Vec::new, |device| self.neighbors(device)),
            });
        }
        match change {
            Change::Degrade(remaining) => self.scale(&wires, remaining),
            Change::Remove => Err(EditError::NotInFile {
                file: self.document.file.to_string(),
                what: format!("the PCI link between {} and {}", names(from), names(to)),
                why: "without it nothing reaches the device; remove the device instead",
            }),
        }
    }

    /// The `<pci>` element of a device.
    fn pci_of(&self, device: &Device) -> Option<ElementPath> {
        let path = match device.kind {
            DeviceKind::Switch | DeviceKind::Adapter => device.element.as_slice(),
            DeviceKind::Gpu => device.element.get(..device.element.len() - 1)?,
            DeviceKind::Port => device.element.get(..device.element.len() - 2)?,
            DeviceKind::Cpu | DeviceKind::NvSwitch => return None,
        };
        (self.at(path).tag == Tag::Pci).then(|| path.to_vec())
    }

    /// The links that a device by itself means.
    fn own_wires(&self, device: &Device) -> Result<Vec<Wire>, EditError> {
        match (device.kind, self.pci_of(device)) {
            (DeviceKind::NvSwitch, _) => Ok(self.switch_wires(device.host)),
            (DeviceKind::Port, _) => Ok(vec![Wire {
                elements: vec![device.element.clone()],
                attribute: Some("speed"),
                what: "the port's speed in Mb/s",
                default: DEFAULT_NET_SPEED,
            }]),
            (_, Some(pci)) => Ok(vec![lanes(pci)]),
            (_, None) => Err(EditError::NotInFile {
                file: self.document.file.to_string(),
                what: device.label.clone(),
                why: "NCCL takes the bandwidth between CPUs from the processor's model; name the link of a device below it",
            }),
        }
    }

    fn switch_wires(&self, host: u32) -> Vec<Wire> {
        let of_host = |device: &&Device| device.host == host && device.kind == DeviceKind::Gpu;
        let gpus = self.devices.all.iter().filter(of_host);
        gpus.filter_map(|gpu| self.nvlinks(gpu, |link| link_kind(link) == NodeType::Nvs))
            .collect()
    }

    /// All NVLinks of GPUs, in both directions.
    fn all_nvlinks(&self, gpus: &[&Device]) -> Vec<Wire> {
        let leads = |link: &Element| {
            let target = Some(BusId::parse(link.get("target").unwrap_or_default()));
            link_kind(link) == NodeType::Gpu && gpus.iter().any(|gpu| gpu.bus_id == target)
        };
        let own = |device: &Device| gpus.iter().any(|gpu| gpu.element == device.element);
        let host = gpus.first().map(|gpu| gpu.host);
        let all = self
            .devices
            .all
            .iter()
            .filter(|device| device.kind == DeviceKind::Gpu && Some(device.host) == host);
        all.filter_map(|device| self.nvlinks(device, |link| own(device) || leads(link)))
            .collect()
    }

    fn nvlinks(&self, gpu: &Device, fits: impl Fn(&Element) -> bool) -> Option<Wire> {
        let fits = |child: &Element| child.tag == Tag::Nvlink && fits(child);
        let elements = self.children(&gpu.element, fits);
        (!elements.is_empty()).then_some(Wire {
            elements,
            attribute: Some("count"),
            what: "the number of NVLinks",
            default: 0,
        })
    }

    /// NVLinks, C2C links and links between switches that join two devices; both directions.
    fn between(&self, from: &[&Device], to: &[&Device]) -> Vec<Wire> {
        let mut wires = Vec::new();
        for (ends, others) in [(from, to), (to, from)] {
            for device in ends {
                let leads = |target: Option<&str>, kind| {
                    let target = Some(BusId::parse(target.unwrap_or_default()));
                    others
                        .iter()
                        .any(|other| other.kind == kind && other.bus_id == target)
                };
                let cpu_above = others.iter().any(|other| {
                    other.kind == DeviceKind::Cpu && device.element.starts_with(&other.element)
                });
                if device.kind == DeviceKind::Gpu {
                    wires.extend(self.nvlinks(device, |link| {
                        match link_kind(link) {
                            NodeType::Gpu => leads(link.get("target"), DeviceKind::Gpu),
                            NodeType::Cpu => cpu_above,
                            _ => others
                                .iter()
                                .any(|other| other.kind == DeviceKind::NvSwitch),
                        }
                    }));
                    let elements = self.children(&device.element, |child| child.tag == Tag::C2c);
                    if cpu_above && !elements.is_empty() {
                        wires.push(Wire {
                            elements,
                            attribute: Some("bw"),
                            what: "the C2C bandwidth in MB/s",
                            default: 0,
                        });
                    }
                } else if device.kind == DeviceKind::Switch {
                    let elements = self.children(&device.element, |child| {
                        child.tag == Tag::Pcilink && leads(child.get("target"), DeviceKind::Switch)
                    });
                    if !elements.is_empty() {
                        wires.push(Wire {
                            elements,
                            attribute: None,
                            what: "a link between switches",
                            default: 0,
                        });
                    }
                }
            }
        }
        wires
    }

    /// Lowers the amount of each wire to a whole number, beginning with its last elements.
    fn scale(&mut self, wires: &[Wire], remaining: Remainder) -> Result<(), EditError> {
        let mut done: Vec<&[ElementPath]> = Vec::new();
        let (mut changed, mut unchanged) = (false, None);
        for wire in wires {
            // The ranks of one GPU share its PCI link.
            if done.contains(&wire.elements.as_slice()) {
                continue;
            }
            done.push(&wire.elements);
            let Some(attribute) = wire.attribute else {
                return Err(EditError::NotInFile {
                    file: self.document.file.to_string(),
                    what: wire.what.to_owned(),
                    why: "it has no bandwidth there; expected to remove it, or to leave it",
                });
            };
            let value = |path: &ElementPath| match self.at(path).get(attribute).map_or(0, c_int) {
                number if number > 0 => number,
                _ => wire.default,
            };
            let values: Vec<i32> = wire.elements.iter().map(value).collect();
            let all: i64 = values.iter().map(|value| i64::from(*value)).sum();
            let (mut left, asked) = match remaining {
                Remainder::Percent(percent) => (
                    (all as f64 * percent / 100.0).floor() as i64,
                    format!("{percent}%"),
                ),
                Remainder::Count(count) => (i64::from(count), count.to_string()),
            };
            let enough = matches!(remaining, Remainder::Count(_)) && left >= all;
            if left < 1 || enough {
                let place = self
                    .at(&wire.elements[0])
                    .place(&self.document.file, Some(attribute));
                let error = EditError::NotLess {
                    place: Box::new(place),
                    what: wire.what,
                    is: all,
                    asked,
                    remains: left,
                    expected: if all > 1 {
                        format!("something between 1 and {} to remain", all - 1)
                    } else {
                        "to remove it, for it cannot be divided".to_owned()
                    },
                };
                // The other direction may have more.
                if enough {
                    unchanged = unchanged.or(Some(error));
                    continue;
                }
                return Err(error);
            }
            changed = true;
            for (path, value) in wire.elements.iter().zip(values) {
                let kept = i64::from(value).min(left);
                left -= kept;
                if kept == 0 {
                    self.removed.insert(path.clone());
                } else if kept < i64::from(value) {
                    self.set
                        .push((path.clone(), attribute, (kept as i32).to_string()));
                }
            }
        }
        unchanged.filter(|_| !changed).map_or(Ok(()), Err)
    }

    /// Names of the devices to which a device is linked.
    fn neighbors(&self, device: &Device) -> Vec<String> {
        let mut names = Vec::new();
        for other in &self.devices.all {
            let joined = other.host == device.host
                && other != device
                && (!self.between(&[device], &[other]).is_empty()
                    || [(device, other), (other, device)]
                        .iter()
                        .any(|(below, above)| {
                            self.pci_of(below)
                                .is_some_and(|pci| pci[..pci.len() - 1] == above.element[..])
                        }));
            if joined && !names.contains(&other.label) {
                names.push(other.label.clone());
            }
        }
        names
    }

    fn unknown(&self, text: &str) -> EditError {
        let known = |name: &str| {
            (0..self.devices.hosts).any(|host| !self.devices.find(name, host).is_empty())
        };
        let stranger = splits(text).find_map(|(from, to)| match (known(from), known(to)) {
            (true, false) => Some(to),
            (false, true) => Some(from),
            _ => None,
        });
        EditError::UnknownDevice {
            file: self.document.file.to_string(),
            name: stranger.unwrap_or(text).to_owned(),
            known: self.devices.names(),
        }
    }
}

fn lanes(pci: ElementPath) -> Wire {
    Wire {
        elements: vec![pci],
        attribute: Some("link_width"),
        what: "the number of PCIe lanes",
        default: DEFAULT_WIDTH,
    }
}
