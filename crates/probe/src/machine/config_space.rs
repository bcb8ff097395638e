//! Access Control Services of a PCI Express port, from its config space.

use crate::JsonSchema;
use serde::Serialize;

use crate::privacy::extended_capability;

/// The extended capability of Access Control Services (PCI Express Base Specification, 7.7.11).
const CAPABILITY: u16 = 0x000d;

/// Offset of the control register in the capability.
const CONTROL: usize = 6;

/// P2P Request Redirect, P2P Completion Redirect and Upstream Forwarding.
const REDIRECT: [(u16, &str); 3] = [
    (1 << 2, "ReqRedir"),
    (1 << 3, "CmpltRedir"),
    (1 << 4, "UpstreamFwd"),
];

/// The Access Control Services of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccessControl {
    /// The control register.
    pub control: u16,
}

impl AccessControl {
    /// Reads a config space. Unprivileged processes see 64 bytes of it, without capabilities.
    pub fn read(config: &[u8]) -> Option<Self> {
        let at = extended_capability(config, CAPABILITY)? + CONTROL;
        let control = config.get(at..at + 2)?;
        Some(Self {
            control: u16::from_le_bytes(control.try_into().ok()?),
        })
    }

    /// Whether requests between devices are sent through the root complex.
    pub const fn redirects(self) -> bool {
        self.control & REDIRECT[0].0 != 0 || self.control & REDIRECT[1].0 != 0
    }

    /// The bits that are set, as `lspci` names them.
    pub fn names(self) -> String {
        let set = REDIRECT.iter().filter(|(bit, _)| self.control & bit != 0);
        set.map(|(_, name)| format!("{name}+"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_control_register() {
        let mut config = vec![0u8; 4096];
        config[0x100..0x104].copy_from_slice(&0x1481_0001u32.to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&0x0001_000du32.to_le_bytes());
        config[0x14e..0x150].copy_from_slice(&0x001du16.to_le_bytes());
        let control = AccessControl::read(&config).unwrap();
        assert!(control.redirects());
        assert_eq!(control.names(), "ReqRedir+ CmpltRedir+ UpstreamFwd+");
        assert_eq!(AccessControl::read(&config[..64]), None);
    }

    #[test]
    fn chains_that_go_round_end() {
        let mut config = vec![0u8; 4096];
        config[0x100..0x104].copy_from_slice(&0x1001_0001u32.to_le_bytes());
        assert_eq!(AccessControl::read(&config), None);
    }
}
