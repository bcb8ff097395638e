//! Ranks that wait for each other.

use crate::causes::cause::{proves, suggests};

causes! { Hang;
    RANK_MISSING {
        id: "rank-missing",
        title: "a rank never entered a collective",
        means: "all ranks of a group must enter a collective; one did not, so the others wait for it",
        advice: "look at what the missing rank did last: its flight recorder, py-spy on its host, its log",
        versions: "all",
        signs: &[
            suggests(&["but didn't join collective"]),
            suggests(&["They never joined any collectives"]),
            suggests(&["failed to pass monitoredBarrier"]),
        ],
        proof: "flight recorders of all ranks: the rank has no entry of the collective",
        excluded: "every rank has an entry of the collective",
        sources: &["NVIDIA/nccl #1730", "pytorch/pytorch #140879", "pytorch/pytorch #125173"],
    }
    RANK_SILENT {
        id: "rank-silent",
        title: "a rank left no trace",
        means: "the flight recorders of the others show that they wait; this rank wrote none, or its file is not given",
        advice: "look for the end of its process: its log, `dmesg` on its host (Xid, out of memory), the scheduler",
        versions: "all",
        signs: &[],
        proof: "no recorder of the rank, and its process has ended",
        excluded: "the rank wrote a recorder",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    COLLECTIVE_MISMATCH {
        id: "collective-mismatch",
        title: "ranks are in different collectives",
        means: "ranks of a group call different functions at the same place of their order",
        advice: "find the branch of the program that only some ranks take; the frames of the recorders name it",
        versions: "all",
        signs: &[proves(&["Detected mismatch between collectives on ranks"])],
        proof: "recorders of two ranks: the same sequence number, two functions",
        excluded: "the same function, sizes and types on all ranks",
        sources: &["pytorch.org, TORCH_DISTRIBUTED_DEBUG"],
    }
    CALL_SKIPPED {
        id: "call-skipped",
        title: "a rank skipped a collective",
        means: "from some call on, a rank is one call ahead of the others: it did not make one that they made",
        advice: "find the condition around the skipped call that differs on this rank, such as an empty batch",
        versions: "all",
        signs: &[],
        proof: "recorders: the rank's calls equal those of the others, moved by one",
        excluded: "the same calls on all ranks",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    SIZE_MISMATCH {
        id: "size-mismatch",
        title: "ranks call a collective with different sizes",
        means: "the ranks count different bytes, so some wait for data that nobody sends",
        advice: "pad to one size, or exchange sizes first; the frames of the recorders name the call",
        versions: "all",
        signs: &[],
        proof: "recorders: the same call, different numbers of elements",
        excluded: "equal sizes, or a collective of uneven parts",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    TYPE_MISMATCH {
        id: "type-mismatch",
        title: "ranks call a collective with different types",
        means: "the ranks disagree about the elements: data is wrong, or bytes are missing",
        advice: "cast before the call on all ranks; look for mixed precision that only some ranks use",
        versions: "all",
        signs: &[],
        proof: "recorders: the same call, different types",
        excluded: "equal types",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    GROUP_ORDER {
        id: "group-order",
        title: "two groups in different orders",
        means: "one rank waits in a collective of one group, another in one of a second group, and each is needed in the other's",
        advice: "launch collectives of several groups in one order on all ranks: one thread, or events between the streams",
        versions: "all",
        signs: &[],
        proof: "recorders: the calls of the two groups are in different orders, and both are unfinished",
        excluded: "the same order on all ranks",
        sources: &["NVIDIA/nccl #1610", "NCCL user guide, several communicators"],
    }
    PEER_MISSING {
        id: "peer-missing",
        title: "a send or receive without its other half",
        means: "a rank waits for a peer that never called the other half",
        advice: "check the order of sends and receives of both ranks; put pairs that cross into one batch",
        versions: "all",
        signs: &[],
        proof: "recorders: an unfinished send or receive, and none at the peer",
        excluded: "both halves are there",
        sources: &["pytorch.org, batch_isend_irecv"],
    }
    GROUP_DIFFERS {
        id: "group-differs",
        title: "ranks disagree who is in a group",
        means: "the ranks made the group from different lists, so they wait for members that do not know it",
        advice: "make groups from the same lists in the same order on all ranks",
        versions: "all",
        signs: &[],
        proof: "recorders: one name of a group, different lists of ranks",
        excluded: "equal lists",
        sources: &["pytorch.org, new_group"],
    }
    STREAM_BLOCKED {
        id: "stream-blocked",
        title: "a GPU never starts its part",
        means: "the rank called the collective, but its GPU is still busy with earlier work, so the others wait",
        advice: "look at what runs on this GPU: `py-spy dump`, `cuda-gdb`, Xid in `dmesg`; synchronize before the call to find it",
        versions: "all",
        signs: &[],
        proof: "recorders: started on the other ranks, only scheduled on this one, nothing earlier of it unfinished",
        excluded: "started on all ranks",
        sources: &["pytorch.org, flight recorder tutorial"],
    }
    TRANSFER_STALLED {
        id: "transfer-stalled",
        title: "all ranks entered, and no data moves",
        means: "the program is right; a link, NIC, GPU or proxy stopped",
        advice: "look for warnings of NCCL and port counters on the hosts that are not done; run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET",
        versions: "all",
        signs: &[],
        proof: "recorders: the same call started on all ranks, and a warning or a counter of the network",
        excluded: "a rank is missing, or another call",
        sources: &["NVIDIA/nccl #1730"],
    }
    WATCHDOG_STUCK {
        id: "watchdog-stuck",
        title: "PyTorch's watchdog is stuck",
        means: "a call of CUDA or NCCL does not return, so the thread that looks for timeouts stopped",
        advice: "py-spy on the process; often another rank failed first, or the GIL is held",
        versions: "all",
        signs: &[
            proves(&["Heartbeat monitor timed out"]),
            proves(&["watchdog got stuck for"]),
        ],
        proof: "the monitor's line",
        excluded: "a watchdog that reports its own timeout",
        sources: &["pytorch.org, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"],
    }
    UNEVEN_PAT {
        id: "uneven-pat",
        title: "PAT connects hosts with different numbers of ranks",
        means: "the connections of PAT wait for each other where hosts have different numbers of ranks",
        advice: "use NCCL 2.32.3 or newer; until then NCCL_PAT_ENABLE=0, or NCCL_NVLS_ENABLE=0",
        versions: "2.23 to 2.32.2",
        signs: &[suggests(&["contiguousRanksPerHost 2147483647"])],
        proof: "the start ends after the rings, hosts with different numbers of ranks, and it starts with NCCL_PAT_ENABLE=0",
        excluded: "2.32.3 or newer, or equal numbers of ranks on all hosts",
        sources: &["NVIDIA/nccl #2385"],
    }
    DESCRIPTOR_RACE {
        id: "descriptor-race",
        title: "many communicators exchange memory handles at once",
        means: "processes pass file descriptors of memory to each other; with many communicators at once a start hangs now and then",
        advice: "NCCL_CUMEM_ENABLE=0, or start the communicators one after another",
        versions: "2.29 to 2.32",
        signs: &[],
        proof: "it starts 20 times of 20 with NCCL_CUMEM_ENABLE=0",
        excluded: "one communicator, or NCCL_CUMEM_ENABLE=0",
        sources: &["NVIDIA/nccl #2379"],
    }
    COMPLETION_TIMEOUT {
        id: "completion-timeout",
        title: "a NIC gave up on its peer",
        means: "the NIC reported a failed transfer; status 12 is a peer that stopped answering, 5 follows another failure",
        advice: "look for the first such line of the job and check the link, cable and host of its peer",
        versions: "all",
        proof: "the first such line of the job with its peer, and that peer's port counters",
        excluded: "an earlier failure of another rank",
        sources: &["NVIDIA/nccl #1405", "NCCL user guide, troubleshooting"],
    }
}
