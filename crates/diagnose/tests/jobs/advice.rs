//! Commands that advice asks for, and the readers of their output.

use std::collections::BTreeSet;

use diagnose::{Floor, Pile};
use findings::{causes, facts};

/// Commands that advice asks for, and output that a reader must know.
const READ: [(&str, &str); 39] = [
    (
        "dmesg",
        "[ 7.1] NVRM: Xid (PCI:0000:1b:00): 79, pid=7, GPU has fallen off the bus.\n",
    ),
    (
        "the kernel's log",
        "[ 7.1] Out of memory: Killed process 7 (python) total-vm:7kB\n",
    ),
    (
        "nvidia-smi topo -p2p r",
        "\tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n",
    ),
    (
        "nvidia-smi topo -m",
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-7\t0\nGPU1\tPHB\t X \t0-7\t0\n",
    ),
    (
        "nvidia-smi nvlink -s",
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-7)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n",
    ),
    (
        "nvidia-smi nvlink -e",
        "GPU 0: NVIDIA A100 (UUID: GPU-7)\n\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 12\n",
    ),
    (
        "nvidia-smi -q",
        "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:1B:00.0\n    Product Name : NVIDIA H100 80GB \
         HBM3\n    Fabric\n        State : In Progress\n        Status : N/A\n",
    ),
    (
        "lspci -vv",
        "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width \
         x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n",
    ),
    (
        "ibstat",
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tRate: 400\n",
    ),
    ("ibv_rc_pingpong", "Failed to modify QP to RTR\n"),
    (
        "ibv_devinfo",
        "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\tPORT_DOWN (1)\n",
    ),
    (
        "ping",
        "7 packets transmitted, 0 received, 100% packet loss, time 6ms\n",
    ),
    ("df", "shm  65536  65536  0 100% /dev/shm\n"),
    (
        "ulimit",
        "Max open files            1024                 4096                 files\n",
    ),
    ("nvidia-imex-ctl -N", "Domain State: DOWN\n"),
    ("fi_info", "fi_getinfo: -61 (No data available)\n"),
    ("ldd", "\tlibibverbs.so.1 => not found\n"),
    ("kubectl describe pod", "      Reason:       OOMKilled\n"),
    (
        "kubectl logs",
        "n1:7:9 [0] x.cc:1 NCCL WARN Call to socket failed: Too many open files\n",
    ),
    (
        "py-spy",
        "Process 7: python train.py\n\nThread 7 (idle): \"MainThread\"\n    wait (threading.py:320)\n",
    ),
    (
        "Using network",
        "n1:7:9 [0] NCCL INFO Using network Socket\n",
    ),
    (
        "RAS",
        "#0-0 (b6) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by process 7 on node n1\n",
    ),
    (
        "show_gids",
        "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:000c\t10.0.0.12\tv2\teth0\nDEV\tPORT\tINDEX\tGID\n",
    ),
    ("ethtool", "NIC statistics:\n     rx_discards_phy: 0\n"),
    (
        "perfquery",
        "# Port counters: Lid 7 port 1\nSymbolErrorCounter:..............0\n",
    ),
    (
        "counters that",
        "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0\n",
    ),
    (
        "dcgmi",
        "| Diagnostic | Result |\n| PCIe       | Pass   |\n",
    ),
    (
        "DCGM",
        "{\"DCGM GPU Diagnostic\": {\"test_categories\": []}}\n",
    ),
    (
        "ncclras",
        "[2026-11-27 03:10:07] PEER_DEAD: Process 4 on node 10.0.0.2 managing GPU 1\n",
    ),
    (
        "/proc/PID/limits",
        "Max locked memory         65536                65536                bytes\n",
    ),
    (
        "gdb",
        "#3  0x7 in ncclProxyGetPostedOps (added=1) at proxy.cc:713\n",
    ),
    (
        "cat /proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=/dev/sda ro iommu=pt\n",
    ),
    (
        "lspci -t",
        "-[0000:00]-+-00.0  Intel Corporation Device\n           \\-01.0-[01]----00.0  NVIDIA Corporation Device\n",
    ),
    ("NCCL version", "NCCL version 2.27.3+cuda12.9\n"),
    (
        "Init timings",
        "n1:7:9 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 1 total 1.00 (kernels 0.10, alloc 0.10, \
         bootstrap 0.10, allgathers 0.10, topo 0.10, graphs 0.10, connections 0.10, rest 0.30)\n",
    ),
    (
        "set by environment",
        "n1:7:9 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0\n",
    ),
    (
        "Failed to open libibverbs",
        "n1:7:9 [0] misc/ibvwrap.cc:7 NCCL WARN Failed to open libibverbs.so[.1]\n",
    ),
    ("NCCL_DEBUG", "n1:7:9 [0] NCCL INFO Using network IB\n"),
    (
        "nvidia-smi",
        "Failed to initialize NVML: Driver/library version mismatch\n",
    ),
];

/// Commands that mend, that a person uses, or whose output is for a vendor.
const ACTIONS: [&str; 18] = [
    "cat /sys/bus/pci/devices/ID/numa_node",
    "fi_pingpong",
    "getent hosts",
    "lsmod",
    "srun --mpi=list",
    "ss -ltnp",
    "systemctl daemon-reload",
    "pip list",
    "nvidia-smi --gpu-reset",
    "nvidia-smi -mig 0",
    "nvidia-bug-report.sh",
    "setpci",
    "iommu=pt",
    "cuda-gdb",
    "ip link",
    "ulimit -n",
    "ulimit -u",
    "ulimit -l",
];

/// Words of lines that logs and listings have, and a short form of a command.
const LINES: [&str; 4] = ["bootstrap", "kernels", "surprise down", "topo -m"];

/// Words without quotation marks that ask for output.
const WORDS: [&str; 9] = [
    "py-spy",
    "RAS",
    "dmesg",
    "the kernel's log",
    "DCGM",
    "dcgmi",
    "ncclras",
    "perfquery",
    "ethtool",
];

/// The texts of all advice, and of what proves, excludes or tells apart causes.
fn advice() -> impl Iterator<Item = &'static str> {
    let of_causes = causes::all().flat_map(|it| [it.advice, it.excluded, it.proof]);
    let apart = causes::rows_of_confused().map(|it| it.2);
    let of_rows = facts::all().map(|it| it.meaning.advice);
    of_causes.chain(apart).chain(of_rows)
}

#[test]
fn what_advice_asks_for_has_a_reader() {
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for text in advice() {
        let quoted = text.split('`').skip(1).step_by(2);
        // `-e` behind another command is an option of it.
        asked.extend(quoted.filter(|it| !it.starts_with('-')));
        asked.extend(WORDS.into_iter().filter(|it| text.contains(it)));
    }
    let is_read = |it: &str| READ.iter().any(|(command, _)| it.starts_with(command));
    let is_action = |it: &str| ACTIONS.iter().any(|action| it.starts_with(action));
    let unread = asked
        .iter()
        .filter(|it| !is_read(it) && !is_action(it) && !LINES.contains(it));
    let unread: Vec<&&str> = unread.collect();
    assert!(
        unread.is_empty(),
        "advice asks for what nothing reads: {unread:?}"
    );
    assert!(asked.len() > 30, "{asked:?}");
}

#[test]
fn readers_know_the_output_that_advice_asks_for() {
    for (command, output) in READ {
        let mut pile = Pile::default();
        pile.read("output", output.as_bytes(), |_| {}).unwrap();
        let found = pile.finish(&Floor);
        let is_known = !found.inputs[0].kind.starts_with("text") || !found.verdicts.is_empty();
        assert!(is_known, "{command}: {:?}", found.inputs);
    }
}

/// Zero errors, sizes that suffice and answers are no causes.
#[test]
fn output_of_healthy_machines_shows_nothing() {
    for output in [
        "\t Link 0: CRC Errors: 0\n",
        "shm  1048576  65536  983040 7% /dev/shm\n",
        "Max open files            1048576              1048576              files\n",
        "Max locked memory         unlimited            unlimited            bytes\n",
        "7 packets transmitted, 7 received, 0% packet loss, time 6ms\n",
        "Domain State: UP\n",
        "\tlibibverbs.so.1 => /lib/libibverbs.so.1 (0x7f)\n",
        "nvidia-nccl-cu12    2.27.3\n",
    ] {
        let mut pile = Pile::default();
        pile.read("output", output.as_bytes(), |_| {}).unwrap();
        let found = pile.finish(&Floor).verdicts;
        assert!(found.is_empty(), "{output}: {}", crate::shown(&found));
    }
}
