//! PCI links in prose.

use crate::pci_link::lane_rate;
use crate::text::is_one_of;

/// A PCI link of which a text says something.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SaidLink {
    /// Its lanes.
    pub lanes: Option<u32>,
    /// Rate of a lane, GT/s.
    pub speed: Option<f32>,
}

/// Words of other devices with links.
const OTHERS: &str = "nvme ssd ssds m.2 disk disks drive drives raid sata storage nic nics adapter adapters \
    hca hcas ethernet infiniband mellanox connectx bluefield usb thunderbolt sound audio \
    reader capture";

/// Words before a generation.
const BUSES: [&str; 3] = ["pcie", "pci-e", "gen"];

/// Most words between a bus and its lanes.
const NEAR: u32 = 4;

/// Generations that a text can say. An idle GPU runs at the first ones, so those say nothing.
const SAID: std::ops::RangeInclusive<u32> = 3..=6;

/// A link such as `PCIe Gen5 x8`, `PCIe 4.0 x16` or `gen4 @ x8`; `None` where the line has several,
/// or other devices than GPUs.
pub(crate) fn link(line: &str) -> Option<SaidLink> {
    // Lanes have `x` or `×` before them.
    memchr::memchr3(b'x', b'X', 0xc3, line.as_bytes())?;
    let lower = line.to_lowercase();
    let words = lower.split(|it: char| it.is_whitespace() || ",;()|@`*/:".contains(it));
    let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
    let is_other = |word: &&str| {
        let own = word.trim_end_matches(['.', '!']);
        is_one_of(own, OTHERS) || own.starts_with("connectx-") || own.starts_with("bluefield-")
    };
    if words.iter().any(is_other) {
        return None;
    }
    let (mut lanes, mut generations) = (Vec::new(), Vec::new());
    let (mut before, mut near) = ("", 0);
    for word in words {
        let number = generation(word);
        let is_bus = BUSES.contains(&word) || number.is_some();
        let follows = BUSES.contains(&before).then(|| whole(word)).flatten();
        generations.extend(number.or(follows).filter(|it| SAID.contains(it)));
        near = if is_bus { NEAR } else { near.saturating_sub(1) };
        let width = word.strip_prefix(['x', '×']).unwrap_or_default();
        let width = width.trim_end_matches('.').parse::<u32>().ok();
        // Further lanes contradict the first wherever they are.
        let counts = near > 0 || !lanes.is_empty();
        lanes.extend(width.filter(|it| [1, 2, 4, 8, 16].contains(it) && counts));
        before = word;
    }
    lanes.dedup();
    generations.dedup();
    match (&lanes[..], &generations[..]) {
        ([lanes], [] | [_]) => Some(SaidLink {
            lanes: Some(*lanes),
            speed: generations.first().map(|it| lane_rate(*it)),
        }),
        _ => None,
    }
}

/// The generation of `gen5`, `pcie5.0` or `pcie-gen5`.
fn generation(word: &str) -> Option<u32> {
    let rest = BUSES.iter().find_map(|it| word.strip_prefix(it))?;
    let rest = rest.trim_start_matches('-');
    whole(rest.strip_prefix("gen").unwrap_or(rest))
}

/// `5`, `5.0` or `gen5`.
fn whole(text: &str) -> Option<u32> {
    let text = text.strip_prefix("gen").unwrap_or(text);
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}
