//! Failures that follow others, and failures of which a line says no more.

use crate::causes::Certainty::Possible;
use crate::causes::cause::nccl;

causes! { Consequence;
    CUDA_FAILURE {
        id: "cuda-failure",
        title: "a call of CUDA failed",
        means: "a call of CUDA failed; often another failure came first",
        advice: "look at the first failure of the job, and at the kernel's log for Xid messages",
        versions: "all",
        proof: "the line names the call's error",
        excluded: "an earlier failure of another rank",
        sources: &["NCCL user guide, ncclUnhandledCudaError"],
    }
    ARGUMENT {
        id: "invalid-argument",
        title: "the program called NCCL with an invalid argument",
        means: "the program called NCCL with something that it does not accept",
        advice: "see the call's place in the program",
        versions: "all",
        signs: &[nccl(&["invalid", "argument"], Possible)],
        proof: "the line",
        excluded: "the call succeeds",
        sources: &["NCCL user guide, ncclInvalidArgument"],
    }
    PEER_CLOSED {
        id: "peer-closed",
        title: "a peer's process ended",
        means: "the peer's process ended or closed the connection",
        advice: "look for the rank that failed first; this line is a consequence",
        versions: "all",
        proof: "the end of the peer's log",
        excluded: "all processes run",
        sources: &["NCCL user guide, ncclRemoteError"],
    }
    SYSTEM_ERROR {
        id: "system-error",
        title: "a call of the operating system failed",
        means: "a call of the operating system failed; the line before says which",
        advice: "look at the first warning of this rank",
        versions: "all",
        proof: "the line before",
        excluded: "an earlier failure of another rank",
        sources: &["NCCL user guide, ncclSystemError"],
    }
    TIMEOUT {
        id: "timeout",
        title: "something did not answer in time",
        means: "something did not answer in time; mostly another rank failed or never started",
        advice: "look for the rank that failed first or that is missing",
        versions: "all",
        signs: &[nccl(&["imeout"], Possible)],
        proof: "another rank's failure",
        excluded: "an earlier failure of this rank",
        sources: &["NCCL user guide, troubleshooting"],
    }
}
