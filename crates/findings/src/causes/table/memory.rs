//! Memory of GPUs and hosts.

use crate::causes::Certainty::Likely;
use crate::causes::cause::{logged, nccl, proves};

causes! { Memory;
    KILLED {
        id: "killed",
        title: "the system ended a process for lack of memory",
        means: "the host's memory, or the container's, was full; the kernel ended a rank",
        advice: "give the container more memory; look for loaders that hold copies of the data",
        versions: "all",
        proof: "the kernel's line with the process of a rank",
        excluded: "no such line",
        sources: &["Linux kernel, admin guide, memory"],
    }
    CUDA_FULL {
        id: "program-memory-full",
        title: "the program filled the GPU's memory",
        means: "a rank ended because its GPU's memory was full; the others then wait for it",
        advice: "a smaller batch on this rank; the hang of the others is a consequence",
        versions: "all",
        signs: &[proves(&["OutOfMemoryError", "CUDA out of memory"])],
        proof: "the line with its rank",
        excluded: "no such line",
        sources: &["pytorch.org, CUDA memory management"],
    }
    GPU_FULL {
        id: "gpu-memory-full",
        title: "the GPU's memory is full",
        means: "the GPU's memory is full",
        advice: "leave more memory to NCCL, or lower NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS",
        versions: "all",
        signs: &[nccl(&["out of memory"], Likely)],
        proof: "`nvidia-smi` before the failure",
        excluded: "gigabytes are free",
        sources: &["NVIDIA/nccl #964"],
    }
    MANY_COMMUNICATORS {
        id: "many-communicators",
        title: "communicators take gigabytes of GPU memory",
        means: "each communicator has buffers for each channel, protocol and peer",
        advice: "make fewer groups; NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS or a communicator's maxCTAs lower the buffers; ncclCommSplit with shared resources",
        versions: "all",
        signs: &[],
        proof: "memory of the process before and after each group; many communicators on a GPU whose memory is full, much of it not PyTorch's",
        excluded: "few communicators on the GPU",
        sources: &["NVIDIA/nccl #964", "NVIDIA/nccl #864"],
    }
    SHARED_NET_BUFFER {
        id: "shared-net-buffer",
        title: "a communicator of one rank takes 512 MiB",
        means: "the shared buffer of point-to-point calls is allocated for all channels, also where no peer exists",
        advice: "NCCL_MAX_P2P_NCHANNELS or NCCL_NCHANNELS_PER_NET_PEER lower it; do not make communicators of one rank",
        versions: "2.29 and newer on Blackwell",
        signs: &[logged(&["transport/net.cc", "Cuda Alloc Size 536870912"])],
        proof: "the log with NCCL_DEBUG_SUBSYS=ALLOC",
        excluded: "no communicator of one rank",
        sources: &["NVIDIA/nccl #2363"],
    }
}
