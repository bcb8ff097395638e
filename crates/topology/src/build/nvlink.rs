//! NVLinks, C2C links and peer-to-peer links between PCI switches: what crosses the PCI tree.

use super::Builder;
use super::devices::{PARTITION_BITS, partition};
use super::draft::DraftId;
use crate::bandwidth;
use crate::bus_id::BusId;
use crate::error::Error;
use crate::link::LinkType;
use crate::node::{NcclId, NodeData, NodeType};
use crate::xml::{Element, Tag, c_int};

/// The GPU element that represents a device, with its place.
struct Primary<'a> {
    gpu: &'a Element,
    pci: &'a Element,
    host: u32,
}

impl<'a> Builder<'a> {
    /// The GPU elements that represent devices, in document order.
    fn primary_gpus(&mut self) -> Vec<Primary<'a>> {
        fn walk<'a>(pci: &'a Element, host: u32, split: bool, found: &mut Vec<Primary<'a>>) {
            let mut earlier = Vec::new();
            for child in pci.children.iter().filter(|child| child.is_used()) {
                match child.tag {
                    Tag::Pci => walk(child, host, split, found),
                    Tag::Gpu => {
                        let part = partition(child);
                        let first = if split {
                            !earlier.contains(&part)
                        } else {
                            earlier.is_empty()
                        };
                        earlier.push(part);
                        if first {
                            found.push(Primary {
                                gpu: child,
                                pci,
                                host,
                            });
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        for cpu in self.used(&self.document.root, Tag::Cpu) {
            let host = self.host_of(cpu);
            for pci in self.used(cpu, Tag::Pci) {
                walk(pci, host, self.options.split_partitions, &mut found);
            }
        }
        found
    }

    fn device_of(&self, primary: &Primary<'a>) -> Result<DraftId, Error> {
        let bus_id = BusId::parse(self.require(primary.pci, "busid")?);
        let local = bus_id.0 | self.partition_suffix(partition(primary.gpu));
        self.drafts.find(NodeType::Dev, NcclId::new(primary.host, local)).ok_or_else(|| {
            Error::new(
                self.place(primary.gpu, None),
                "the GPU has links but is not part of the machine",
                "a GPU below an element that NCCL does not enter",
                "<pci> elements of a PCI class around it, and no other <gpu> without `rank` beside it",
            )
        })
    }

    /// All devices (partitions) with this bus id.
    fn devices_at(&self, host: u32, bus_id: BusId) -> Vec<DraftId> {
        let wanted = NcclId::new(host, bus_id.0).0 & !PARTITION_BITS;
        let devices = self.drafts.of_kind(NodeType::Dev).iter().copied();
        devices
            .filter(|device| self.drafts.node(*device).id.0 & !PARTITION_BITS == wanted)
            .collect()
    }

    pub(super) fn add_nvlinks(&mut self) -> Result<(), Error> {
        for primary in self.primary_gpus() {
            for nvlink in primary.gpu.children(Tag::Nvlink) {
                self.add_nvlink(&primary, nvlink)?;
            }
        }
        Ok(())
    }

    fn add_nvlink(&mut self, primary: &Primary<'a>, nvlink: &'a Element) -> Result<(), Error> {
        let device = self.device_of(primary)?;
        let NodeData::Dev(data) = &self.drafts.node(device).data else {
            return Ok(());
        };
        let (sm, bus_id) = (data.sm, data.bus_id);
        let count = self.require_int(nvlink, "count")?;
        let bw = count as f32 * bandwidth::nvlink(sm, self.options.knows_rubin);
        let sharers = self.devices_at(primary.host, bus_id).len() as f32;
        match bandwidth::class_kind(self.require(nvlink, "tclass")?) {
            NodeType::Gpu => {
                let target = BusId::parse(self.require(nvlink, "target")?);
                let remotes: Vec<_> = self
                    .devices_at(primary.host, target)
                    .into_iter()
                    .filter(|remote| matches!(&self.drafts.node(*remote).data, NodeData::Dev(dev) if dev.bus_id == target))
                    .collect();
                let bw = bw / remotes.len() as f32 / sharers;
                for remote in remotes {
                    self.drafts.connect(device, remote, LinkType::Nvl, bw);
                }
            }
            NodeType::Cpu => {
                if let Some(cpu) = self.drafts.cpu_above(device) {
                    self.drafts
                        .connect_both(device, cpu, LinkType::Nvl, bw / sharers);
                }
            }
            _ => {
                let switch = match self.drafts.of_kind(NodeType::Nvs).first() {
                    Some(switch) => *switch,
                    None => self
                        .drafts
                        .add(self.document, nvlink, NcclId(0), NodeData::Nvs)?,
                };
                self.drafts
                    .connect_both(device, switch, LinkType::Nvl, bw / sharers);
            }
        }
        Ok(())
    }

    pub(super) fn add_c2c(&mut self) -> Result<(), Error> {
        for primary in self.primary_gpus() {
            for c2c in primary.gpu.children(Tag::C2c) {
                let int = |name| c2c.get(name).map_or(0, c_int);
                let bw = (f64::from(int("bw").wrapping_mul(int("count"))) / 1000.0) as f32;
                let device = self.device_of(&primary)?;
                let Some(cpu) = self.drafts.cpu_above(device) else {
                    continue;
                };
                let id = self.drafts.node(device).id;
                if self.devices_at(primary.host, BusId(id.local())).len() < 2 {
                    self.drafts.connect_both(device, cpu, LinkType::C2c, bw);
                    continue;
                }
                // The partitions of one GPU share its C2C port.
                let port_id = NcclId(id.0 & !PARTITION_BITS);
                let port = match self.drafts.find(NodeType::Cxb, port_id) {
                    Some(port) => port,
                    None => {
                        let port = self
                            .drafts
                            .add(self.document, c2c, port_id, NodeData::Cxb)?;
                        self.drafts.connect_both(port, cpu, LinkType::C2c, bw);
                        port
                    }
                };
                self.drafts.connect_both(device, port, LinkType::C2c, bw);
            }
        }
        Ok(())
    }

    pub(super) fn add_pci_links(&mut self) -> Result<(), Error> {
        for cpu in self.used(&self.document.root, Tag::Cpu) {
            let host = self.host_of(cpu);
            for pci in self.used(cpu, Tag::Pci) {
                self.add_pci_links_below(pci, host)?;
            }
        }
        Ok(())
    }

    fn add_pci_links_below(&mut self, pci: &'a Element, host: u32) -> Result<(), Error> {
        for child in &pci.children {
            match child.tag {
                Tag::Pci if child.is_used() => self.add_pci_links_below(child, host)?,
                Tag::Pcilink => self.add_pci_link(pci, child, host)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add_pci_link(
        &mut self,
        pci: &'a Element,
        link: &'a Element,
        host: u32,
    ) -> Result<(), Error> {
        let find = |builder: &Self, text| {
            builder
                .drafts
                .find(NodeType::Pci, NcclId::new(host, BusId::parse(text).0))
        };
        let Some(from) = find(self, self.require(pci, "busid")?) else {
            return Err(Error::new(
                self.place(link, None),
                "a peer-to-peer link must begin at a PCI switch",
                format!(
                    "<pci busid=\"{}\"> of class {}",
                    pci.get("busid").unwrap_or_default(),
                    pci.get("class").unwrap_or_default()
                ),
                "class 0x060400",
            ));
        };
        if let Some(to) = find(self, self.require(link, "target")?) {
            self.drafts
                .connect(from, to, LinkType::Loc, bandwidth::LOCAL);
        }
        Ok(())
    }
}
