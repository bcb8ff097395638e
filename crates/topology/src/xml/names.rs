//! The names that NCCL knows, and the allowed children of elements.

use std::borrow::Cow;

use super::Tag;
use crate::node::NO_P2P;

/// The version of AMD's files, in which a GPU may hold `<xgmi>`.
pub(super) const RCCL_VERSION: i32 = 2;

/// The child element that `name` means inside `parent`; `None` when NCCL skips it there.
pub(super) fn child(parent: Tag, name: &str, version: i32) -> Option<Tag> {
    match (parent, name) {
        (Tag::System, "cpu") => Some(Tag::Cpu),
        (Tag::Cpu | Tag::Pci, "pci") => Some(Tag::Pci),
        (Tag::Cpu | Tag::Pci, "nic") => Some(Tag::Nic),
        (Tag::Pci, "gpu") => Some(Tag::Gpu),
        (Tag::Pci, "pcilink") => Some(Tag::Pcilink),
        (Tag::Gpu, "nvlink") => Some(Tag::Nvlink),
        (Tag::Gpu, "c2c") => Some(Tag::C2c),
        (Tag::Gpu, "xgmi") if version == RCCL_VERSION => Some(Tag::Xgmi),
        (Tag::Nic, "net") => Some(Tag::Net),
        _ => None,
    }
}

/// Whether NCCL reads children of this element.
pub(super) const fn holds_children(tag: Tag) -> bool {
    matches!(tag, Tag::System | Tag::Cpu | Tag::Pci | Tag::Gpu | Tag::Nic)
}

/// Whether NCCL (for `gcn` and `arch` of a GPU, RCCL) reads this attribute.
pub(super) fn reads(tag: Tag, name: &str) -> bool {
    if name == "keep" {
        return true;
    }
    match tag {
        Tag::System => matches!(name, "version" | "name"),
        Tag::Cpu => {
            matches!(
                name,
                "numaid" | "affinity" | "arch" | "vendor" | "familyid" | "modelid" | "host_hash"
            )
        }
        Tag::Pci => matches!(
            name,
            "busid"
                | "class"
                | "vendor"
                | "device"
                | "subsystem_vendor"
                | "subsystem_device"
                | "link_speed"
                | "link_width"
        ),
        Tag::Gpu => matches!(
            name,
            "dev" | "sm" | "rank" | "gdr" | "mlopart" | "gcn" | "arch" | NO_P2P
        ),
        Tag::Nvlink | Tag::Xgmi => matches!(name, "target" | "count" | "tclass"),
        Tag::C2c => matches!(name, "bw" | "count"),
        Tag::Nic => false,
        Tag::Net => matches!(
            name,
            "name"
                | "dev"
                | "latency"
                | "speed"
                | "port"
                | "guid"
                | "maxconn"
                | "gdr"
                | "coll"
                | "net"
                | "gin"
                | "rma"
                | "rail"
                | "plane"
        ),
        Tag::Pcilink => name == "target",
    }
}

/// Whether NCCL reads this attribute as an integer.
pub(super) fn is_integer(tag: Tag, name: &str) -> bool {
    match tag {
        // AMD's names of architectures are not all numbers.
        Tag::Gpu => !matches!(name, "gcn" | "arch" | NO_P2P),
        Tag::Net => !matches!(name, "name" | "latency" | "guid"),
        _ => matches!(
            name,
            "version" | "numaid" | "familyid" | "modelid" | "link_width" | "count" | "bw" | "keep"
        ),
    }
}

/// Whether NCCL reads this attribute as a hexadecimal number.
pub(super) fn is_hexadecimal(tag: Tag, name: &str) -> bool {
    match tag {
        Tag::Cpu => name == "host_hash",
        Tag::Pci => {
            matches!(
                name,
                "vendor" | "device" | "subsystem_vendor" | "subsystem_device"
            )
        }
        Tag::Net => name == "guid",
        _ => false,
    }
}

/// An attribute's name, without an allocation when it is a known one.
pub(super) fn attribute(name: &str) -> Cow<'static, str> {
    macro_rules! known {
        ($($known:literal)*) => {
            match name {
                $($known => Cow::Borrowed($known),)*
                _ => Cow::Owned(name.to_owned()),
            }
        };
    }
    known! {
        "busid" "class" "vendor" "device" "subsystem_vendor" "subsystem_device" "link_speed" "link_width"
        "name" "dev" "latency" "speed" "port" "guid" "maxconn" "gdr" "coll" "net" "gin" "rma" "rail" "plane"
        "target" "count" "tclass" "sm" "rank" "mlopart" "bw" "gcn" "arch"
        "numaid" "affinity" "familyid" "modelid" "host_hash" "version" "keep"
    }
}
