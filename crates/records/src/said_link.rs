//! PCI links in prose.

/// A PCI link of which a text says something.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SaidLink {
    /// Its lanes.
    pub lanes: Option<u32>,
    /// Rate of a lane, GT/s.
    pub speed: Option<f32>,
}

/// A link such as `PCIe Gen5 x8`, `PCIe 4.0 x16` or `gen4 @ x8`. Idle GPUs run at the first
/// generations, so those say nothing.
pub(crate) fn link(line: &str) -> Option<SaidLink> {
    let lower = line.to_lowercase();
    if !["pcie", "pci-e", "gen"].iter().any(|it| lower.contains(it)) {
        return None;
    }
    let mut found = SaidLink::default();
    let mut before = "";
    let mut is_near = 0;
    for word in lower.split(|it: char| it.is_whitespace() || ",;()|@`*/".contains(it)) {
        if word.is_empty() {
            continue;
        }
        let is_pci = ["pcie", "pci-e", "gen"]
            .iter()
            .find_map(|it| word.strip_prefix(it));
        let number = is_pci.filter(|it| !it.is_empty()).or_else(|| {
            let follows = ["pcie", "pci-e", "gen"].contains(&before);
            follows.then_some(word)
        });
        let generation = number.and_then(|it| it.trim_start_matches("gen").split('.').next());
        let speed = match generation {
            Some("3") => Some(8.0),
            Some("4") => Some(16.0),
            Some("5") => Some(32.0),
            Some("6") => Some(64.0),
            _ => None,
        };
        is_near = if is_pci.is_some() { 4 } else { is_near - 1 };
        found.speed = found.speed.or(speed);
        let lanes = word.strip_prefix(['x', '×']).and_then(|it| it.parse().ok());
        let lanes = lanes.filter(|it| [1, 2, 4, 8, 16].contains(it) && is_near > 0);
        found.lanes = found.lanes.or(lanes);
        before = word;
    }
    found.lanes.map(|_| found)
}
