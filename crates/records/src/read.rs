//! The listings of one text together.

use std::collections::BTreeMap;

use topology::Error;

use crate::adapter::{Adapter, AdapterReader};
use crate::bandwidth::{BandwidthReader, Bandwidths};
use crate::condition::{Condition, ConditionReader};
use crate::gpu::NamedGpu;
use crate::kernel::Kernel;
use crate::links::{Links, LinksReader};
use crate::lstopo::LstopoReader;
use crate::matrix::{Matrix, MatrixReader};
use crate::measurements::unreadable;
use crate::outputs::Outputs;
use crate::pci::{Function, PciReader};
use crate::pci_link::lane_rate;
use crate::pci_tree::TreeReader;
use crate::peers::{Peers, PeersReader};
use crate::processor::{Processor, ProcessorReader};
use crate::prose::{Mention, Prose};
use crate::said::Said;
use crate::said_link::SaidLink;
use crate::text::{MOST, MOST_PROLOGUE};
use crate::{gpu, text};

/// What listings say of a machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listings {
    /// `nvidia-smi topo -m`.
    pub matrix: Option<Matrix>,
    /// `nvidia-smi topo -p2p r`.
    pub peers: Option<Peers>,
    /// `lspci -vv`, in its order, and functions that only `lspci -tv` has.
    pub pci: Vec<Function>,
    /// Whether the bridges are those of `lspci -tv`, and no listing has links.
    pub is_tree: bool,
    /// Names of GPUs, of `nvidia-smi -L`, `-q`, the table of `nvidia-smi`, or a report.
    pub gpus: Vec<NamedGpu>,
    /// What prose says.
    pub prose: Prose,
    /// `nvidia-smi -L` lists partitions of GPUs (MIG).
    pub has_partitions: bool,
    /// NCCL's version and variables.
    pub said: Said,
    /// Further matrices, which were not read.
    pub others: u32,
    /// `nvidia-smi nvlink -s`.
    pub links: Vec<Links>,
    /// `nvidia-smi -q` and `nvidia-smi -q -x`.
    pub conditions: Vec<Condition>,
    /// nvbandwidth and p2pBandwidthLatencyTest.
    pub bandwidths: Vec<Bandwidths>,
    /// `lscpu` and `numactl -H`.
    pub processor: Processor,
    /// `ibstat`, `ibstatus`, `ibv_devinfo`, `ibdev2netdev` and `rdma link`.
    pub adapters: Vec<Adapter>,
    /// The kernel's command line and messages.
    pub kernel: Kernel,
    /// The condition of ports, limits, and tests.
    pub outputs: Outputs,
}

/// The listings of a text, line by line. Memory does not grow with its length.
#[derive(Debug)]
pub struct Reader<'f> {
    facts: Listings,
    matrix: MatrixReader<'f>,
    peers: PeersReader,
    links: LinksReader,
    conditions: ConditionReader,
    bandwidths: BandwidthReader,
    file: &'f str,
    pci: PciReader,
    tree: TreeReader,
    processor: ProcessorReader,
    adapters: AdapterReader,
    lstopo: LstopoReader,
    /// GPUs as CUDA numbers them.
    devices: Vec<NamedGpu>,
    reads_prose: bool,
}

impl<'f> Reader<'f> {
    /// A reader of a file of this name.
    pub fn new(file: &'f str) -> Self {
        Self {
            facts: Listings::default(),
            matrix: MatrixReader::new(file),
            peers: PeersReader::default(),
            links: LinksReader::default(),
            conditions: ConditionReader::default(),
            bandwidths: BandwidthReader::default(),
            file,
            pci: PciReader::default(),
            tree: TreeReader::default(),
            processor: ProcessorReader::default(),
            adapters: AdapterReader::default(),
            lstopo: LstopoReader::default(),
            devices: Vec::new(),
            reads_prose: true,
        }
    }

    /// Reads a line, whose number counts from 1.
    ///
    /// # Errors
    /// A matrix that cannot be read.
    pub fn line(&mut self, number: u32, line: &str) -> Result<(), Error> {
        let mut rows = text::rows(line).into_iter();
        rows.try_for_each(|row| self.row(number, &row))
    }

    fn row(&mut self, number: u32, line: &str) -> Result<(), Error> {
        if self.peers.line(line) {
            self.matrix.forget_header();
            return Ok(());
        }
        let is_of_matrix = self.matrix.line(number, line)?;
        let has_others = self.matrix.others > 0;
        if has_others {
            self.facts.prose.keep_first();
        } else if is_of_matrix {
            self.facts.prose.note_matrix();
        }
        if is_of_matrix || self.bandwidths.line(number, line) {
            return Ok(());
        }
        if self.tree.line(line) || self.lstopo.line(line) || self.facts.outputs.line(line) {
            return Ok(());
        }
        self.links.line(line);
        self.conditions.line(line);
        self.pci.line(line);
        self.processor.line(line);
        self.facts.kernel.line(line);
        self.adapters.line(line);
        self.facts.said.line(line);
        if let Some(device) = gpu::of_cuda(line) {
            if self.devices.len() < MOST {
                self.devices.push(device);
            }
            return Ok(());
        }
        self.facts.has_partitions |= gpu::is_partition(line);
        let named = gpu::named(line);
        // Prose behind the first of several matrices may be of another machine.
        if named.is_empty() && !has_others && self.reads_prose {
            self.facts.prose.line(line);
        }
        let room = MOST.saturating_sub(self.facts.gpus.len());
        self.facts.gpus.extend(named.into_iter().take(room));
        Ok(())
    }

    fn read(mut self, files: &[(&'f str, &[u8])]) -> Result<Option<Listings>, Error> {
        for (file, bytes) in files.iter().filter(|it| !is_xml(it.1)) {
            self.file = file;
            self.matrix.file = file;
            for (number, line) in text::lines(bytes) {
                self.line(number, &line)?;
            }
        }
        self.finish()
    }

    /// What was read; `None` if no line was of a listing.
    ///
    /// # Errors
    /// A matrix that is incomplete or contradicts itself, or bandwidths that cannot be read and
    /// nothing else.
    pub fn finish(self) -> Result<Option<Listings>, Error> {
        let unread = self.bandwidths.unread;
        let others = self.matrix.others;
        let mut facts = Listings {
            others,
            matrix: self.matrix.finish()?,
            peers: None,
            links: self.links.gpus,
            conditions: self.conditions.gpus,
            bandwidths: self.bandwidths.found,
            pci: self.pci.functions,
            processor: self.processor.finish(),
            adapters: self.adapters.adapters,
            ..self.facts
        };
        facts.name_conditions();
        if let (None, Some((matrix, gpus))) = (&facts.matrix, self.lstopo.finish()) {
            facts.matrix = Some(matrix);
            facts.gpus.extend(gpus);
        }
        let is_numbered = facts.join_devices(self.devices);
        facts.peers = self.peers.finish(is_numbered);
        facts.join_gpus();
        let tree = self.tree.functions;
        if !tree.is_empty() {
            facts.join_tree(tree);
        }
        let is_empty = facts
            == Listings {
                said: facts.said.clone(),
                // Prose is no listing.
                prose: facts.prose.clone(),
                ..Listings::default()
            };
        match (is_empty, unread) {
            (true, Some(cell)) => Err(unreadable(self.file, &cell)),
            (true, None) => Ok(None),
            (false, _) => Ok(Some(facts)),
        }
    }
}

/// Whether a text is XML, unless it is what nvidia-smi prints; pages of the web are none.
fn is_xml(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let has = |words| text::mentions(bytes, MOST_PROLOGUE, words);
    let is_document = || {
        ["<?xml", "<system", "<!DOCTYPE topology", "<topology"]
            .into_iter()
            .any(has)
    };
    first == Some(&b'<') && !has("nvidia_smi_log") && is_document()
}

impl Listings {
    /// Reads every listing in a text; `None` if there is none, or if it is XML.
    ///
    /// # Errors
    /// A matrix that is incomplete or contradicts itself.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Option<Self>, Error> {
        Self::read_all(&[(file, bytes)])
    }

    /// Reads every listing in texts of one machine, each with its name in messages; `None` as for
    /// one.
    ///
    /// # Errors
    /// As for one.
    pub fn read_all(files: &[(&str, &[u8])]) -> Result<Option<Self>, Error> {
        Reader::new(files.first().map_or("", |it| it.0)).read(files)
    }

    /// Whether there is a listing in a text, or one that cannot be read.
    pub fn are_in(bytes: &[u8]) -> bool {
        let mut reader = Reader::new("");
        reader.reads_prose = false;
        !matches!(reader.read(&[("", bytes)]), Ok(None))
    }

    /// Whether they have the places of GPUs, as a machine needs.
    pub fn has_places(&self) -> bool {
        self.matrix.is_some() || self.has_functions()
    }

    /// Number of GPUs.
    pub(crate) fn gpu_count(&self) -> usize {
        match &self.matrix {
            Some(matrix) => matrix.devices.iter().filter(|it| it.gpu.is_some()).count(),
            None => self.pci.iter().filter(|it| it.is_gpu()).count(),
        }
    }

    /// Whether PCI functions of GPUs are among them.
    pub(crate) fn has_functions(&self) -> bool {
        self.pci.iter().any(Function::is_gpu)
    }

    /// Whether the processor is a Grace: the GPUs' names, or NUMA nodes that they have themselves,
    /// say so, and no listing of the processor another.
    pub(crate) fn has_grace(&self) -> bool {
        let has_nodes = self.matrix.as_ref().is_some_and(|it| it.has_gpu_nodes);
        let is_arm = self
            .processor
            .arch
            .as_deref()
            .is_none_or(|it| it == "arm64");
        is_arm && (has_nodes || self.names_gpu(&["GH200", "GB200", "GB300", "GB10"]))
    }

    /// A GPU to which the usual driver grants no peer access without NVLink. Source: NVIDIA's
    /// forum, "Standard nVidia CUDA tests fail with dual RTX 4090"; the matrices that owners show.
    pub(crate) fn refuses_access(&self) -> Option<&str> {
        let has_nvlinks = self.matrix.as_ref().is_some_and(Matrix::has_nvlinks);
        let mut names = self.names().into_iter().filter(|_| !has_nvlinks);
        names.find(|it| gpu::is_consumer(it))
    }

    /// The names of GPUs, or the one that prose has for all of them.
    pub(crate) fn names(&self) -> Vec<&str> {
        let named = self.gpus.iter().map(|it| it.name.as_str());
        let named: Vec<&str> = named.filter(|it| !it.is_empty()).collect();
        match named.is_empty() {
            true => self.said_name().into_iter().collect(),
            false => named,
        }
    }

    /// The name that prose has for all GPUs.
    pub(crate) fn said_name(&self) -> Option<&str> {
        let nvlinks = self.matrix.as_ref().map_or(0, Matrix::most_nvlinks);
        self.prose.name_of(self.gpu_count(), nvlinks)
    }

    /// Whether a GPU's name has one of these words.
    pub(crate) fn names_gpu(&self, words: &[&str]) -> bool {
        let has = |it: &&str| words.iter().any(|word| it.contains(word));
        self.names().iter().any(has)
    }

    /// Names of GPUs of `nvidia-smi -q`, which lists all of them in their order.
    fn name_conditions(&mut self) {
        let named = (0..)
            .zip(&self.conditions)
            .filter(|it| !it.1.name.is_empty());
        let named = named.map(|(index, gpu)| NamedGpu {
            index,
            name: gpu.name.clone(),
            bus_id: Some(gpu.bus_id.clone()),
            link: SaidLink {
                lanes: gpu.most_width,
                speed: gpu.most_generation.map(lane_rate),
            },
        });
        let known = named.filter(|it| gpu::kind_of_name(&it.name).is_some());
        self.gpus.extend(known);
    }

    /// Joins a tree with the other listings: what they say of a function outranks its name.
    fn join_tree(&mut self, tree: Vec<Function>) {
        let place = |it: &Function| (it.bus, it.slot.clone());
        let listed = self.pci.iter().enumerate();
        let listed: BTreeMap<_, _> = listed.map(|(at, it)| (place(it), at)).collect();
        for mut function in tree {
            if let Some(at) = listed.get(&place(&function)) {
                let known = &mut self.pci[*at];
                known.secondary = known.secondary.or(function.secondary);
                continue;
            }
            let bus_id = function.bus_id();
            let is_it = |it: &&NamedGpu| it.bus_id.as_ref() == Some(&bus_id);
            if let Some(named) = self.gpus.iter().find(is_it)
                && gpu::kind_of_name(&named.name).is_some()
            {
                function.kind = "3D controller".to_owned();
                function.name = format!("NVIDIA Corporation {}", named.name);
            }
            self.pci.push(function);
        }
        // A tree begins with the last root bus.
        self.pci.sort_by_cached_key(place);
        let has_links = self
            .pci
            .iter()
            .any(|it| it.capability.or(it.status).is_some());
        self.is_tree = !has_links;
    }

    /// Joins GPUs as CUDA numbers them. Returns `true` if nvidia-smi numbers them so, too: they are
    /// as many, and in the order of their bus ids, or all alike. Several samples may list them.
    fn join_devices(&mut self, mut devices: Vec<NamedGpu>) -> bool {
        devices.sort_by_key(|it| (it.index, it.bus_id.is_none()));
        devices.dedup_by_key(|it| it.index);
        let is_whole = !self.has_places() || self.gpu_count() == devices.len();
        let ids: Vec<_> = devices.iter().map(|it| it.bus_id.as_deref()).collect();
        let are_alike = devices.windows(2).all(|it| it[0].name == it[1].name);
        let is_known = are_alike || ids.iter().all(Option::is_some);
        let in_order = (0..).zip(&devices).all(|it| it.0 == it.1.index) && ids.is_sorted();
        let in_order = in_order && is_known;
        let is_numbered = devices.is_empty() || (is_whole && in_order);
        if is_numbered {
            self.gpus.extend(devices);
        } else {
            let mentions = devices.into_iter().map(|it| Mention {
                count: None,
                name: it.name,
            });
            self.prose.gpus.extend(mentions);
        }
        is_numbered
    }

    /// One entry for each GPU, from the listings that name it.
    fn join_gpus(&mut self) {
        let mut joined: Vec<NamedGpu> = Vec::new();
        for named in self.gpus.drain(..) {
            match joined.iter_mut().find(|it| it.index == named.index) {
                Some(known) => {
                    // The table of nvidia-smi cuts names.
                    if named.name.len() > known.name.len() {
                        known.name = named.name;
                    }
                    known.bus_id = known.bus_id.take().or(named.bus_id);
                    known.link.lanes = known.link.lanes.or(named.link.lanes);
                    known.link.speed = known.link.speed.or(named.link.speed);
                }
                None => joined.push(named),
            }
        }
        joined.sort_by_key(|named| named.index);
        self.gpus = joined;
    }
}
