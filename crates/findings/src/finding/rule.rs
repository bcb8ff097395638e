//! The rules and their ids. An id is never reused.

use serde::Serializer;

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

    /// The problem, in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Width => "PCIe link narrower than it could be",
            Self::Speed => "PCIe link slower than it could be",
            Self::Numa => "NUMA node unknown",
            Self::NvlinkMissing => "NVLinks missing or down",
            Self::NvlinkAsymmetric => "NVLinks asymmetric",
            Self::AccessControl => "ACS redirects peer-to-peer traffic",
            Self::Iommu => "IOMMU translates",
            Self::PortDown => "network port down",
            Self::PortSlow => "network port slower than its twins",
            Self::VirtualFunction => "virtual function and its parent both used",
            Self::DirectAccess => "GPUDirect RDMA impossible",
            Self::NoNearNic => "no NIC near a GPU",
            Self::NoDriver => "no NVIDIA driver",
            Self::NoAnswer => "the driver did not answer",
            Self::GpuWithoutDriver => "GPU without the NVIDIA driver",
            Self::Partitioned => "GPU partitioned (MIG)",
            Self::ImpossibleLink => "impossible link",
            Self::Dangling => "link to a device that is not there",
            Self::MissingAttribute => "required attribute missing",
            Self::Flat => "all devices flat below CPUs",
            Self::NoPeerAccess => "GPUs cannot reach each other",
            Self::Fabric => "NVLink fabric not ready",
            Self::Garbage => "unreadable value",
            Self::Incomplete => "devices without a gpu or net element",
            Self::ReadOtherwise => "read otherwise by NCCL",
            Self::NoNvlink => "no NVLinks in the file",
            Self::NarrowNic => "NIC behind a slower PCIe link",
            Self::NoGpu => "no GPU in the file",
            Self::TooLarge => "too large for NCCL_TOPO_FILE",
            Self::Merged => "ports merged into an unequal NIC",
        }
    }

    /// Advice to the user.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Width => {
                "reseat the card or its riser, then look for errors with `lspci -vv` and in the firmware's bifurcation"
            }
            Self::Speed => {
                "check the slot's speed in the firmware and the card's seat; retrain with `setpci` or reboot"
            }
            Self::Numa => {
                "update the firmware (ACPI _PXM); in a file move the devices below the <cpu> that they belong to; in a virtual machine give the guest its NUMA nodes, or write the file from the host's"
            }
            Self::NvlinkMissing => {
                "`nvidia-smi nvlink -s` and -e; reset the GPU, then have its bridge or baseboard checked"
            }
            Self::NvlinkAsymmetric => {
                "both GPUs must name the same number of links; probe again, or mend the file"
            }
            Self::AccessControl => {
                "switch ACS off in the firmware, or clear the bits: `setpci -s DEVICE ECAP_ACS+0x6.w=0000`"
            }
            Self::Iommu => "boot with `iommu=pt`, or switch the IOMMU off where no guest needs it",
            Self::PortDown => {
                "check cable, transceiver and switch port, or leave the port out with NCCL_IB_HCA"
            }
            Self::PortSlow => "check cable, transceiver and the switch port's speed",
            Self::VirtualFunction => "use either: leave one out with NCCL_IB_HCA",
            Self::DirectAccess => {
                "load nvidia_peermem, or use the open kernel modules on Linux 5.12 or newer (DMA-BUF)"
            }
            Self::NoNearNic => "check that the NIC is seated, visible in the container and up",
            Self::NoDriver => {
                "install or load the NVIDIA driver; in a container start it with the GPUs"
            }
            Self::NoAnswer => "look for Xid errors in `dmesg`; reset the GPU or reboot",
            Self::GpuWithoutDriver => {
                "bind it to the driver `nvidia`; look for Xid 79 (fallen off the bus) in `dmesg`"
            }
            Self::Partitioned => {
                "`nvidia-smi -mig 0` for jobs of several GPUs: parts of GPUs have neither NVLink nor peer access"
            }
            Self::ImpossibleLink => {
                "an emulated bridge: correct speed and width by hand, or write the file from the host's"
            }
            Self::Dangling => "correct the bus id, or remove the link",
            Self::MissingAttribute => {
                "add the attribute: NCCL fills it in only on the machine itself, and refuses the file anywhere else"
            }
            Self::Flat => "a virtual machine hides its switches: write the file from the host's",
            Self::NoPeerAccess => {
                "look at ACS and IOMMU, and for NVreg_ settings of the driver that switch peer access off"
            }
            Self::Fabric => {
                "start nvidia-fabricmanager of the driver's version (IMEX on racks), then look at its log"
            }
            Self::Garbage => "look at the file; a driver or a hypervisor wrote it",
            Self::Incomplete => {
                "say what they are where the machine is planned, or complete the file"
            }
            Self::ReadOtherwise => "write what is meant in NCCL's words",
            Self::NoNvlink => {
                "NCCL asks the driver for them on the machine; PCIe cards without bridges have none. Say what they are where the machine is planned, or complete the file"
            }
            Self::NarrowNic => {
                "move the card to a wider slot; if the hardware is right, correct link_speed and link_width in the file"
            }
            Self::NoGpu => {
                "NCCL adds the GPUs on the machine. A file that has their <pci> can be completed; write any other on the machine"
            }
            Self::TooLarge => {
                "a job refuses it, although it is planned here: leave out devices that no rank uses, as a probe does"
            }
            Self::Merged => {
                "look for a port that is down; choose ports with NCCL_IB_HCA, groups with NCCL_NET_FORCE_MERGE, or merge none with NCCL_NET_MERGE_LEVEL=LOC"
            }
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
