//! GPUs and their driver.

use crate::causes::Certainty::Possible;
use crate::causes::cause::nccl;

causes! { Gpu;
    MIG {
        id: "mig",
        title: "GPU partitioned (MIG)",
        means: "parts of GPUs have neither NVLink nor peer access",
        advice: "`nvidia-smi -mig 0` for jobs of several GPUs: parts of GPUs have neither NVLink nor peer access",
        versions: "all",
        signs: &[nccl(&["MIG "], Possible)],
        proof: "`nvidia-smi -L` lists MIG devices",
        excluded: "no MIG devices",
        sources: &["NVIDIA MIG user guide"],
    }
    OFF_THE_BUS {
        id: "xid-79",
        title: "a GPU fell off the bus (Xid 79)",
        means: "the host lost the GPU; its rank cannot answer",
        advice: "reboot the host; check power, seat and riser; look for AER lines before it",
        versions: "all",
        proof: "the kernel's line",
        excluded: "no such line",
        sources: &["NVIDIA GPU debug guidelines, Xid errors"],
    }
    XID_MEMORY {
        id: "xid-memory",
        title: "a GPU's memory failed (Xid 48, 63, 64, 94, 95)",
        means: "the GPU found errors that it could not correct; processes on it end",
        advice: "reset the GPU so that rows are remapped; replace it if `nvidia-smi -q` says remapping failed",
        versions: "all",
        proof: "the kernel's line",
        excluded: "no such line",
        sources: &["NVIDIA GPU debug guidelines, Xid errors"],
    }
    XID_PROGRAM {
        id: "xid-program",
        title: "a kernel of the program failed (Xid 13, 31, 43)",
        means: "a kernel accessed memory that is not its own; mostly a bug of the program, seldom the GPU",
        advice: "run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; try another GPU to exclude the hardware",
        versions: "all",
        proof: "compute-sanitizer names the kernel",
        excluded: "it comes only on one GPU",
        sources: &["NVIDIA GPU debug guidelines, Xid errors"],
    }
    XID_GSP {
        id: "xid-gsp",
        title: "the GPU's firmware does not answer (Xid 119, 120)",
        means: "the driver waits for the GPU's own processor; calls of CUDA hang or fail",
        advice: "reset the GPU; update the driver; collect `nvidia-bug-report.sh` if it comes again",
        versions: "all",
        proof: "the kernel's line",
        excluded: "no such line",
        sources: &["NVIDIA GPU debug guidelines, Xid errors"],
    }
    REMAP {
        id: "gpu-memory-worn",
        title: "a GPU's memory has errors or waits for a repair",
        means: "the GPU counted errors that it could not correct, or rows of its memory wait for a reset, or cannot be replaced any more",
        advice: "reset the GPU so that rows are remapped; have it replaced if remapping failed",
        versions: "all",
        signs: &[],
        proof: "`nvidia-smi -q`: Remapped Rows pending or failed; uncorrectable errors",
        excluded: "0 errors, and No for both",
        sources: &["NVIDIA GPU memory error management"],
    }
    THROTTLED {
        id: "gpu-throttled",
        title: "a GPU's clocks are lowered by heat or power",
        means: "the GPU runs slower than the others, which wait for it at each collective",
        advice: "check fans, inlet temperature, power supplies and cables of this host; compare `nvidia-smi -q -d PERFORMANCE` under load",
        versions: "all",
        signs: &[],
        proof: "`nvidia-smi -q` under load: a slowdown by hardware or heat is Active",
        excluded: "Not Active for all slowdowns under load",
        sources: &["NVML, clocks event reasons"],
    }
}
