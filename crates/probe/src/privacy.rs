//! Replaces identifiers of a machine in a recording.
//!
//! Host names and MAC addresses are never read. Device names that contain an address
//! (`enx5ec4e7000001`) are replaced. Guids, serial numbers and UUIDs become counters that preserve
//! equality, which is all that planning needs.

use std::collections::BTreeMap;

/// Offset of the extended capabilities in a PCI Express config space.
const EXTENDED: usize = 0x100;

/// The extended capability with a device's serial number.
const SERIAL_NUMBER: u16 = 0x0003;

/// Digits of a MAC address and of a guid in device names of systemd and rdma-core.
const ADDRESS_DIGITS: [usize; 2] = [12, 16];

/// Replaces identifiers.
#[derive(Debug, Default)]
pub struct Privacy {
    keep: bool,
    guids: BTreeMap<String, usize>,
    uuids: BTreeMap<String, usize>,
    /// Replaced device names.
    names: BTreeMap<String, String>,
}

impl Privacy {
    /// `keep` disables the replacement.
    pub fn new(keep: bool) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    /// The recorded content of a file.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>) -> Vec<u8> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            // One processor suffices.
            "cpuinfo" => first_block(bytes),
            "version" if path == "proc/driver/nvidia/version" => without_builder(bytes),
            _ if self.keep => bytes,
            "node_guid" | "sys_image_guid" => {
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                format!("{}\n", self.guid(&text)).into_bytes()
            }
            "config" => without_serial_number(bytes),
            _ => bytes,
        }
    }

    /// The recorded name of a file or a device.
    pub fn name(&mut self, name: &str) -> String {
        let Some(digits) = address_digits(name).filter(|_| !self.keep) else {
            return name.to_owned();
        };
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let next = self.names.len() + 1;
        let stem = &name[..name.len() - digits];
        let hidden = format!("{stem}{next:0digits$x}");
        self.names.insert(name.to_owned(), hidden.clone());
        hidden
    }

    /// The recorded form of a path.
    pub fn path(&mut self, path: &str) -> String {
        let parts: Vec<String> = path.split('/').map(|part| self.name(part)).collect();
        parts.join("/")
    }

    /// The real path of a recorded one.
    pub fn real_path(&self, path: &str) -> String {
        if self.names.is_empty() {
            return path.to_owned();
        }
        let real = |part| {
            let known = self.names.iter().find(|(_, hidden)| *hidden == part);
            known.map_or(part, |(name, _)| name.as_str())
        };
        path.split('/').map(real).collect::<Vec<_>>().join("/")
    }

    /// The recorded form of a name list such as `NCCL_SOCKET_IFNAME`.
    pub fn list(&mut self, text: &str) -> String {
        let separators = |c: char| matches!(c, ',' | '^' | '=' | ':');
        let mut hidden = String::new();
        for part in text.split_inclusive(separators) {
            let word = part.trim_end_matches(separators);
            hidden.push_str(&self.name(word));
            hidden.push_str(&part[word.len()..]);
        }
        hidden
    }

    /// The recorded form of a guid in sysfs notation.
    pub(crate) fn guid(&mut self, text: &str) -> String {
        if self.keep || text.chars().all(|c| matches!(c, '0' | ':')) {
            return text.to_owned();
        }
        let next = self.guids.len() + 1;
        let number = *self.guids.entry(text.to_owned()).or_insert(next);
        format!("0000:0000:{:04x}:{:04x}", number >> 16, number & 0xffff)
    }

    /// The recorded form of a UUID with a prefix such as `GPU-`.
    pub fn uuid(&mut self, text: &str) -> String {
        let (prefix, digits) = match text.split_once('-') {
            Some((prefix @ ("GPU" | "MIG"), digits)) => (format!("{prefix}-"), digits),
            _ => (String::new(), text),
        };
        if self.keep || digits.chars().all(|c| matches!(c, '0' | '-')) {
            return text.to_owned();
        }
        let next = self.uuids.len() + 1;
        let number = *self.uuids.entry(text.to_owned()).or_insert(next);
        format!("{prefix}{number:08x}-0000-0000-0000-000000000000")
    }
}

/// The number of address digits at the end of a name.
fn address_digits(name: &str) -> Option<usize> {
    let (stem, digits) = name.rsplit_once('x')?;
    let named_after_address = !stem.is_empty()
        && stem.bytes().all(|letter| letter.is_ascii_lowercase())
        && ADDRESS_DIGITS.contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    named_after_address.then_some(digits.len())
}

/// The text before the first empty line.
fn first_block(bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    match end {
        Some(end) => bytes[..=end].to_vec(),
        None => bytes,
    }
}

/// The driver's version without its builder.
fn without_builder(bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default();
    let line = line.split("Release Build").next().unwrap_or_default();
    let line = line.split('(').next().unwrap_or_default().trim_end();
    format!("{line}\n").into_bytes()
}

/// Zeroes the serial number in a config space.
fn without_serial_number(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(at) = extended_capability(&bytes, SERIAL_NUMBER) {
        let end = bytes.len().min(at + 12);
        if let Some(serial) = bytes.get_mut(at + 4..end) {
            serial.fill(0);
        }
    }
    bytes
}

/// Offset of an extended capability in a config space.
pub(crate) fn extended_capability(config: &[u8], wanted: u16) -> Option<usize> {
    let word = |at: usize| {
        let bytes = config.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut at = EXTENDED;
    // Each capability takes at least 8 bytes; a longer chain is a cycle.
    for _ in 0..(4096 - EXTENDED) / 8 {
        let header = word(at)?;
        if header == 0 || header == u32::MAX {
            return None;
        }
        if header as u16 == wanted {
            return Some(at);
        }
        at = (header >> 20) as usize & !3;
        if at < EXTENDED {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_stay_different() {
        let mut privacy = Privacy::new(false);
        let mut hidden = |text: &str| {
            let bytes = privacy.file("sys/class/infiniband/mlx5_0/sys_image_guid", text.into());
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(hidden("e8eb:d303:0055:ad78\n"), "0000:0000:0000:0001\n");
        assert_eq!(hidden("e8eb:d303:0055:ad7c\n"), "0000:0000:0000:0002\n");
        assert_eq!(hidden("e8eb:d303:0055:ad78\n"), "0000:0000:0000:0001\n");
        assert_eq!(hidden("0000:0000:0000:0000\n"), "0000:0000:0000:0000\n");
    }

    #[test]
    fn names_after_addresses_are_replaced() {
        let mut privacy = Privacy::new(false);
        let path = "sys/devices/pci0000:00/0000:02:00.0/net/enx5ec4e7000001";
        let hidden = privacy.path(path);
        assert_eq!(
            hidden,
            "sys/devices/pci0000:00/0000:02:00.0/net/enx000000000001"
        );
        assert_eq!(privacy.real_path(&hidden), path);
        assert_eq!(
            privacy.list("^=enx5ec4e7000001,eth0,rocexa088c20300ab0001:1"),
            "^=enx000000000001,eth0,rocex0000000000000002:1"
        );
        for kept in [
            "eth0",
            "mlx5_0",
            "enp1s0f0np0",
            "br-5ec4e7000001",
            "virtio2",
        ] {
            assert_eq!(privacy.name(kept), kept);
        }
        assert_eq!(Privacy::new(true).path(path), path);
    }

    #[test]
    fn serial_numbers_are_cleared() {
        let mut config = vec![0u8; 0x120];
        config[0x100..0x104].copy_from_slice(&0x1101_0001u32.to_le_bytes());
        config[0x110..0x114].copy_from_slice(&0x0001_0003u32.to_le_bytes());
        config[0x114..0x11c].fill(0xab);
        let hidden = Privacy::new(false).file("config", config.clone());
        assert!(hidden[0x114..0x11c].iter().all(|byte| *byte == 0));
        assert_eq!(hidden[..0x114], config[..0x114]);
        let kept = Privacy::new(true).file("config", config.clone());
        assert_eq!(kept, config);
    }

    #[test]
    fn builders_are_not_named() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (root@node17)\nGCC";
        let hidden = Privacy::new(true).file("proc/driver/nvidia/version", text.into());
        assert_eq!(
            String::from_utf8(hidden).unwrap(),
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07\n"
        );
    }
}
