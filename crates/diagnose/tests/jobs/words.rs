//! Causes by words of lines and by listings.

use crate::few::{assert_nobody, diagnosed};
use crate::shown;

fn ids(log: &str) -> Vec<&'static str> {
    let found = diagnosed(&[], log).verdicts;
    found.iter().map(|it| it.cause.id).collect()
}

/// A guess, and what only slows a job, explain no failure.
#[test]
fn consequences_are_hidden_by_proved_failures_only() {
    let closed = "n1:7:9 [0] x.cc:1 NCCL WARN Connection closed by remote peer n2\n".to_owned();
    let slow = "n1:7:9 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n";
    let verbs = "n1:7:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n";
    let guess = "n1:7:9 [0] x.cc:1 NCCL WARN Call to ibv_modify_qp failed\n";
    let proved = "NVRM: Xid (PCI:0000:1b:00): 79, pid=7, GPU has fallen off the bus.\n";
    assert_eq!(
        ids(&(closed.clone() + slow)),
        ["peer-closed", "p2p-disabled"]
    );
    assert_eq!(ids(&(closed.clone() + verbs)), ["peer-closed", "no-verbs"]);
    assert_eq!(
        ids(&(closed.clone() + guess)),
        ["port-unreachable", "peer-closed"]
    );
    assert_eq!(ids(&(closed + proved)), ["xid-79"]);
}

/// Like calls at other places of the order are no different calls.
#[test]
fn fingerprints_that_differ_in_number_alone_are_of_ranks_apart() {
    let at = |number: u32, call: &str| {
        format!("CollectiveFingerPrint(SequenceNumber={number}OpType={call})")
    };
    let said = |one: &str, other: &str| {
        format!(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: \
                 {one}, but Rank 2 is running collective: {other}.Collectives differ in the following aspects: x\n"
        )
    };
    assert_eq!(
        ids(&said(&at(1, "BARRIER"), &at(0, "BARRIER"))),
        ["call-skipped"]
    );
    assert_eq!(
        ids(&said(&at(1, "BARRIER"), &at(0, "REDUCE"))),
        ["collective-mismatch"]
    );
}

/// PyTorch and JAX pass NCCL's last warning on, in a line of their own or in one with the error.
#[test]
fn warnings_that_other_programs_pass_on_are_opened() {
    let status = "NET/IB : Got completion from peer n2<39138> with error 12, opcode 0, len 0, vendor err 129";
    let torch = format!("NCCL error: ncclRemoteError: A call failed. Last error: {status}\n");
    assert_eq!(ids(&torch), ["completion-timeout"]);
    let jax = |text: &str| {
        format!(
            "NCCL operation failed. Last NCCL warning(error) log entry (may be unrelated) '{text}'.\n"
        )
    };
    assert_eq!(
        ids(&jax("Attribute arch of node cpu not found")),
        ["topology-file"]
    );
    assert!(ids(&jax("")).is_empty());
}

/// Memory of the cuMem functions counts only where GPUs name a fabric of several hosts.
#[test]
fn multi_node_nvlink_needs_a_fabric() {
    let line = |host: &str, text: &str| format!("{host}:7:9 [0] NCCL INFO {text}\n");
    let off = "NCCL_CUMEM_ENABLE set by environment to 0.";
    let log = line("n1", off) + &line("n2", off);
    let fabric = |id: &str| {
        line(
            "n1",
            &format!("MNNVL busId 0x901000 fabric UUID {id} cliqueId 0x1 state 3 healthMask 0x0"),
        )
    };
    assert!(ids(&log).is_empty());
    assert!(ids(&(log.clone() + &fabric("0.0"))).is_empty());
    assert_eq!(ids(&(log + &fabric("51b9a2.c45fd8"))), ["mnnvl-cumem"]);
    assert!(ids(&fabric("51b9a2.c45fd8")).is_empty());
}

/// Names that other programs look up, other settings, and harmless messages are no causes.
#[test]
fn words_of_other_programs_are_no_causes() {
    assert!(ids("wandb: Name or service not known\n").is_empty());
    assert!(ids("mlx5_core 0000:4b:00.0: Port module event: module 0, Cable plugged\n").is_empty());
    assert!(ids("NVRM: Xid (PCI:0000:1b:00): 137, pid=7\n").is_empty());
    let lookup = "[c10d] The IPv4 network addresses of (n1, 29500) cannot be retrieved (gai error: -2 - Name or \
                  service not known).\n";
    assert_eq!(ids(lookup), ["host-unnamed"]);
    let log = |text: &str| format!("n1:7:9 [0] NCCL INFO {text}\n");
    let apart = log("GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (distance 7 > 4), read 0");
    let port = log("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'");
    let level = log("NCCL_NET_GDR_LEVEL set by environment to PIX");
    assert_eq!(ids(&apart), ["gdr-far"]);
    assert_eq!(ids(&port), ["gdr-no-module"]);
    assert_eq!(ids(&(apart.clone() + &port)), ["gdr-far"]);
    assert!(ids(&(apart + &level)).is_empty());
    assert!(
        ids(&log(
            "GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (another reason)"
        ))
        .is_empty()
    );
}

/// Listings of a machine show what could be slow, and blame nobody.
#[test]
fn listings_show_what_is_possible() {
    let found = |text: &str| {
        let found = diagnosed(&[("listing.txt", text.to_owned())], "");
        assert_nobody(&found);
        let is_possible =
            |it: &diagnose::Verdict| it.certainty == findings::causes::Certainty::Possible;
        assert!(
            found.verdicts.iter().all(is_possible),
            "{}",
            shown(&found.verdicts)
        );
        let verdicts = found.verdicts.iter();
        let lines: Vec<(&str, String)> = verdicts
            .map(|it| (it.cause.id, it.lines[0].text.clone()))
            .collect();
        (found.inputs[0].kind.clone(), lines)
    };
    let pci = "00:01.0 PCI bridge: Intel Corporation Device 352a\n\
               \tBus: primary=00, secondary=01, subordinate=02, sec-latency=0\n\
               \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\
               01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n\
               \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\
               \t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)\n";
    let narrow = "0000:01:00.0: x8, expected x16".to_owned();
    assert_eq!(
        found(pci),
        (
            "listing of a machine, 6 lines".to_owned(),
            vec![("link-narrow", narrow)]
        )
    );
    let matrix = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n\
                  GPU0\t X \tNV18\tPIX\t0-3\t0\nGPU1\tNV18\t X \tSYS\t4-7\t1\nNIC0\tPIX\tSYS\t X\n";
    assert_eq!(
        diagnosed(&[("m.txt", matrix.to_owned())], "").verdicts[0].devices,
        ["GPU1"]
    );
    let apart = "GPU1: SYS to each NIC".to_owned();
    assert_eq!(found(matrix).1, [("no-near-nic", apart)]);
    assert_eq!(found(&matrix.replace("SYS", "PIX")).1, []);
    // nvidia-smi underlines the header.
    let underlined = matrix.replacen("\tGPU0", "\t\x1b[4mGPU0", 1);
    assert_eq!(found(&underlined).1[0].0, "no-near-nic");
    let port = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tRate: 400\n";
    assert_eq!(found(port).1, [("port-down", "mlx5_0: down".to_owned())]);
}

/// A failure beats its echoes and settings that only slow, and an unknown warning is told.
#[test]
fn causes_beat_consequences_and_the_first_error_is_told() {
    let log = |text: &str| format!("n1:7:9 [0] {text}\n");
    let unknown = log("init.cc:12 NCCL WARN a new check of ranks failed");
    let slow = log("NCCL INFO NCCL_P2P_DISABLE set by environment to 1.");
    let found = diagnosed(&[], &(slow + &unknown));
    assert_eq!(
        found.verdicts[0].certainty,
        findings::causes::Certainty::Possible
    );
    let first = found.first_error.unwrap();
    assert_eq!(
        (first.line.number, first.place.as_deref()),
        (Some(2), Some("init.cc:12"))
    );
    assert!(first.of_place.is_some() && !first.is_passed_on && found.unknown == 1);
    // The status of shared memory is stale behind a code of CUDA of the same process.
    let stale = log("misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'")
        + &log(
            "misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9), \
                error: No space left on device (28)",
        );
    assert_eq!(ids(&stale), ["host-register"]);
    let full = log(
        "misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9 bytes, error: No space \
                    left on device (28)",
    );
    assert_eq!(ids(&full), ["shared-memory"]);
    // Who reports that a peer is gone is not at fault.
    let peer = log(
        "x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with status=IBV_WC_RETRY_EXC_ERR(12) \
                    opcode=IBV_WC_SEND(0)",
    );
    let found = diagnosed(&[], &peer).verdicts;
    assert_eq!(
        (found[0].cause.id, found[0].hosts.len()),
        ("completion-timeout", 0)
    );
    let limits = "ulimit -l\nunlimited\n".to_owned()
        + &log(
            "misc/ibvwrap.cc:217 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        );
    assert_eq!(ids(&limits), ["nic-registration"]);
    assert_eq!(ids(&limits.replace("unlimited", "64")), ["locked-memory"]);
}

/// Calls that NCCL logs are compared where the ranks of a communicator are known.
#[test]
fn logged_calls_of_ranks_are_compared() {
    let call = |process: u32, count: u32, ranks: u32| {
        format!(
            "n1:{process}:{process} [0] NCCL INFO Broadcast: opCount 0 sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 \
             op 0 root 0 comm 0x{process} [nranks={ranks}] stream 0x5\n"
        )
    };
    let job = |counts: &[u32], ranks: u32| -> String {
        counts
            .iter()
            .zip(1..)
            .map(|(count, process)| call(process, *count, ranks))
            .collect()
    };
    assert_eq!(ids(&job(&[5, 5, 7], 3)), ["size-mismatch"]);
    assert!(ids(&job(&[5, 5, 5], 3)).is_empty());
    // Two communicators of two ranks may do different things.
    assert!(ids(&job(&[5, 5, 7, 7], 2)).is_empty());
}
