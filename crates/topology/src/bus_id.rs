//! PCI bus ids as NCCL packs them.

use std::fmt;

/// A PCI bus id: the digits of `dddd:bb:dd.f` as one number (`0000:1b:00.0` is `0x1b000`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BusId(pub u64);

impl BusId {
    /// Parses a bus id as NCCL does: skips `:` and `.`, stops at the first other character that is
    /// no hexadecimal digit. Never fails; text without digits is bus id 0.
    pub fn parse(text: &str) -> Self {
        let mut value = 0u64;
        for character in text.bytes() {
            match character {
                b':' | b'.' => {}
                _ => match (character as char).to_digit(16) {
                    Some(digit) => value = (value << 4) | u64::from(digit),
                    None => break,
                },
            }
        }
        Self(value)
    }

    /// Whether the text has the form of sysfs and NVML, `dddd:bb:dd.f`, maybe with a longer domain.
    pub fn is_well_formed(text: &str) -> bool {
        let Some((domain, rest)) = text.split_once(':') else {
            return false;
        };
        let Some((bus, rest)) = rest.split_once(':') else {
            return false;
        };
        let Some((device, function)) = rest.split_once('.') else {
            return false;
        };
        let hexadecimal =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        (4..=8).contains(&domain.len())
            && hexadecimal(domain)
            && bus.len() == 2
            && hexadecimal(bus)
            && device.len() == 2
            && hexadecimal(device)
            && function.len() == 1
            && hexadecimal(function)
    }
}

impl fmt::Display for BusId {
    /// Writes `dddd:bb:dd.f`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            id >> 20,
            (id >> 12) & 0xff,
            (id >> 4) & 0xff,
            id & 0xf
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_hexadecimal_digits() {
        for (text, value) in [
            ("0000:1b:00.0", 0x1b000),
            ("0001:00:00.1", 0x10_0001),
            ("fffffff:ffff:ff", 0xf_ffff_ffff_ffff),
            ("", 0),
            ("0000:5 ", 5),
        ] {
            assert_eq!(BusId::parse(text).0, value, "{text}");
        }
    }

    #[test]
    fn display_reads_back() {
        for text in ["0000:1b:00.0", "0001:0a:1f.7", "ffff:ff:01.0"] {
            assert_eq!(BusId::parse(text).to_string(), text);
            assert!(BusId::is_well_formed(text));
        }
        assert!(!BusId::is_well_formed("1b:00.0"));
        assert!(!BusId::is_well_formed("0000:1b:00"));
    }
}
