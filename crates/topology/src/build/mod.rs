//! From a topology document to the graph of the machine, by NCCL's rules.

mod devices;
mod draft;
mod flatten;
mod nvlink;

use std::sync::Arc;

use crate::bandwidth;
use crate::error::{Error, Place, Position};
use crate::link::LinkType;
use crate::node::{Cpu, CpuArch, CpuModel, CpuVendor, NcclId, NodeData, NodeType};
use crate::system::System;
use crate::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};
pub(crate) use devices::DEFAULT_NET_SPEED;
use draft::Drafts;

/// Most nodes of one type (NCCL's `NCCL_TOPO_MAX_NODES`).
pub const MAX_NODES_PER_TYPE: usize = 640;

/// Most links of one node (NCCL's `NCCL_TOPO_MAX_LINKS`).
pub const MAX_LINKS_PER_NODE: usize = 576;

/// Options for building a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildOptions {
    /// Partitions of one GPU are devices of their own (`NCCL_TOPO_SPLIT_MLOPART`).
    pub split_partitions: bool,
    /// The host that the system is seen from, by order of first appearance in the document.
    pub host: u32,
    /// A port without `guid` has an id that no port of another host has (NCCL 2.28 and newer).
    pub ports_by_host: bool,
    /// A guid is a hexadecimal number with or without `0x` (NCCL 2.28 and newer). Otherwise one
    /// without `0x` is 0.
    pub plain_guids: bool,
    /// Processors of AMD, and Intel's of 2024, differ in the bandwidth between sockets (NCCL 2.31
    /// and newer).
    pub newer_processors: bool,
    /// NVLinks of Rubin are slower than Blackwell's (NCCL 2.32 and newer).
    pub knows_rubin: bool,
    /// NICs directly under CPUs are nodes of their own (NCCL 2.32.6). Otherwise all of a host are
    /// one.
    pub separates_cpu_nics: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            split_partitions: true,
            host: 0,
            ports_by_host: true,
            plain_guids: true,
            newer_processors: true,
            knows_rubin: true,
            separates_cpu_nics: false,
        }
    }
}

/// The state of the construction.
struct Builder<'a> {
    document: &'a Document,
    options: BuildOptions,
    drafts: Drafts,
    hosts: Vec<u64>,
}

impl System {
    /// Builds the graph of a document with default options.
    ///
    /// # Errors
    /// As [`System::from_document_with`].
    pub fn from_document(document: &Document) -> Result<Self, Error> {
        Self::from_document_with(document, BuildOptions::default())
    }

    /// Builds the graph of a document. As in NCCL, elements without a GPU that has a rank or a port
    /// that has a device number are left out.
    ///
    /// # Errors
    /// A required attribute is missing, a limit of NCCL is exceeded, or a link has no target.
    pub fn from_document_with(document: &Document, options: BuildOptions) -> Result<Self, Error> {
        let mut builder = Builder {
            document,
            options,
            drafts: Drafts::default(),
            hosts: Vec::new(),
        };
        if document.root.children(Tag::Cpu).all(|cpu| !cpu.is_used()) {
            return Err(nothing_to_plan(document));
        }
        for cpu in builder.used(&document.root, Tag::Cpu) {
            builder.add_cpu(cpu)?;
        }
        builder.add_nvlinks()?;
        builder.add_c2c()?;
        builder.add_pci_links()?;
        flatten::flatten_broadcom_switches(&mut builder.drafts);
        builder.connect_cpus();
        builder.drafts.sort_links();
        builder.drafts.check_links(document)?;
        let host = options
            .host
            .min(builder.hosts.len().saturating_sub(1) as u32);
        Ok(System::assemble(
            builder.drafts.into_order(),
            builder.hosts,
            host,
        ))
    }
}

/// The error for a document with neither a GPU nor a port to plan for.
fn nothing_to_plan(document: &Document) -> Error {
    fn count(element: &Element, found: &mut [usize; 4]) {
        match element.tag {
            Tag::Cpu => found[0] += 1,
            Tag::Gpu => found[1] += 1,
            Tag::Net => found[2] += 1,
            Tag::Pci
                if element
                    .get("class")
                    .is_some_and(|class| class.starts_with("0x03")) =>
            {
                found[3] += 1
            }
            _ => {}
        }
        element
            .children
            .iter()
            .for_each(|child| count(child, found));
    }
    let mut found = [0; 4];
    count(&document.root, &mut found);
    let [cpus, gpus, nets, displays] = found;
    Error::new(
        document.root.place(&document.file, None),
        "the file describes no GPU and no network port that a job could use",
        format!(
            "{cpus} <cpu>, {displays} <pci> of a GPU class, {gpus} <gpu> (none with `rank`), {nets} <net> (none with `dev`)"
        ),
        "a complete file, as NCCL writes it with NCCL_TOPO_DUMP_FILE: a <gpu dev sm rank gdr> inside each GPU's <pci>, and a \
         <nic> with <net dev> inside each NIC's <pci>; files shipped by cloud vendors hold only the PCI tree, and NCCL \
         completes them on the machine",
    )
}

impl<'a> Builder<'a> {
    fn place(&self, element: &Element, attribute: Option<&str>) -> Place {
        element.place(&self.document.file, attribute)
    }

    fn require(&self, element: &'a Element, name: &str) -> Result<&'a str, Error> {
        element.require(&self.document.file, name)
    }

    fn require_int(&self, element: &'a Element, name: &str) -> Result<i32, Error> {
        self.require(element, name).map(c_int)
    }

    /// The children with this tag; parts that hold nothing a job could use are left out.
    fn used(&self, element: &'a Element, tag: Tag) -> impl Iterator<Item = &'a Element> + use<'a> {
        element.children(tag).filter(|child| child.is_used())
    }

    /// The number of the host that a `<cpu>` belongs to; new hosts are numbered as they appear.
    fn host_of(&mut self, cpu: &Element) -> u32 {
        let hash = cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal);
        let known = self.hosts.iter().position(|host| *host == hash);
        known.unwrap_or_else(|| {
            self.hosts.push(hash);
            self.hosts.len() - 1
        }) as u32
    }

    fn add_cpu(&mut self, element: &'a Element) -> Result<(), Error> {
        let host = self.host_of(element);
        if host > 0xff {
            return Err(Error::new(
                self.place(element, Some("host_hash")),
                "more hosts than node ids can name",
                "a 257th host",
                "at most 256 hosts in one NVLink domain",
            ));
        }
        let numa = self.require_int(element, "numaid")?;
        let cpu = self.read_cpu(element, numa)?;
        let id = NcclId::new(host, i64::from(numa) as u64);
        let cpu = self
            .drafts
            .add(self.document, element, id, NodeData::Cpu(cpu))?;
        for (number, child) in (0..).zip(&element.children) {
            let id = match self.options.separates_cpu_nics {
                true => (numa as u64 & 0xff) << 48 | number,
                false => 0,
            };
            match child.tag {
                _ if !child.is_used() => {}
                Tag::Pci => self.add_pci(child, cpu, host)?,
                Tag::Nic => self.add_cpu_nic(child, cpu, NcclId::new(host, id), host)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_cpu(&self, element: &'a Element, numa: i32) -> Result<Cpu, Error> {
        let arch = match self.require(element, "arch")? {
            text if text.starts_with("x86_64") => CpuArch::X86,
            text if text.starts_with("arm64") => CpuArch::Arm,
            text if text.starts_with("ppc64") => CpuArch::Power,
            _ => CpuArch::Unknown,
        };
        let mut vendor = CpuVendor::Unknown;
        let mut model = CpuModel::Other;
        if arch == CpuArch::X86 {
            vendor = match self.require(element, "vendor")? {
                text if text.starts_with("GenuineIntel") => CpuVendor::Intel,
                text if text.starts_with("AuthenticAMD") => CpuVendor::Amd,
                text if text.starts_with("CentaurHauls") || text.starts_with("  Shanghai  ") => {
                    CpuVendor::Zhaoxin
                }
                _ => CpuVendor::Unknown,
            };
            if matches!(vendor, CpuVendor::Intel | CpuVendor::Zhaoxin) {
                let family = self.require_int(element, "familyid")?;
                let number = self.require_int(element, "modelid")?;
                model = match (vendor, family, number) {
                    // Granite Rapids, its edge variant, Sierra Forest.
                    (CpuVendor::Intel, 6, 0xad..=0xaf) if self.options.newer_processors => {
                        CpuModel::IntelEmeraldRapids
                    }
                    (CpuVendor::Intel, 6, 0xcf..) => CpuModel::IntelEmeraldRapids,
                    (CpuVendor::Intel, 6, 0x8f..) => CpuModel::IntelSapphireRapids,
                    (CpuVendor::Intel, 6, 0x55..) => CpuModel::IntelSkylake,
                    (CpuVendor::Intel, ..) => CpuModel::IntelBroadwell,
                    (_, 7, 0x5b) => CpuModel::ZhaoxinYongfeng,
                    _ => CpuModel::Other,
                };
            }
            if vendor == CpuVendor::Amd && self.options.newer_processors {
                // Files have the family as CPUID adds it up, or as NCCL before 2.31 did.
                model = match element.get("familyid").map_or(0, c_int) {
                    0x19 | 0xaf => CpuModel::AmdMilan,
                    0x1a | 0xbf => CpuModel::AmdTurin,
                    _ => CpuModel::AmdRome,
                };
            }
        }
        Ok(Cpu {
            numa,
            arch,
            vendor,
            model,
            affinity: element.get("affinity").map(str::to_owned),
        })
    }

    fn connect_cpus(&mut self) {
        let cpus = self.drafts.of_kind(NodeType::Cpu).to_vec();
        for &from in &cpus {
            let NodeData::Cpu(cpu) = &self.drafts.node(from).data else {
                continue;
            };
            let bw = bandwidth::between_cpus(cpu.arch, cpu.vendor, cpu.model);
            for &to in &cpus {
                if from != to
                    && self.drafts.node(from).id.system() == self.drafts.node(to).id.system()
                {
                    self.drafts.connect(from, to, LinkType::Sys, bw);
                }
            }
        }
    }
}

/// The place of a whole document, for errors that no element carries.
fn document_place(document: &Document) -> Place {
    Place {
        file: Arc::clone(&document.file),
        position: Position::default(),
        element: None,
        attribute: None,
    }
}
