//! The listings of one text together.

use topology::Error;

use crate::adapter::{Adapter, AdapterReader};
use crate::gpu::NamedGpu;
use crate::kernel::Kernel;
use crate::matrix::{Matrix, MatrixReader};
use crate::pci::{Function, PciReader};
use crate::processor::{Processor, ProcessorReader};
use crate::text::MOST;
use crate::{gpu, text};

/// What listings say of a machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listings {
    /// `nvidia-smi topo -m`.
    pub matrix: Option<Matrix>,
    /// `lspci -vv`, in its order.
    pub pci: Vec<Function>,
    /// Names of GPUs, of `nvidia-smi -L` or of the table of `nvidia-smi`.
    pub gpus: Vec<NamedGpu>,
    /// `lscpu` and `numactl -H`.
    pub processor: Processor,
    /// `ibstat` and `ibv_devinfo`.
    pub adapters: Vec<Adapter>,
    /// The kernel's command line and messages.
    pub kernel: Kernel,
}

/// The listings of a text, line by line. Memory does not grow with its length.
#[derive(Debug)]
pub struct Reader<'f> {
    facts: Listings,
    matrix: MatrixReader<'f>,
    pci: PciReader,
    processor: ProcessorReader,
    adapters: AdapterReader,
}

impl<'f> Reader<'f> {
    /// A reader of a file of this name.
    pub fn new(file: &'f str) -> Self {
        Self {
            facts: Listings::default(),
            matrix: MatrixReader::new(file),
            pci: PciReader::default(),
            processor: ProcessorReader::default(),
            adapters: AdapterReader::default(),
        }
    }

    /// Reads a line, whose number counts from 1.
    ///
    /// # Errors
    /// A matrix that cannot be read.
    pub fn line(&mut self, number: u32, line: &str) -> Result<(), Error> {
        if self.matrix.line(number, line)? {
            return Ok(());
        }
        self.pci.line(line);
        self.processor.line(line);
        self.facts.kernel.line(line);
        self.adapters.line(line);
        if let Some(named) = gpu::named(line).filter(|_| self.facts.gpus.len() < MOST) {
            self.facts.gpus.push(named);
        }
        Ok(())
    }

    /// What was read; `None` if no line was of a listing.
    ///
    /// # Errors
    /// A matrix that is incomplete or contradicts itself.
    pub fn finish(self) -> Result<Option<Listings>, Error> {
        let mut facts = Listings {
            matrix: self.matrix.finish()?,
            pci: self.pci.functions,
            processor: self.processor.finish(),
            adapters: self.adapters.adapters,
            ..self.facts
        };
        facts.join_gpus();
        Ok((facts != Listings::default()).then_some(facts))
    }
}

impl Listings {
    /// Reads every listing in a text; `None` if there is none, or if it is XML.
    ///
    /// # Errors
    /// A matrix that is incomplete or contradicts itself.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Option<Self>, Error> {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'<') {
            return Ok(None);
        }
        let mut reader = Reader::new(file);
        for (number, line) in text::lines(bytes) {
            reader.line(number, &line)?;
        }
        reader.finish()
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
                }
                None => joined.push(named),
            }
        }
        joined.sort_by_key(|named| named.index);
        self.gpus = joined;
    }
}
