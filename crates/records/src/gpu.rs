//! Kinds of GPUs, by name and PCI id.

use std::ops::RangeInclusive;

use crate::condition;
use crate::said_link::{self, SaidLink};
use crate::text;

/// Most GPUs that a line names.
pub(crate) const MOST_LISTED: usize = 512;

/// Lanes of a PCI link.
pub(crate) const LANES: u32 = 16;

/// Compute capability × 10 of GB10.
const GB10: i32 = 121;

/// A kind of GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    /// Compute capability × 10.
    pub sm: i32,
    /// Rate of a lane of PCI Express, GT/s.
    pub pci_speed: f32,
    /// Usual speed of the NICs beside it, Mb/s.
    pub nic_speed: i32,
    /// Usual lanes of the NICs beside it. Each port beside a GB10 is two functions of four lanes
    /// (NVIDIA/dgx-spark-playbooks, issue 102).
    pub nic_lanes: u32,
}

/// The name of a GPU in a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedGpu {
    /// Its number, as nvidia-smi counts.
    pub index: u32,
    /// Its name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Its bus id as NCCL writes it, where the listing has it.
    pub bus_id: Option<String>,
    /// Its link, where the listing says something of it.
    pub link: SaidLink,
}

impl Kind {
    /// The kind of a compute capability × 10. Source of the rates: NVIDIA's data sheets of the
    /// boards; of the NICs: the machines in `topologies/`.
    pub const fn of(sm: i32) -> Self {
        let (pci_speed, nic_speed) = match sm {
            ..80 => (8.0, 100_000),
            80..90 => (16.0, 200_000),
            103 => (64.0, 800_000),
            GB10 => (32.0, 200_000),
            _ => (32.0, 400_000),
        };
        Self {
            sm,
            pci_speed,
            nic_speed,
            nic_lanes: if sm == GB10 { 4 } else { LANES },
        }
    }
}

/// Words in names, the more special before the more general, with the compute capability × 10.
/// Source: NVIDIA's list of CUDA GPUs.
const NAMES: [(&str, i32); 42] = [
    ("RTX A", 86),
    ("GB300", 103),
    ("B300", 103),
    ("GB200", 100),
    ("B200", 100),
    ("B100", 100),
    ("GB10", 121),
    ("GH200", 90),
    ("H100", 90),
    ("H200", 90),
    ("H800", 90),
    ("H20", 90),
    ("A100", 80),
    ("A800", 80),
    ("A30", 80),
    ("V100", 70),
    ("P100", 60),
    ("RTX PRO", 120),
    ("RTX 5090", 120),
    ("RTX 5080", 120),
    ("RTX 5070", 120),
    ("Ada Generation", 89),
    ("L40", 89),
    ("L20", 89),
    ("L4", 89),
    ("RTX 4090", 89),
    ("RTX 4080", 89),
    ("RTX 4070", 89),
    ("RTX 3090", 86),
    ("RTX 3080", 86),
    ("RTX 3070", 86),
    ("A40", 86),
    ("A16", 86),
    ("A10", 86),
    ("A2", 86),
    ("T4", 75),
    ("RTX 20", 75),
    ("Quadro RTX", 75),
    ("TITAN RTX", 75),
    ("TITAN V", 70),
    ("GV100", 70),
    ("GP100", 60),
];

/// Ranges of PCI device ids of NVIDIA's chips, with the compute capability × 10. Source: the public
/// list of PCI ids.
const IDS: [(RangeInclusive<u16>, i32); 12] = [
    (0x15f0..=0x15ff, 60),
    (0x1db0..=0x1dff, 70),
    (0x1e00..=0x1fff, 75),
    (0x20b0..=0x20ff, 80),
    (0x2200..=0x22ff, 86),
    (0x2320..=0x237f, 90),
    (0x2480..=0x25ff, 86),
    (0x2680..=0x28ff, 89),
    (0x2900..=0x29ff, 100),
    (0x2b80..=0x2dff, 120),
    (0x2e00..=0x2eff, 121),
    (0x3180..=0x31ff, 103),
];

/// The kind of a GPU with this name.
pub fn kind_of_name(name: &str) -> Option<Kind> {
    let found = NAMES.iter().find(|(word, _)| is_whole(name, word));
    found.map(|(_, sm)| Kind::of(*sm))
}

/// Whether a name has this word, and not behind letters or digits.
fn is_whole(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let before = name[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric)
    })
}

/// Whether a word is the name of a kind, with at most what tells its variants apart: `A10G`,
/// `A100-SXM4-80GB`.
pub(crate) fn is_model(word: &str) -> bool {
    let variant = |rest: &str| {
        let letters = rest.len() <= 2 && rest.chars().all(|it| it.is_ascii_alphabetic());
        letters || rest.starts_with('-')
    };
    let mut known = NAMES.iter().filter(|it| !it.0.contains(' '));
    known.any(|it| word.strip_prefix(it.0).is_some_and(variant))
}

/// Most NVLinks of a GPU with this name. Source: NVIDIA's data sheets of the boards.
pub(crate) fn most_nvlinks(name: &str) -> u32 {
    let without = ["A10", "A16", "A2", "T4", "RTX 3070", "RTX 3080"];
    let key = NAMES.iter().map(|it| it.0).find(|it| is_whole(name, it));
    match kind_of_name(name).map_or(0, |it| it.sm) {
        _ if key.is_some_and(|it| without.contains(&it)) => 0,
        60 => 4,
        70 => 6,
        75 => 2,
        80 => 12,
        86 => 4,
        90 | 100 | 103 => 18,
        _ => 0,
    }
}

/// Whether a GPU is a GeForce RTX 3050 to 5090, as people write it.
pub(crate) fn is_consumer(name: &str) -> bool {
    let is_number = |text: &str| {
        let digits = text.as_bytes().get(..4);
        matches!(digits, Some([b'3'..=b'5', b'0', b'5'..=b'9', b'0']))
    };
    let mut numbers = name.match_indices("RTX ");
    numbers.any(|(at, word)| is_number(&name[at + word.len()..]))
}

/// The kind of a GPU with this PCI device id.
pub fn kind_of_id(device: u16) -> Option<Kind> {
    let found = IDS.iter().find(|(range, _)| range.contains(&device));
    found.map(|(_, sm)| Kind::of(*sm))
}

/// The GPUs that a line names: one of `nvidia-smi -L`, of a report (`GPU 0,1: NVIDIA GB200`, also
/// as an item of Markdown), of `nvidia-smi --query-gpu`, or the first line of a GPU in the table of
/// `nvidia-smi`.
pub(crate) fn named(line: &str) -> Vec<NamedGpu> {
    let item = text::item(line);
    match item.strip_prefix("GPU ").and_then(listed) {
        Some(listed) => listed,
        None => {
            let one = in_table(line.trim()).or_else(|| of_query(item));
            one.into_iter().collect()
        }
    }
}

/// `0,1: NAME`, and what people write behind the name.
fn listed(text: &str) -> Option<Vec<NamedGpu>> {
    let (numbers, rest) = text.split_once(':')?;
    let numbers = text::numbers(numbers, MOST_LISTED)?;
    let name = text::item(rest).split(" (UUID").next()?;
    let name = name.split([',', '|']).next()?.trim();
    kind_of_name(name)?;
    let link = said_link::link(rest).unwrap_or_default();
    let gpu = |index: usize| NamedGpu {
        index: index as u32,
        name: name.to_owned(),
        bus_id: None,
        link,
    };
    Some(numbers.into_iter().map(gpu).collect())
}

/// How nvidia-smi begins the names of GPUs.
const MAKES: [&str; 5] = ["NVIDIA", "Tesla", "Quadro", "GeForce", "GRID"];

/// `0, NVIDIA A10G, 00000000:00:1B.0` of `nvidia-smi --query-gpu=index,name,pci.bus_id`.
fn of_query(line: &str) -> Option<NamedGpu> {
    let mut cells = line.split(',').map(str::trim);
    let index = cells.next()?.parse().ok()?;
    let cells: Vec<&str> = cells.collect();
    let of_nvidia = |it: &&&str| MAKES.iter().any(|make| it.starts_with(make));
    let name = cells.iter().filter(of_nvidia);
    let name = name.into_iter().find(|it| kind_of_name(it).is_some())?;
    (index < MOST_LISTED as u32 && name.len() < 80).then(|| NamedGpu {
        index,
        name: (*name).to_owned(),
        bus_id: cells.iter().find_map(|it| condition::bus_id(it)),
        link: SaidLink::default(),
    })
}

/// The GPU that a sample of CUDA numbers: `Device: 0, NAME, pciBusID: 1b, pciDeviceID: 0,
/// pciDomainID:0`, or `Device 0: "NAME"`.
pub(crate) fn of_cuda(line: &str) -> Option<NamedGpu> {
    let rest = line.trim().strip_prefix("Device")?;
    let rest = rest.trim_start_matches([':', ' ']);
    let (index, rest) = rest.split_once([',', ':'])?;
    let mut cells = rest.split(',').map(str::trim);
    let name = cells.next()?.trim_matches('"');
    kind_of_name(name)?;
    let cells: Vec<&str> = cells.collect();
    let number = |label: &str| {
        let text = cells.iter().find_map(|it| it.strip_prefix(label))?;
        u32::from_str_radix(text.trim_start_matches([':', ' ']), 16).ok()
    };
    let (bus, device) = (number("pciBusID"), number("pciDeviceID"));
    let domain = number("pciDomainID").unwrap_or(0);
    let index: u32 = index.trim().parse().ok()?;
    let place = bus.zip(device).filter(|it| it.0 < 256 && it.1 < 32);
    (index < MOST_LISTED as u32 && name.len() < 80).then(|| NamedGpu {
        index,
        name: name.to_owned(),
        bus_id: place.map(|(bus, device)| format!("{domain:04x}:{bus:02x}:{device:02x}.0")),
        link: SaidLink::default(),
    })
}

/// Whether a line of `nvidia-smi -L` is a partition: `  MIG 3g.20gb     Device  0: (UUID: MIG-…)`.
pub(crate) fn is_partition(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix("MIG ");
    rest.is_some_and(|it| it.contains(" Device ") && it.contains("(UUID: MIG-"))
}

/// The first line of a GPU in the table of `nvidia-smi`.
fn in_table(line: &str) -> Option<NamedGpu> {
    let mut cells = line.strip_prefix('|')?.split('|');
    let (index, name) = cells.next()?.trim().split_once(' ')?;
    let bus_id = cells.next()?.split_whitespace().next()?;
    let (domain, rest) = bus_id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    // Digits where `1b:00.0` has them.
    let like = |(own, known): (char, char)| match known.is_ascii_hexdigit() {
        true => own.is_ascii_hexdigit(),
        false => own == known,
    };
    let function = rest.len() == "1b:00.0".len() && rest.chars().zip("1b:00.0".chars()).all(like);
    let name = name.trim().split("  ").next()?;
    (function && kind_of_name(name).is_some()).then(|| NamedGpu {
        index: index.parse().unwrap_or(u32::MAX),
        name: name.to_owned(),
        bus_id: Some(format!("{domain:04x}:{}", rest.to_lowercase())),
        link: SaidLink::default(),
    })
}
