//! PCIe, NUMA and virtual machines.

use crate::causes::cause::{logged, proves, suggests};

causes! { Pcie;
    NO_PEER_ACCESS {
        id: "no-peer-access",
        title: "GPUs cannot reach each other",
        means: "the GPUs cannot access each other's memory",
        advice: "look at ACS and IOMMU, and for NVreg_ settings of the driver that switch peer access off",
        versions: "all",
        signs: &[proves(&["peer access is not supported"])],
        proof: "the line, or `nvidia-smi topo -p2p r` says not OK",
        excluded: "OK in `-p2p r`",
        sources: &["CUDA runtime API, cudaErrorPeerAccessUnsupported"],
    }
    ACS_REDIRECT {
        id: "acs-redirect",
        title: "ACS redirects peer-to-peer traffic",
        means: "switches send what GPUs and NICs write to each other up to the host bridge: it is slow, or hangs",
        advice: "switch ACS off in the firmware, or clear the bits: `setpci -s DEVICE ECAP_ACS+0x6.w=0000`",
        versions: "all",
        signs: &[],
        proof: "`lspci -vvv`: ACSCtl with ReqRedir+ or CmpltRedir+ on a port above a GPU or NIC",
        excluded: "ReqRedir- and CmpltRedir- on all those ports",
        sources: &["NVIDIA/nccl #2409", "NVIDIA/nccl #2079", "NCCL user guide, troubleshooting"],
    }
    IOMMU_TRANSLATES {
        id: "iommu",
        title: "IOMMU translates",
        means: "transfers between devices go through the translation of the IOMMU: slow, or wrong data",
        advice: "boot with `iommu=pt`, or switch the IOMMU off where no guest needs it",
        versions: "all",
        signs: &[
            proves(&["Default domain type: Translated"]),
            suggests(&["AMD-Vi", "IO_PAGE_FAULT"]),
            suggests(&["DMAR", "fault addr"]),
        ],
        proof: "`dmesg`: Default domain type: Translated; `cat /proc/cmdline` without iommu=pt",
        excluded: "Default domain type: Passthrough",
        sources: &["NVIDIA/nccl #2409", "NVIDIA/nccl #257", "NVIDIA/nccl #606"],
    }
    P2P_HANGS {
        id: "p2p-hangs",
        title: "peer-to-peer through the host bridge does not work",
        means: "GPUs without a common switch write to each other through the CPU, and this machine loses the writes",
        advice: "NCCL_P2P_DISABLE=1 proves it; then ACS and IOMMU off, or NCCL_P2P_LEVEL=PXB; on some boards the driver's uvm_disable_hmm=1 helps",
        versions: "all",
        signs: &[],
        proof: "the first collective hangs, and runs with NCCL_P2P_DISABLE=1",
        excluded: "p2pBandwidthLatencyTest passes with P2P and right data",
        sources: &["rtx6kpro #15", "vllm-project/vllm #8058", "NVIDIA/nccl #667"],
    }
    LINK_NARROW {
        id: "link-narrow",
        title: "PCIe link narrower than it could be",
        means: "a slot, riser or bifurcation gives the card fewer lanes",
        advice: "reseat the card or its riser, then look for errors with `lspci -vv` and in the firmware's bifurcation",
        versions: "all",
        signs: &[],
        proof: "`lspci -vv`: LnkSta Width below LnkCap Width",
        excluded: "equal widths",
        sources: &["NVIDIA/nccl #428"],
    }
    LINK_SLOW {
        id: "link-slow",
        title: "PCIe link slower than it could be",
        means: "a link trained at a lower speed (GPUs that idle lower theirs, too)",
        advice: "check the slot's speed in the firmware and the card's seat; retrain with `setpci` or reboot",
        versions: "all",
        signs: &[],
        proof: "`lspci -vv` under load: LnkSta Speed below LnkCap Speed",
        excluded: "full speed under load",
        sources: &["NVIDIA/nccl #814"],
    }
    AER {
        id: "aer",
        title: "errors on a PCIe link",
        means: "the kernel corrects or reports errors of a link: retries cost bandwidth, fatal errors end devices",
        advice: "find the device by its bus id; reseat it, its riser or cable; lower the link's speed to see if errors stop",
        versions: "all",
        signs: &[
            suggests(&["PCIe Bus Error", "severity=Uncorrected"]),
            suggests(&["PCIe Bus Error", "severity=Uncorrectable"]),
            suggests(&["AER: Corrected error"]),
            suggests(&["PCIe Bus Error", "severity=Corrected"]),
        ],
        proof: "the kernel's lines with one device",
        excluded: "no such lines on any host",
        sources: &["Linux kernel, PCI/aer"],
    }
    NUMA_UNKNOWN {
        id: "numa-unknown",
        title: "NUMA node unknown",
        means: "the system does not say near which CPU a device is, so NCCL guesses paths and cores",
        advice: "update the firmware (ACPI _PXM); in a file move the devices below the <cpu> that they belong to; in a virtual machine give the guest its NUMA nodes, or write the file from the host's",
        versions: "all",
        signs: &[],
        proof: "`cat /sys/bus/pci/devices/ID/numa_node` is -1",
        excluded: "a number of a node",
        sources: &["NVIDIA/nccl #1674", "aws/aws-ofi-nccl #873"],
    }
    EMULATED_LINK {
        id: "emulated-link",
        title: "impossible link",
        means: "an emulated bridge says 2.5 GT/s and one lane, so NCCL believes that its NIC is 0.2 GB/s away",
        advice: "an emulated bridge: correct speed and width by hand, or write the file from the host's",
        versions: "all",
        signs: &[logged(&["PCI[0.2]"])],
        proof: "the log's system: PCI[0.2]",
        excluded: "no link of 0.2 GB/s",
        sources: &["NVIDIA/nccl-tests #256"],
    }
    FLAT_GUEST {
        id: "flat-guest",
        title: "all devices flat below CPUs",
        means: "the guest hides the switches, so GPUs and NICs that share one look far apart",
        advice: "a virtual machine hides its switches: write the file from the host's",
        versions: "all",
        signs: &[],
        proof: "`nvidia-smi topo -m` in the guest: PHB everywhere; on the host PIX",
        excluded: "PIX in the guest",
        sources: &["NVIDIA/nccl #1464", "NVIDIA/nccl #1843", "NVIDIA/nccl #1303"],
    }
    SPLIT_SWITCH {
        id: "split-switch",
        title: "one switch chip shows as several",
        means: "a switch is split into virtual ones: devices on one chip look far apart, and share its uplink",
        advice: "look at the chip's serial in `lspci -vv`; correct the topology file so that they share a switch",
        versions: "all",
        signs: &[],
        proof: "`lspci -vv`: upstream ports with one serial number",
        excluded: "different serial numbers",
        sources: &["rtx6kpro, broadcom switches", "NVIDIA/nccl #820"],
    }
    FILE_TOO_LARGE {
        id: "file-too-large",
        title: "too large for NCCL_TOPO_FILE",
        means: "NCCL refuses a topology file of more nodes than it holds",
        advice: "a job refuses it, although it is planned here: leave out devices that no rank uses, as a probe does",
        versions: "all; the limit differs",
        signs: &[],
        proof: "the number of nodes in the file",
        excluded: "fewer nodes than the limit",
        sources: &["NVIDIA/nccl #2160"],
    }
}
