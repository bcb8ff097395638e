//! NVLinks and NVSwitches.

use crate::causes::Certainty::{Likely, Possible};
use crate::causes::cause::{Scope, Sign, nccl, proves, suggests};

causes! { NvLink;
    NVLS_SLOTS {
        id: "nvls-slots",
        title: "no multicast slot of the NVSwitches is free",
        means: "the NVSwitches have 128 multicast groups, and each communicator with NVLS takes about 10 of them",
        advice: "NCCL_NVLS_ENABLE=0, or NVLS for the large groups alone (nvlsHostMode of a communicator's configuration, 2.31); make fewer communicators",
        versions: "2.27 and newer; 2.29 and newer fail where older ones used rings",
        signs: &[proves(&["NVSwitch multicast resources/slot ids are used"])],
        proof: "fabric manager's line, or NVLS fails to bind in a job of many communicators and not of one",
        excluded: "one communicator fails, too",
        sources: &["NVIDIA/nccl #2077"],
    }
    NVLS_BIND {
        id: "nvls-bind",
        title: "NVLS cannot bind its multicast memory",
        means: "the driver refused multicast memory: no slot is free, or the fabric manager is not in order",
        advice: "NCCL_NVLS_ENABLE=0 avoids it; look at the fabric manager's log for free slots",
        versions: "2.29 and newer fail; older ones use rings",
        signs: &[
            proves(&["Failed to bind NVLink SHARP"]),
            proves(&["Failed to bind NVLS"]),
        ],
        proof: "the line",
        excluded: "NCCL_NVLS_ENABLE=0",
        sources: &["NVIDIA/nccl #2077", "sgl-project/sglang-omni #2041"],
    }
    FABRIC_NOT_READY {
        id: "fabric-not-ready",
        title: "NVLink fabric not ready",
        means: "the GPUs of a machine with NVSwitches work only when the fabric manager has set the switches up",
        advice: "start nvidia-fabricmanager of the driver's version (IMEX on racks), then look at its log",
        versions: "all",
        signs: &[
            proves(&["CUDA error 802"]),
            proves(&["error 802", "system not yet initialized"]),
            proves(&["system not yet initialized"]),
        ],
        proof: "the line, or `nvidia-smi -q`: Fabric State not Completed",
        excluded: "Fabric State: Completed, Status: Success",
        sources: &["NVIDIA fabric manager user guide"],
    }
    IMEX_CHANNEL {
        id: "imex-channel",
        title: "no IMEX channel for memory of other hosts",
        means: "hosts of one NVLink domain share memory only through an IMEX channel, and this process has none",
        advice: "start nvidia-imex on all hosts of the domain, and give the container /dev/nvidia-caps-imex-channels",
        versions: "2.21 and newer",
        signs: &[nccl(&["IMEX"], Likely), suggests(&["nvidia-caps-imex-channels", "No such file"])],
        proof: "`nvidia-imex-ctl -N` is not READY on all hosts, or the device file is missing",
        excluded: "READY on all hosts, and the log says MNNVL 1",
        sources: &["NVIDIA IMEX guide"],
    }
    MNNVL_CUMEM {
        id: "mnnvl-cumem",
        title: "NCCL_CUMEM_ENABLE=0 turns multi-node NVLink off",
        means: "NVLink between hosts needs memory of the cuMem functions; a framework switched these off, so data takes the network",
        advice: "unset NCCL_CUMEM_ENABLE, also in the framework's own defaults",
        versions: "2.21 and newer",
        signs: &[Sign {
            words: &["MNNVL busId", "fabric UUID"],
            scope: Scope::Message,
            certainty: Possible,
        }],
        proof: "the log: NCCL_CUMEM_ENABLE set to 0, and MNNVL 0 on hosts of an NVLink domain",
        excluded: "MNNVL 1",
        sources: &["vllm-project/vllm #16992", "sgl-project/sglang #24977", "vllm-project/vime #103"],
    }
    CLIQUE {
        id: "clique",
        title: "hosts are in the wrong NVLink clique",
        means: "hosts count as one domain only if cluster and clique are equal; placeholders merge hosts that share no link, or part those that do",
        advice: "compare cluster UUID and clique id of `nvidia-smi -q` on all hosts; NCCL_MNNVL_CLIQUE_ID parts or joins them",
        versions: "2.21 and newer",
        signs: &[],
        proof: "the log's clique ids beside the rack plan",
        excluded: "equal cluster and clique on exactly the hosts of a rack",
        sources: &["meta-pytorch/torchcomms #3612", "meta-pytorch/torchcomms #3704", "deepseek-ai/DeepEP #596"],
    }
    HEALTH_MASK {
        id: "health-mask",
        title: "the NVLink fabric reports a degraded GPU",
        means: "the driver's health mask says that links or bandwidth of a GPU are degraded",
        advice: "take the host out; look at the fabric manager's or NMX-C's log for the GPU",
        versions: "2.29 and newer print it",
        signs: &[],
        proof: "a health mask with a bit of degraded bandwidth, route or access",
        excluded: "all fields of the mask say no",
        sources: &["NVIDIA/nccl #2186", "NVML, nvmlGpuFabricInfo_v3_t"],
    }
    LINKS_MISSING {
        id: "links-missing",
        title: "NVLinks missing or down",
        means: "a GPU has fewer working NVLinks than its model",
        advice: "`nvidia-smi nvlink -s` and -e; reset the GPU, then have its bridge or baseboard checked",
        versions: "all",
        signs: &[],
        proof: "`nvidia-smi nvlink -s`: inactive links",
        excluded: "all links active at full speed",
        sources: &["NVIDIA/nccl #2186"],
    }
    NVLINK_NO_ACCESS {
        id: "nvlink-no-access",
        title: "NVLink is there, and GPUs cannot use it",
        means: "links are up, but the driver refuses peer access between the GPUs",
        advice: "`nvidia-smi topo -p2p r`; reset the GPUs; check the fabric manager's partition",
        versions: "all",
        signs: &[],
        proof: "`nvidia-smi topo -m` says NV, `-p2p r` says not OK",
        excluded: "OK in `-p2p r`",
        sources: &["NVIDIA/nccl #2329"],
    }
    XID_NVLINK {
        id: "xid-nvlink",
        title: "an NVLink failed (Xid 74, or 144 to 150 of newer GPUs)",
        means: "the driver saw errors on an NVLink of this GPU; its transfers stop",
        advice: "note the GPU and link, reset the GPU; have the baseboard checked if it comes again",
        versions: "all",
        proof: "the kernel's line",
        excluded: "no such line on any host",
        sources: &["NVIDIA GPU debug guidelines, Xid errors"],
    }
    SXID {
        id: "sxid",
        title: "an NVSwitch reported an error (SXid)",
        means: "a switch port failed; GPUs behind it stop or lose bandwidth",
        advice: "look at the fabric manager's log for the port; restart it, then reset all GPUs",
        versions: "all",
        proof: "the kernel's line",
        excluded: "no such line",
        sources: &["NVIDIA fabric manager user guide, SXid errors"],
    }
    NVLS_OFF {
        id: "nvls-off",
        title: "NVLS is not used",
        means: "the machine has NVSwitches that reduce, and NCCL does not use them",
        advice: "check NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE, the fabric manager, and that all GPUs of the host take part",
        versions: "2.17 and newer",
        signs: &[],
        proof: "the log: NVLS multicast support is not available on a machine with third-generation NVSwitches",
        excluded: "NVLS heads in the log",
        sources: &["NCCL user guide, NCCL_NVLS_ENABLE"],
    }
}
