//! NICs, ports and the network.

use crate::causes::Certainty::{Likely, Proved};
use crate::causes::cause::{nccl, proves, suggests};

causes! { Network;
    SHARP_REFUSED {
        id: "sharp-refused",
        title: "the SHARP service refused the job",
        means: "the SHARP service refused the job, so the network does not reduce",
        advice: "check the SHARP aggregation manager, or set NCCL_COLLNET_ENABLE=0 to stop trying",
        versions: "all",
        signs: &[nccl(&["SHARP coll init error"], Proved)],
        proof: "the line",
        excluded: "NCCL_COLLNET_ENABLE=0",
        sources: &["Mellanox/nccl-rdma-sharp-plugins"],
    }
    LOCKED_MEMORY {
        id: "locked-memory",
        title: "memory cannot be registered with the NIC",
        means: "memory could not be registered with the NIC: mostly the limit of locked memory",
        advice: "raise `ulimit -l`; for GPU memory load nvidia-peermem or use a kernel with DMA-BUF",
        versions: "all",
        proof: "the line, and a small `ulimit -l` in the job",
        excluded: "`ulimit -l` is unlimited",
        sources: &["NCCL user guide, troubleshooting"],
    }
    NO_QUEUE_PAIR {
        id: "no-queue-pair",
        title: "the NIC gives no queue pair",
        means: "the NIC gave no queue pair: limits of locked memory or of the device",
        advice: "raise `ulimit -l`; check other jobs on the host",
        versions: "all",
        proof: "the line, and `ulimit -l` or the device's count of queue pairs",
        excluded: "`ibv_rc_pingpong` runs in the same container",
        sources: &["NCCL user guide, troubleshooting"],
    }
    PORT_UNREACHABLE {
        id: "port-unreachable",
        title: "a NIC cannot reach the peer's port",
        means: "the NIC could not reach the peer's port: wrong GID, VLAN, subnet or a port that is down",
        advice: "check NCCL_IB_GID_INDEX, NCCL_IB_HCA and that the ports of both hosts reach each other",
        versions: "all",
        proof: "the line, and `ibv_rc_pingpong -g GID` fails between the two ports",
        excluded: "`ibv_rc_pingpong` with the same GID works",
        sources: &["NCCL user guide, NCCL_IB_GID_INDEX"],
    }
    PARTITION_CHANGED {
        id: "partition-changed",
        title: "the partition key of a port changed",
        means: "the partition key of a port changed while the job ran",
        advice: "ask who changed the subnet manager's partitions; restart the job",
        versions: "all",
        proof: "the line",
        excluded: "no such event",
        sources: &["NCCL user guide, troubleshooting"],
    }
    PORT_EVENT {
        id: "port-event",
        title: "a port or its device changed state",
        means: "a port or its device changed state",
        advice: "check the link's counters and the switch; NCCL retries for a while",
        versions: "all",
        proof: "the line with the port's name",
        excluded: "no event in the logs of any host",
        sources: &["NCCL user guide, NCCL_IB_RETRY_CNT"],
    }
    GDR_FAR {
        id: "gdr-far",
        title: "GPUDirect RDMA is off: the NIC is too far",
        means: "between GPU and NIC lie a host bridge or the link between sockets, so data goes through the host's memory",
        advice: "look at the path between GPU and NIC; in a guest give NCCL the host's file, or NCCL_NET_GDR_LEVEL=SYS",
        versions: "all",
        signs: &[],
        proof: "the line with its distance",
        excluded: "the log says Enabled for this pair",
        sources: &["NVIDIA/nccl #1151", "NVIDIA/nccl #1510", "NVIDIA/nccl #1464"],
    }
    GDR_NO_MODULE {
        id: "gdr-no-module",
        title: "GPUDirect RDMA impossible",
        means: "the NIC's driver cannot map GPU memory, so data goes through the host's memory",
        advice: "load nvidia_peermem, or use the open kernel modules on Linux 5.12 or newer (DMA-BUF)",
        versions: "all",
        signs: &[],
        proof: "the line without a distance, and no nvidia_peermem in `lsmod`",
        excluded: "the log says Enabled, or DMA-BUF available",
        sources: &["NVIDIA/nccl #1537", "NVIDIA/nccl #1737", "Mellanox/nv_peer_memory #56"],
    }
    SOCKETS_ONLY {
        id: "sockets-only",
        title: "sockets carry the data of a host with RDMA ports",
        means: "NCCL uses TCP though the host has InfiniBand or RoCE ports: the container hides them, or a setting does",
        advice: "give the container /dev/infiniband and IPC_LOCK; unset NCCL_IB_DISABLE; check NCCL_IB_HCA",
        versions: "all",
        signs: &[],
        proof: "`Using network Socket` in the log, and active ports in `ibstat` in the container",
        excluded: "the log says Using network IB",
        sources: &["NCCL user guide, NCCL_IB_DISABLE"],
    }
    ONE_PORT {
        id: "one-port",
        title: "one port or plane of several is used",
        means: "the hosts have more ports than carry data",
        advice: "name all ports in NCCL_IB_HCA; compare the plans of both versions",
        versions: "all",
        signs: &[],
        proof: "connections of the log name fewer ports than the host has",
        excluded: "the connections name all ports",
        sources: &["NVIDIA/nccl #1876", "deepseek-ai/DeepEP #650", "NVIDIA/dgx-spark-playbooks #102"],
    }
    NIC_SPLIT {
        id: "nic-split",
        title: "the ports of a NIC lead to different switches",
        means: "rings of more than two hosts cross switches that are not joined well",
        advice: "NCCL_CROSS_NIC=2 or 0 by the wiring; give the planner the fabric",
        versions: "all",
        signs: &[],
        proof: "two hosts are fast, three are slow, and the ports' switches differ; two runs of nccl-tests: faster with another NCCL_CROSS_NIC",
        excluded: "all ports reach one switch",
        sources: &["NVIDIA/nccl #1453"],
    }
    MTU {
        id: "mtu",
        title: "a small MTU on the path",
        means: "the ports move small packets, or a switch drops large ones",
        advice: "one MTU (9000 on Ethernet, 4096 active on the port) on NICs and switches of the path",
        versions: "all",
        signs: &[],
        proof: "`ibv_devinfo` with active_mtu 1024, or `ping -M do -s 8972` fails",
        excluded: "active_mtu 4096 on all ports",
        sources: &["NVIDIA/dgx-spark-playbooks #25"],
    }
    NARROW_NIC {
        id: "narrow-nic",
        title: "NIC behind a slower PCIe link",
        means: "a NIC is faster than a PCIe link that its data must take",
        advice: "move the card to a wider slot; if the hardware is right, correct link_speed and link_width in the file",
        versions: "all",
        signs: &[],
        proof: "`lspci -vv`: LnkSta below the port's rate",
        excluded: "the link is at least as fast as the port",
        sources: &["PCI Express base specification"],
    }
    NO_NEAR_NIC {
        id: "no-near-nic",
        title: "no NIC near a GPU",
        means: "a GPU's data crosses the link between sockets to every NIC, mostly without GPUDirect RDMA",
        advice: "check that the NIC is seated, visible in the container and up",
        versions: "all",
        signs: &[],
        proof: "the topology: each path from the GPU to a NIC is SYS",
        excluded: "a NIC below the same switch or host bridge",
        sources: &["NCCL user guide, troubleshooting"],
    }
    PORT_DOWN {
        id: "port-down",
        title: "network port down",
        means: "a port has no link",
        advice: "check cable, transceiver and switch port, or leave the port out with NCCL_IB_HCA",
        versions: "all",
        signs: &[],
        proof: "`ibstat`: State: Down, or Physical state: Polling",
        excluded: "State: Active",
        sources: &["rdma-core, ibstat"],
    }
    PORT_SLOW {
        id: "port-slow",
        title: "network port slower than its twins",
        means: "a port runs at a lower rate than equal ports",
        advice: "check cable, transceiver and the switch port's speed",
        versions: "all",
        signs: &[],
        proof: "`ibstat`: a lower Rate than other ports of the same device type",
        excluded: "equal rates",
        sources: &["rdma-core, ibstat"],
    }
    VIRTUAL_FUNCTION {
        id: "virtual-function",
        title: "virtual function and its parent both used",
        means: "a physical function and its virtual function share one port, and NCCL takes them for two",
        advice: "use either: leave one out with NCCL_IB_HCA",
        versions: "all",
        signs: &[],
        proof: "both are in the log's list of ports",
        excluded: "one of them is hidden",
        sources: &["NVIDIA/nccl #1422"],
    }
    PORTS_MERGED {
        id: "ports-merged",
        title: "ports merged into an unequal NIC",
        means: "NCCL merges ports into a NIC that is unlike the others",
        advice: "look for a port that is down; choose ports with NCCL_IB_HCA, groups with NCCL_NET_FORCE_MERGE, or merge none with NCCL_NET_MERGE_LEVEL=LOC",
        versions: "2.24 and newer",
        signs: &[],
        proof: "the log's list of networks: merged NICs of different sizes",
        excluded: "equal NICs",
        sources: &["NVIDIA/nccl #1804", "NVIDIA/nccl #2192"],
    }
    SWITCHLESS {
        id: "switchless",
        title: "hosts without a switch cannot build trees",
        means: "NCCL always builds trees too; in a ring of cables some of their neighbors have no path",
        advice: "NCCL_IB_SUBNET_AWARE_ROUTING=1 and one subnet for each cable; plan rings over the cables",
        versions: "all",
        signs: &[],
        proof: "hosts joined by cables alone, and a connection between two that share none",
        excluded: "a switch between all hosts",
        sources: &["NVIDIA/dgx-spark-playbooks #103", "autoscriptlabs/nccl-mesh-plugin #2"],
    }
    HOST_UNNAMED {
        id: "host-unnamed",
        title: "a host's name has no address",
        means: "the launcher's address does not resolve on all hosts",
        advice: "use an address that all hosts resolve, such as the IP of rank 0's host, in MASTER_ADDR",
        versions: "all",
        signs: &[
            nccl(&["Name or service not known"], Proved),
            nccl(&["Temporary failure in name resolution"], Likely),
            proves(&["network addresses of", "Name or service not known"]),
            suggests(&["network addresses of", "Temporary failure in name resolution"]),
        ],
        proof: "the line",
        excluded: "`getent hosts NAME` answers on all hosts",
        sources: &["pytorch.org, torchrun"],
    }
}
