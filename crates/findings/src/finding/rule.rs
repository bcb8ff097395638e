//! The rules and their ids. An id is never reused.

use crate::causes::Cause;
use crate::causes::table::{gpu, network, nvlink, pcie};
use serde::Serializer;
use topology::xml::Tag;

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A link has fewer lanes than possible.
    Width,
    /// A link is slower than possible.
    Speed,
    /// The NUMA node of a device is unknown.
    Numa,
    /// NVLinks are missing.
    NvlinkMissing,
    /// Two GPUs report different numbers of links between them.
    NvlinkAsymmetric,
    /// Access Control Services redirect traffic between devices through the root complex.
    AccessControl,
    /// The IOMMU translates.
    Iommu,
    /// A network port is down.
    PortDown,
    /// A network port is slower than others of its kind.
    PortSlow,
    /// A virtual function and its physical function are both used.
    VirtualFunction,
    /// Network adapters cannot access GPU memory.
    DirectAccess,
    /// A GPU has no NIC near it.
    NoNearNic,
    /// There is no driver.
    NoDriver,
    /// The driver did not answer.
    NoAnswer,
    /// A GPU has no driver.
    GpuWithoutDriver,
    /// A GPU is partitioned.
    Partitioned,
    /// A link has a bandwidth that no hardware has.
    ImpossibleLink,
    /// A link leads to no device.
    Dangling,
    /// A required attribute is missing.
    MissingAttribute,
    /// All devices are directly below CPUs.
    Flat,
    /// GPUs cannot access each other's memory.
    NoPeerAccess,
    /// The NVLink fabric is not ready.
    Fabric,
    /// A file of the kernel has an invalid value.
    Garbage,
    /// The file lacks devices that NCCL adds at run time.
    Incomplete,
    /// NCCL reads an attribute as something else.
    ReadOtherwise,
    /// No GPU of the file has NVLinks, though most machines with such GPUs do.
    NoNvlink,
    /// A NIC is faster than a PCI link that its data must take.
    NarrowNic,
    /// The file has no GPU.
    NoGpu,
    /// NCCL refuses the file for its size.
    TooLarge,
    /// NCCL merges ports into a NIC that is unlike the others.
    Merged,
}

impl Rule {
    /// All rules, in the order of their ids.
    pub const ALL: [Self; 30] = [
        Self::Width,
        Self::Speed,
        Self::Numa,
        Self::NvlinkMissing,
        Self::NvlinkAsymmetric,
        Self::AccessControl,
        Self::Iommu,
        Self::PortDown,
        Self::PortSlow,
        Self::VirtualFunction,
        Self::DirectAccess,
        Self::NoNearNic,
        Self::NoDriver,
        Self::NoAnswer,
        Self::GpuWithoutDriver,
        Self::Partitioned,
        Self::ImpossibleLink,
        Self::Dangling,
        Self::MissingAttribute,
        Self::Flat,
        Self::NoPeerAccess,
        Self::Fabric,
        Self::Garbage,
        Self::Incomplete,
        Self::ReadOtherwise,
        Self::NoNvlink,
        Self::NarrowNic,
        Self::NoGpu,
        Self::TooLarge,
        Self::Merged,
    ];

    /// The id: `T001` and so on.
    pub fn id(self) -> String {
        format!("T{:03}", self as usize + 1)
    }

    const fn words(self) -> Words {
        match self {
            Self::Width => Words::Of(&pcie::LINK_NARROW),
            Self::Speed => Words::Of(&pcie::LINK_SLOW),
            Self::Numa => Words::Of(&pcie::NUMA_UNKNOWN),
            Self::NvlinkMissing => Words::Of(&nvlink::LINKS_MISSING),
            Self::AccessControl => Words::Of(&pcie::ACS_REDIRECT),
            Self::Iommu => Words::Of(&pcie::IOMMU_TRANSLATES),
            Self::PortDown => Words::Of(&network::PORT_DOWN),
            Self::PortSlow => Words::Of(&network::PORT_SLOW),
            Self::VirtualFunction => Words::Of(&network::VIRTUAL_FUNCTION),
            Self::DirectAccess => Words::Of(&network::GDR_NO_MODULE),
            Self::NoNearNic => Words::Of(&network::NO_NEAR_NIC),
            Self::Partitioned => Words::Of(&gpu::MIG),
            Self::ImpossibleLink => Words::Of(&pcie::EMULATED_LINK),
            Self::Flat => Words::Of(&pcie::FLAT_GUEST),
            Self::NoPeerAccess => Words::Of(&pcie::NO_PEER_ACCESS),
            Self::Fabric => Words::Of(&nvlink::FABRIC_NOT_READY),
            Self::NarrowNic => Words::Of(&network::NARROW_NIC),
            Self::TooLarge => Words::Of(&pcie::FILE_TOO_LARGE),
            Self::Merged => Words::Of(&network::PORTS_MERGED),
            Self::NvlinkAsymmetric => Words::Own(
                "NVLinks asymmetric",
                "both GPUs must name the same number of links; probe again, or mend the file",
            ),
            Self::NoDriver => Words::Own(
                "no NVIDIA driver",
                "install or load the NVIDIA driver; in a container start it with the GPUs",
            ),
            Self::NoAnswer => Words::Own(
                "the driver did not answer",
                "look for Xid errors in `dmesg`; reset the GPU or reboot",
            ),
            Self::GpuWithoutDriver => Words::Own(
                "GPU without the NVIDIA driver",
                "bind it to the driver `nvidia`; look for Xid 79 (fallen off the bus) in `dmesg`",
            ),
            Self::Dangling => Words::Own(
                "link to a device that is not there",
                "correct the bus id, or remove the link",
            ),
            Self::MissingAttribute => Words::Own(
                "required attribute missing",
                "add the attribute: NCCL fills it in only on the machine itself, and refuses the file anywhere else",
            ),
            Self::Garbage => Words::Own(
                "unreadable value",
                "look at the file; a driver or a hypervisor wrote it",
            ),
            Self::Incomplete => Words::Own(
                "devices without a gpu or net element",
                "say what they are where the machine is planned, or complete the file",
            ),
            Self::ReadOtherwise => Words::Own(
                "read otherwise by NCCL",
                "write what is meant in NCCL's words",
            ),
            Self::NoNvlink => Words::Own(
                "no NVLinks in the file",
                "NCCL asks the driver for them on the machine; PCIe cards without bridges have none. Say what they are where the machine is planned, or complete the file",
            ),
            Self::NoGpu => Words::Own(
                "no GPU in the file",
                "NCCL adds the GPUs on the machine. A file that has their <pci> can be completed; write any other on the machine",
            ),
        }
    }

    /// The cause of the common table, if it has this one.
    pub const fn cause(self) -> Option<&'static Cause> {
        match self.words() {
            Words::Of(cause) => Some(cause),
            Words::Own(..) => None,
        }
    }

    /// The problem, in a few words.
    pub const fn title(self) -> &'static str {
        match self.words() {
            Words::Of(cause) => cause.title,
            Words::Own(title, _) => title,
        }
    }

    /// Advice to the user.
    pub const fn advice(self) -> &'static str {
        match self.words() {
            Words::Of(cause) => cause.advice,
            Words::Own(_, advice) => advice,
        }
    }

    /// What it looks at.
    pub const fn subject(self) -> &'static str {
        match self {
            Self::Width => "lanes of PCIe links",
            Self::Speed => "speeds of PCIe links",
            Self::Numa => "NUMA nodes",
            Self::NvlinkMissing => "numbers of NVLinks",
            Self::NvlinkAsymmetric => "both ends of NVLinks",
            Self::AccessControl => "ACS of ports above GPUs and NICs",
            Self::Iommu => "the IOMMU",
            Self::PortDown => "states of network ports",
            Self::PortSlow => "speeds of network ports",
            Self::VirtualFunction => "virtual functions and their parents",
            Self::DirectAccess => "GPUDirect RDMA",
            Self::NoNearNic => "NICs near GPUs",
            Self::NoDriver => "the driver's library",
            Self::NoAnswer => "answers of the driver",
            Self::GpuWithoutDriver => "drivers of GPUs",
            Self::Partitioned => "MIG",
            Self::ImpossibleLink => "bandwidths of links",
            Self::Dangling => "ends of links",
            Self::MissingAttribute => "required attributes",
            Self::Flat => "PCIe switches",
            Self::NoPeerAccess => "peer access of GPUs",
            Self::Fabric => "the NVLink fabric",
            Self::Garbage => "files of the kernel",
            Self::Incomplete => "elements of devices",
            Self::ReadOtherwise => "values of attributes",
            Self::NoNvlink => "NVLinks of GPUs",
            Self::NarrowNic => "PCIe links above NICs",
            Self::NoGpu => "GPUs",
            Self::TooLarge => "the size of the file",
            Self::Merged => "merged ports",
        }
    }

    /// Whether a topology file tells it, and who tells it of a machine.
    pub const fn told(self) -> (bool, Option<Teller>) {
        match self {
            Self::AccessControl | Self::Iommu | Self::PortDown | Self::NoNearNic => {
                (false, Some(Teller::Kernel))
            }
            Self::NoDriver | Self::NoAnswer | Self::Garbage => (false, Some(Teller::Kernel)),
            Self::GpuWithoutDriver | Self::Partitioned | Self::NoPeerAccess | Self::Fabric => {
                (false, Some(Teller::Driver))
            }
            Self::Speed | Self::NvlinkMissing | Self::NvlinkAsymmetric => {
                (true, Some(Teller::Driver))
            }
            Self::Dangling | Self::MissingAttribute | Self::Incomplete => (true, None),
            Self::NoNvlink | Self::NoGpu | Self::TooLarge => (true, None),
            _ => (true, Some(Teller::Kernel)),
        }
    }

    /// The element without which there is nothing to look at, and how that is said; none if it
    /// looks at any machine.
    pub const fn subject_elements(self) -> Option<(Tag, &'static str)> {
        match self {
            Self::PortDown
            | Self::PortSlow
            | Self::VirtualFunction
            | Self::DirectAccess
            | Self::NoNearNic
            | Self::NarrowNic
            | Self::Merged => Some((Tag::Net, "there are no network ports")),
            Self::NvlinkMissing | Self::NvlinkAsymmetric | Self::Fabric => {
                Some((Tag::Nvlink, "there are no NVLinks"))
            }
            Self::Partitioned | Self::NoPeerAccess => Some((Tag::Gpu, "there are no GPUs")),
            _ => None,
        }
    }

    /// Whether it only says that the machine could not be asked.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::NoDriver | Self::NoAnswer | Self::Garbage)
    }

    /// What excludes it, and what proves it.
    pub const fn evidence(self) -> (&'static str, &'static str) {
        match self.cause() {
            Some(cause) => (cause.excluded, cause.proof),
            None => ("no finding", "topo doctor"),
        }
    }

    /// How a file without the fault is written, if a program can do it.
    pub const fn remedy(self) -> Option<Remedy> {
        match self {
            Self::Numa | Self::ImpossibleLink | Self::Flat => Some(Remedy::Guest),
            Self::Incomplete | Self::NoNvlink => Some(Remedy::Complete),
            Self::NoGpu | Self::TooLarge => Some(Remedy::Probe),
            _ => None,
        }
    }
}

/// Who tells of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// `/sys` and `/proc`.
    Kernel,
    /// NVIDIA's driver.
    Driver,
}

/// A way to a file without a fault. Each program has its own words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The file is written on the machine.
    Probe,
    /// The parts that NCCL adds on the machine are filled in.
    Complete,
    /// A guest's file is written from its host's.
    Guest,
}

/// Title and advice of a rule.
enum Words {
    /// Those of a cause that other commands name, too.
    Of(&'static Cause),
    /// Its own.
    Own(&'static str, &'static str),
}

/// Serializes a rule as its id.
pub(super) fn serialize_id<S: Serializer>(rule: &Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rule.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_order() {
        for (number, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule.id(), format!("T{:03}", number + 1));
        }
    }
}
