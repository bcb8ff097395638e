//! PCI devices: switches, GPUs, NICs and their ports.

use super::Builder;
use super::draft::DraftId;
use crate::bandwidth;
use crate::bus_id::BusId;
use crate::error::Error;
use crate::link::LinkType;
use crate::node::{Dev, Gpu, NO_P2P, NcclId, Net, NodeData, NodeType};
use crate::xml::{Element, Tag, c_float, c_int, c_unsigned_hexadecimal};

/// The low bits of a device's id that tell the partitions of one GPU apart.
pub(super) const PARTITION_BITS: u64 = 3;

/// The bits of a GPU node's id that are its device's; the rank's number on it is above them.
const DEVICE_BITS: u32 = 40;

/// Speed of a port that gives none, Mb/s.
pub(crate) const DEFAULT_NET_SPEED: i32 = 10_000;

/// Vendor and device of ConnectX-8 cards, 16 bits each. Source: NCCL's public source of 2.31.
const CONNECTX8: [u64; 2] = [0x15b3_1023, 0x15b3_2100];

/// Most connections of a port that gives none.
const DEFAULT_MAX_CONNECTIONS: i32 = 64;

impl<'a> Builder<'a> {
    pub(super) fn add_pci(
        &mut self,
        element: &'a Element,
        parent: DraftId,
        host: u32,
    ) -> Result<(), Error> {
        let kind = bandwidth::class_kind(self.require(element, "class")?);
        let bus_id_text = self.require(element, "busid")?;
        let bus_id = BusId::parse(bus_id_text);
        let width = self.require_int(element, "link_width")?;
        let bw = bandwidth::pci(self.require(element, "link_speed")?, width);
        for gpu in element.children(Tag::Gpu) {
            // NCCL skips the whole element at the first GPU that no rank uses.
            if gpu.get("rank").is_none() {
                return Ok(());
            }
            self.add_gpu(gpu, element, parent, bus_id, bw, host)?;
        }
        let id = NcclId::new(host, bus_id.0);
        if let Some(nic) = self.used(element, Tag::Nic).next() {
            let known = self.drafts.find(NodeType::Nic, id);
            let node = match known {
                Some(node) => node,
                None => self.drafts.add(self.document, element, id, NodeData::Nic)?,
            };
            self.add_nets(nic, node, host, Some((bus_id_text, element)))?;
            if known.is_none() {
                self.drafts.hang(node, parent, LinkType::Pci, bw);
            }
        } else if kind == NodeType::Pci {
            let device_code = device_code(element);
            let node =
                self.drafts
                    .add(self.document, element, id, NodeData::Pci { device_code })?;
            for child in element
                .children
                .iter()
                .filter(|child| child.tag == Tag::Pci && child.is_used())
            {
                self.add_pci(child, node, host)?;
            }
            self.drafts.hang(node, parent, LinkType::Pci, bw);
        }
        Ok(())
    }

    /// Adds a NIC directly under a CPU. Those of one id are one node, under their first CPU.
    pub(super) fn add_cpu_nic(
        &mut self,
        element: &'a Element,
        cpu: DraftId,
        id: NcclId,
        host: u32,
    ) -> Result<(), Error> {
        let node = match self.drafts.find(NodeType::Nic, id) {
            Some(node) => node,
            None => {
                let node = self.drafts.add(self.document, element, id, NodeData::Nic)?;
                self.drafts.hang(node, cpu, LinkType::Pci, bandwidth::LOCAL);
                node
            }
        };
        self.add_nets(element, node, host, None)
    }

    /// The GPUs with which this one has no peer access.
    fn devices_without_access(&self, gpu: &Element) -> Result<Vec<i32>, Error> {
        let Some(text) = gpu.get(NO_P2P) else {
            return Ok(Vec::new());
        };
        let numbers = text.split(',').map(|it| it.trim().parse::<i32>());
        let numbers: Result<Vec<i32>, _> = numbers.collect();
        numbers.map_err(|_| {
            Error::new(
                self.place(gpu, Some(NO_P2P)),
                "GPUs without peer access are no list",
                text,
                "device numbers, such as 1,3",
            )
        })
    }

    fn add_gpu(
        &mut self,
        element: &'a Element,
        pci: &Element,
        parent: DraftId,
        bus_id: BusId,
        bw: f32,
        host: u32,
    ) -> Result<(), Error> {
        if bus_id.0 & PARTITION_BITS != 0 {
            return Err(Error::new(
                self.place(pci, Some("busid")),
                "a GPU's bus id must end in function 0 or 4 (NCCL uses the two low bits for partitions)",
                bus_id.to_string(),
                "function 0",
            ));
        }
        let sm = self.require_int(element, "sm")?;
        let dev = self.require_int(element, "dev")?;
        let mlopart = partition(element);
        if let Some(partition @ 2..) = mlopart {
            return Err(Error::new(
                self.place(element, Some("mlopart")),
                "no such partition",
                partition.to_string(),
                "0 or 1, or -1 for a whole GPU",
            ));
        }
        let device_local = bus_id.0 | self.partition_suffix(mlopart);
        let device_id = NcclId::new(host, device_local);
        let device = match self.drafts.find(NodeType::Dev, device_id) {
            Some(device) => device,
            None => {
                let data = Dev {
                    dev,
                    sm,
                    device_code: device_code(pci),
                    bus_id,
                };
                let device =
                    self.drafts
                        .add(self.document, element, device_id, NodeData::Dev(data))?;
                self.drafts.hang(device, parent, LinkType::Pci, bw);
                for other in self.drafts.of_kind(NodeType::Dev).to_vec() {
                    let other_id = self.drafts.node(other).id;
                    if other != device
                        && other_id.0 & !PARTITION_BITS == device_id.0 & !PARTITION_BITS
                    {
                        self.drafts.connect_both(
                            device,
                            other,
                            LinkType::Loc,
                            bandwidth::PARTITION_SIBLING,
                        );
                    }
                }
                device
            }
        };
        let ranks_before = self
            .drafts
            .links(device)
            .iter()
            .filter(|link| self.drafts.node(link.to).kind() == NodeType::Gpu)
            .count();
        let local =
            ((ranks_before as u64) << DEVICE_BITS) | (device_local & ((1 << DEVICE_BITS) - 1));
        let data = Gpu {
            rank: self.require_int(element, "rank")?,
            dev,
            sm,
            gdr: self.require_int(element, "gdr")? != 0,
            mlopart,
            no_p2p: self.devices_without_access(element)?,
            bus_id,
        };
        let gpu = self.drafts.add(
            self.document,
            element,
            NcclId::new(host, local),
            NodeData::Gpu(data),
        )?;
        self.drafts
            .connect_both(device, gpu, LinkType::Loc, bandwidth::LOCAL);
        Ok(())
    }

    fn guid(&self, text: &str) -> u64 {
        match text.strip_prefix("0x") {
            Some(digits) if !self.options.plain_guids => c_unsigned_hexadecimal(digits),
            None if !self.options.plain_guids => 0,
            _ => c_unsigned_hexadecimal(text),
        }
    }

    /// The bits that a partition adds to the bus id in its device's id.
    pub(super) fn partition_suffix(&self, mlopart: Option<i32>) -> u64 {
        match mlopart {
            Some(partition) if self.options.split_partitions => {
                ((partition as u64) << 1 | 1) & PARTITION_BITS
            }
            _ => 0,
        }
    }

    fn add_nets(
        &mut self,
        nic: &'a Element,
        node: DraftId,
        host: u32,
        pci: Option<(&str, &Element)>,
    ) -> Result<(), Error> {
        for net in nic.children(Tag::Net) {
            let Some(dev) = net.get("dev").map(c_int) else {
                continue;
            };
            let flag = |name, default| net.get(name).map_or(default, c_int) != 0;
            let id = NcclId::new(host, i64::from(dev) as u64);
            let asic = if self.options.ports_by_host {
                id.0
            } else {
                dev as u64
            };
            let asic = net.get("guid").map_or(asic, |text| self.guid(text));
            let data = read_net(net, dev, asic, pci);
            let bw = data.bw;
            let kinds = [
                (flag("net", 1), NodeData::Net(data)),
                (flag("gin", 0), NodeData::Gin { dev, bw }),
                (flag("rma", 0), NodeData::Rma { dev, bw }),
            ];
            for (_, data) in kinds.into_iter().filter(|(present, _)| *present) {
                let port = self.drafts.add(self.document, net, id, data)?;
                self.drafts.connect_both(node, port, LinkType::Net, bw);
            }
        }
        Ok(())
    }
}

/// The `mlopart` attribute of a `<gpu>`; -1 and absent mean a whole GPU.
pub(super) fn partition(gpu: &Element) -> Option<i32> {
    gpu.get("mlopart")
        .map(c_int)
        .filter(|partition| *partition != -1)
}

/// Reads a port. `asic`: the id of its adapter.
fn read_net(net: &Element, dev: i32, asic: u64, pci: Option<(&str, &Element)>) -> Net {
    let int = |name, default| net.get(name).map_or(default, c_int);
    let speed = match int("speed", 0) {
        speed if speed > 0 => speed,
        _ => DEFAULT_NET_SPEED,
    };
    let defined = |name| {
        Some(int(name, -1) as i16)
            .filter(|value| *value != -1)
            .map(i32::from)
    };
    Net {
        dev,
        name: net.get("name").map(str::to_owned),
        asic,
        bw: (f64::from(speed) / 8000.0) as f32,
        latency: net.get("latency").map_or(0.0, c_float),
        port: int("port", 0),
        gdr: int("gdr", 0) != 0,
        coll: int("coll", 0) != 0,
        max_connections: int("maxconn", DEFAULT_MAX_CONNECTIONS),
        rail: defined("rail"),
        plane: defined("plane"),
        pci_function: pci.map_or_else(|| format!("{asic:#x}"), |(bus_id, _)| bus_id.to_owned()),
        connectx8: pci.is_some_and(|(_, pci)| CONNECTX8.contains(&(device_code(pci) >> 32))),
    }
}

/// Vendor, device, subsystem vendor and subsystem device, 16 bits each.
fn device_code(pci: &Element) -> u64 {
    ["vendor", "device", "subsystem_vendor", "subsystem_device"]
        .iter()
        .fold(0, |code, name| {
            code << 16
                | pci
                    .get(name)
                    .map_or(0, |text| c_unsigned_hexadecimal(text) & 0xffff)
        })
}
