//! Settings of virtual network devices.

use plan::NcclVersion;
use topology::merge::options::Widths;
use topology::merge::{MergeLevel, MergeOptions};
use topology::xml::{Document, Tag};

use super::Settings;
use super::parse::Reader;

/// Which ports of a host are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeSettings {
    /// `NCCL_NET_MERGE_LEVEL`; `None`: PHB on Vera Rubin, PORT on others.
    pub level: Option<MergeLevel>,
    /// `NCCL_NET_MERGE_POLICY` is `RAIL`; `None`: on Vera Rubin.
    pub same_rail: Option<bool>,
    /// `NCCL_NET_FORCE_MERGE`.
    pub forced: Option<String>,
    /// `NCCL_IB_MERGE_NICS`.
    pub allowed: bool,
}

impl Default for MergeSettings {
    fn default() -> Self {
        Self {
            level: None,
            same_rail: None,
            forced: None,
            allowed: true,
        }
    }
}

impl Settings {
    /// Whether a host is Vera Rubin: an Arm host of a job whose oldest GPU is Rubin (2.32.3,
    /// source, binary).
    fn is_vera_rubin(&self, document: &Document, sm_min: i32) -> bool {
        let cpu = document.root.children(Tag::Cpu).next();
        let is_arm = cpu.and_then(|cpu| cpu.get("arch")) == Some("arm64");
        is_arm && self.rules.is_rubin(sm_min)
    }

    /// How a version of NCCL merges the ports of a host with these settings. `sm_min`: the job's
    /// lowest compute capability × 10.
    pub fn merge_options(&self, document: &Document, sm_min: i32) -> MergeOptions {
        let vera_rubin = self.is_vera_rubin(document, sm_min);
        let version = self.rules.version();
        let settings = &self.merge;
        MergeOptions {
            level: settings.level.unwrap_or(match vera_rubin {
                true => MergeLevel::Phb,
                false => MergeLevel::Port,
            }),
            same_rail: settings.same_rail.unwrap_or(vera_rubin),
            forced: settings.forced.clone(),
            allowed: settings.allowed,
            // Source: the net plug-in interface, which grew in 2.30.
            most: if version >= NcclVersion::V2_30 { 8 } else { 4 },
            widths: match version {
                NcclVersion::V2_27 => Widths::Kept,
                NcclVersion::V2_28 | NcclVersion::V2_29 => Widths::EveryLink,
                _ => Widths::Shared,
            },
            inserts_below_cpus: version >= NcclVersion::V2_28,
            names_rails: version >= NcclVersion::V2_30,
        }
    }
}

impl Reader {
    /// Applies a setting of virtual devices; `false` if it is another one.
    pub(super) fn merge(&mut self, settings: &mut MergeSettings, name: &str, value: &str) -> bool {
        match name {
            "NCCL_NET_MERGE_LEVEL" => {
                settings.level = Some(MergeLevel::read(value).unwrap_or_else(|| {
                    self.note(
                        name,
                        format!("`{value}` is no level (LOC PORT PIX PXB P2C PXN PHB SYS); NCCL takes LOC, so nothing is merged"),
                    );
                    MergeLevel::Loc
                }));
            }
            "NCCL_NET_MERGE_POLICY" => {
                let same_rail = value.eq_ignore_ascii_case("RAIL");
                settings.same_rail = Some(same_rail);
                if !same_rail && !value.eq_ignore_ascii_case("ALL") {
                    self.note(
                        name,
                        format!("`{value}` is neither ALL nor RAIL; NCCL takes ALL"),
                    );
                }
            }
            "NCCL_NET_FORCE_MERGE" => settings.forced = Some(value.to_owned()),
            "NCCL_IB_MERGE_NICS" => settings.allowed = self.number(name, value, 1) != 0,
            _ => return false,
        }
        true
    }
}
