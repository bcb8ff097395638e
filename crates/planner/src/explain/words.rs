//! Numbers and NCCL's kinds of things in plain words.

use topology::{Cpu, CpuArch, CpuModel, CpuVendor};

/// Writes a bandwidth in GB/s with as many digits as matter.
pub fn gbps(bw: f32) -> String {
    let digits = match bw.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{bw:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Writes `1 channel`, `2 channels`.
pub fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// Describes a processor.
pub const fn processor(cpu: &Cpu) -> &'static str {
    match (cpu.arch, cpu.vendor, cpu.model) {
        (_, _, CpuModel::IntelBroadwell) => "Intel, Broadwell or older",
        (_, _, CpuModel::IntelSkylake) => "Intel, Skylake to Ice Lake",
        (_, _, CpuModel::IntelSapphireRapids) => "Intel Sapphire Rapids",
        (_, _, CpuModel::IntelEmeraldRapids) => "Intel Emerald Rapids or newer",
        (_, _, CpuModel::ZhaoxinYongfeng) => "Zhaoxin Yongfeng",
        (CpuArch::X86, CpuVendor::Intel, _) => "Intel",
        (CpuArch::X86, CpuVendor::Amd, _) => "AMD",
        (CpuArch::X86, CpuVendor::Zhaoxin, _) => "Zhaoxin",
        (CpuArch::X86, ..) => "x86-64",
        (CpuArch::Power, ..) => "POWER",
        (CpuArch::Arm, ..) => "Arm",
        (CpuArch::Unknown, ..) => "processor unknown to NCCL",
    }
}

/// Describes what a channel may do about NICs (NCCL's `crossNic`: 0, 1, 2).
pub const fn cross_nic(mode: i32) -> &'static str {
    match mode {
        0 => "in and out through the same NIC",
        1 => "any NIC in and out",
        _ => "NICs crossed in pairs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_the_digits_that_matter() {
        for (bw, text) in [
            (370.8, "371"),
            (48.0, "48"),
            (12.5, "12.5"),
            (0.1875, "0.19"),
            (0.0, "0"),
            (40.1, "40.1"),
            (100.0, "100"),
        ] {
            assert_eq!(gbps(bw), text);
        }
    }
}
