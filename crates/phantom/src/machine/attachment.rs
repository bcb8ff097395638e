//! The connections of a GPU with the machine: its PCI function, NVLinks and C2C links.

use topology::bandwidth;
use topology::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

/// Data rates of the PCI Express generations 1 to 6, GT/s per lane.
const RATES: [&str; 6] = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];

/// What joins a GPU to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attachment {
    /// Device in the high 16 bits, vendor in the low 16 bits.
    pub device: u32,
    /// The same of the board.
    pub subsystem: u32,
    /// PCI Express generation of its link; `None` for a rate of no generation.
    pub generation: Option<u32>,
    /// Lanes of its link.
    pub width: u32,
    /// The bus id at the other end of each NVLink, upper case.
    pub nvlinks: Vec<String>,
    /// Bandwidth of each C2C link, MB/s.
    pub c2c_mbps: Vec<u32>,
}

impl Attachment {
    /// The attachment of a GPU, by its `<pci>` and `<gpu>`.
    pub fn of(pci: &Element, gpu: &Element) -> Self {
        let number = |element: &Element, name| element.get(name).map_or(0, c_int);
        let id = |low: &str, high: &str| {
            let part = |name: &str| pci.get(name).map_or(0, c_unsigned_hexadecimal) & 0xffff;
            (part(high) << 16 | part(low)) as u32
        };
        let repeated = |link: &Element| number(link, "count").max(0) as usize;
        let nvlinks = gpu.children(Tag::Nvlink).flat_map(|link| {
            let target = link.get("target").unwrap_or_default().to_uppercase();
            vec![target; repeated(link)]
        });
        let c2c = gpu.children(Tag::C2c).flat_map(|link| {
            let bandwidth = u32::try_from(number(link, "bw")).unwrap_or(0);
            vec![bandwidth; repeated(link)]
        });
        Self {
            device: id("vendor", "device"),
            subsystem: id("subsystem_vendor", "subsystem_device"),
            generation: generation(pci.get("link_speed").unwrap_or_default()),
            width: pci.get("link_width").map_or(16, c_int).max(0) as u32,
            nvlinks: nvlinks.collect(),
            c2c_mbps: c2c.collect(),
        }
    }
}

/// The generation whose links have the bandwidth of this text, such as `16.0 GT/s PCIe`.
fn generation(text: &str) -> Option<u32> {
    let own = bandwidth::pci(text, 16);
    let found = (1..).zip(RATES).find(|(_, rate)| {
        let text = format!("{rate} GT/s PCIe");
        bandwidth::pci(&text, 16) == own
    });
    found.map(|(generation, _)| generation)
}

/// The `<pci>` and `<gpu>` of all GPUs, by their number `dev`.
pub fn gpus(document: &Document) -> Vec<(&Element, &Element)> {
    fn collect<'d>(element: &'d Element, found: &mut Vec<(&'d Element, &'d Element)>) {
        for child in &element.children {
            if child.tag == Tag::Gpu {
                found.push((element, child));
            }
            collect(child, found);
        }
    }
    let mut found = Vec::new();
    collect(&document.root, &mut found);
    found.sort_by_key(|(_, gpu)| gpu.get("dev").map_or(-1, c_int));
    found
}
