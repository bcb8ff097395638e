//! The bandwidths NCCL assumes (GB/s), from its topology constants.

use crate::node::{CpuArch, CpuModel, CpuVendor, NodeType};

/// Inside a device, and between a CPU and a NIC without a PCI function of its own.
pub const LOCAL: f32 = 5000.0;

/// The kernel's texts of PCI Express generations, from the first.
pub const GENERATIONS: [&str; 6] = [
    "2.5 GT/s PCIe",
    "5.0 GT/s PCIe",
    "8.0 GT/s PCIe",
    "16.0 GT/s PCIe",
    "32.0 GT/s PCIe",
    "64.0 GT/s PCIe",
];

/// Between the two partitions of one GPU.
pub const PARTITION_SIBLING: f32 = 2618.0;

/// Whether a compute capability × 10 is of Rubin or later, as NCCL 2.32 tells (source, binary).
pub const fn is_rubin(sm: i32) -> bool {
    sm >= 107 && !matches!(sm, 110 | 120 | 121)
}

/// Bandwidth of one NVLink of a GPU with this compute capability × 10, GB/s. `knows_rubin`: Rubin
/// has links of its own (NCCL 2.32 and newer); otherwise it has Blackwell's.
pub const fn nvlink(sm: i32, knows_rubin: bool) -> f32 {
    match sm {
        _ if knows_rubin && is_rubin(sm) => 31.2,
        100.. => 40.1,
        90.. => 20.6,
        86 => 12.0,
        70.. => 20.0,
        60.. => 18.0,
        _ => 20.0,
    }
}

/// Between two CPUs of this kind.
pub const fn between_cpus(arch: CpuArch, vendor: CpuVendor, model: CpuModel) -> f32 {
    match (arch, vendor) {
        (CpuArch::Power, _) => 32.0,
        (CpuArch::Arm, _) => 6.0,
        (CpuArch::X86, CpuVendor::Intel) => match model {
            CpuModel::IntelEmeraldRapids => 40.0,
            CpuModel::IntelSapphireRapids => 22.0,
            CpuModel::IntelSkylake => 10.0,
            _ => 6.0,
        },
        (CpuArch::X86, CpuVendor::Amd) => match model {
            CpuModel::AmdTurin => 32.0,
            CpuModel::AmdMilan => 24.0,
            _ => 16.0,
        },
        (CpuArch::X86, CpuVendor::Zhaoxin) => match model {
            CpuModel::ZhaoxinYongfeng => 9.0,
            _ => 6.0,
        },
        _ => LOCAL,
    }
}

/// NCCL's rate per lane for each `link_speed`, in hundreds of MB/s × 8/10, in matching order.
const LINK_SPEEDS: [(&str, i32); 12] = [
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("2.5 GT/s PCIe", 15),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
    ("", 60),
];

/// Whether NCCL knows this `link_speed`; others count as 8 GT/s.
pub fn is_known_link_speed(text: &str) -> bool {
    LINK_SPEEDS[..11]
        .iter()
        .any(|(prefix, _)| text.starts_with(prefix))
}

/// A PCI Express link, from the texts of `link_speed` and the number of lanes (0 counts as 16).
pub fn pci(link_speed: &str, link_width: i32) -> f32 {
    let rate = LINK_SPEEDS
        .iter()
        .find(|(prefix, _)| link_speed.starts_with(prefix))
        .map_or(60, |(_, rate)| *rate);
    let width = if link_width == 0 { 16 } else { link_width };
    (f64::from(width.wrapping_mul(rate)) / 80.0) as f32
}

/// The PCI classes with what NCCL makes of them, in matching order.
const PCI_CLASSES: [(&str, NodeType); 6] = [
    ("0x060400", NodeType::Pci),
    ("0x080100", NodeType::Pci),
    ("0x068000", NodeType::Nvs),
    ("0x068001", NodeType::Cpu),
    ("0x03", NodeType::Gpu),
    ("0x02", NodeType::Nic),
];

/// The node type of a PCI class in NCCL; unknown classes are PCI switches.
pub fn class_kind(class: &str) -> NodeType {
    PCI_CLASSES
        .iter()
        .find(|(prefix, _)| class.starts_with(prefix))
        .map_or(NodeType::Pci, |(_, kind)| *kind)
}

/// Whether NCCL knows a PCI class.
pub fn is_known_class(class: &str) -> bool {
    PCI_CLASSES
        .iter()
        .any(|(prefix, _)| class.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_bandwidths() {
        for (speed, width, bw) in [
            ("8.0 GT/s PCIe", 16, 12.0),
            ("16.0 GT/s PCIe", 16, 24.0),
            ("32.0 GT/s PCIe", 0, 48.0),
            ("64.0 GT/s PCIe", 16, 96.0),
            ("8 GT/s", 1, 0.75),
            ("2.5 GT/s PCIe", 1, 0.1875),
            ("16.0 GT/s", 16, 12.0),
            ("64 GT/s", 16, 12.0),
            ("", 16, 12.0),
        ] {
            assert_eq!(pci(speed, width), bw, "{speed} x{width}");
        }
    }

    #[test]
    fn classes() {
        assert_eq!(class_kind("0x068001"), NodeType::Cpu);
        assert_eq!(class_kind("0x030200"), NodeType::Gpu);
        assert_eq!(class_kind("0x020700"), NodeType::Nic);
        assert_eq!(class_kind("nonsense"), NodeType::Pci);
    }
}
