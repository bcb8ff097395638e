//! Causes whose words count only beside other evidence: each named where that is there, and not
//! where it is not.

use findings::causes::Certainty::{self, Likely, Possible};

use crate::few::diagnosed;

/// The causes that inputs show, each with its certainty.
fn found(inputs: &[(&str, &str)]) -> Vec<(&'static str, Certainty)> {
    let inputs: Vec<(&str, String)> = inputs.iter().map(|it| (it.0, it.1.to_owned())).collect();
    let found = diagnosed(&inputs, "").verdicts;
    found.iter().map(|it| (it.cause.id, it.certainty)).collect()
}

fn in_log(log: &str) -> Vec<(&'static str, Certainty)> {
    found(&[("job.log", log)])
}

fn line(host: &str, process: u32, text: &str) -> String {
    format!("{host}:{process}:{process} [0] NCCL INFO {text}\n")
}

/// The start of a communicator on a rank, and its end if it `ends`.
fn start(host: &str, process: u32, id: u32, [rank, ranks, nodes]: [u32; 3], ends: bool) -> String {
    let member =
        format!("ncclCommInitRankConfig comm 0x{id:x}00{process:x} rank {rank} nranks {ranks}");
    let of = format!("cudaDev 0 nvmlDev 0 busId 1b000 commId 0x{id:x}");
    let mut text = line(host, process, &format!("{member} {of} - Init START"));
    let shape = format!(
        "comm 0x{id:x}00{process:x} rank {rank} nRanks {ranks} nNodes {nodes} localRanks 1 localRank 0 MNNVL 0"
    );
    text += &line(host, process, &shape);
    if ends {
        text += &line(host, process, &format!("{member} {of} - Init COMPLETE"));
    }
    text
}

fn version(number: &str) -> String {
    line("n1", 7, &format!("NCCL version {number}+cuda13.0"))
}

const NOTHING: [(&str, Certainty); 0] = [];

#[test]
fn a_missing_plug_in_counts_on_hosts_with_efa() {
    let log = |network: &str| {
        let of = |host: &str| {
            line(host, 7, "NET/Plugin: Could not find: libnccl-net.so. ")
                + &line(host, 7, &format!("Using network {network}"))
        };
        of("n1") + &of("n2")
    };
    let lspci = "00:1f.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)\n\
                 \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n";
    let efa = ("lspci.txt", lspci);
    let sockets = log("Socket");
    assert_eq!(
        found(&[("job.log", &sockets), efa]),
        [("no-plugin", Likely)]
    );
    let ports = (
        "rdma.txt",
        "link rdmap16s27/1 state ACTIVE physical_state LINK_UP netdev x\n",
    );
    assert_eq!(
        found(&[("job.log", &sockets), ports]),
        [("no-plugin", Likely)]
    );
    assert_eq!(in_log(&sockets), NOTHING);
    assert_eq!(found(&[("job.log", &log("AWS Libfabric")), efa]), NOTHING);
    let one = sockets.replace("n2:", "n1:");
    assert_eq!(found(&[("job.log", &one), efa]), NOTHING);
}

/// Images of AWS have the plug-in on all machines, and it tries one protocol after the other.
#[test]
fn a_plug_in_for_efa_counts_where_no_network_was_chosen() {
    let log = |said: &str, network: &str| {
        let chosen = line("n1", 7, &format!("Using network {network}"));
        line("n1", 7, said) + &chosen + &start("n1", 7, 1, [0, 2, 1], true)
    };
    for (said, cause) in [
        ("NET/OFI No eligible providers were found", "efa-missing"),
        ("NET/OFI Only EFA provider is supported", "efa-missing"),
        ("NET/OFI Failed to initialize rdma protocol", "efa-init"),
        ("NET/OFI aws-ofi-nccl initialization failed", "efa-init"),
        ("NET/OFI Initialization failed", "efa-init"),
    ] {
        for network in ["IB", "AWS Libfabric", "Libfabric"] {
            assert_eq!(in_log(&log(said, network)), NOTHING, "{said}, {network}");
            let bare = log(said, network).replacen("n1:7:9 [0] NCCL INFO ", "", 1);
            assert_eq!(in_log(&bare), NOTHING, "{bare}");
        }
        let expected = [(cause, Possible)];
        assert_eq!(in_log(&log(said, "Socket")), expected, "{said}");
        assert_eq!(in_log(&line("n1", 7, said)), expected, "{said}");
        assert_eq!(in_log(&format!("{said}\n")), expected, "{said}");
        // Another host's network says nothing of this one.
        let two = log(said, "Socket") + &line("n2", 7, "Using network AWS Libfabric");
        assert_eq!(in_log(&two), expected, "{said}");
    }
    let later = "NET/OFI Creating new endpoint for domain rdmap0 failed: Cannot allocate memory";
    let later = log("x", "AWS Libfabric") + &line("n1", 7, later);
    assert_eq!(in_log(&later), [("efa-init", Possible)]);
}

#[test]
fn full_memory_counts_where_there_are_many_communicators() {
    let starts = |count| -> String {
        let all = 0..count;
        all.map(|id| start("n1", 7, id, [0, 2, 1], true)).collect()
    };
    let full = "n1:7:9 [0] enqueue.cc:1 NCCL WARN Cuda failure 2 'out of memory'\n";
    let both = [
        ("many-communicators", Possible),
        ("gpu-memory-full", Likely),
    ];
    let mut many = in_log(&(starts(8) + full));
    many.sort_by_key(|it| it.0);
    let mut expected = both.to_vec();
    expected.sort_by_key(|it| it.0);
    assert_eq!(many, expected);
    assert_eq!(in_log(&(starts(7) + full)), [("gpu-memory-full", Likely)]);
    assert_eq!(in_log(&starts(40)), NOTHING);
    let torch = |allocated: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
             79.10 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 78.04 GiB memory \
             in use. Of the allocated memory {allocated} GiB is allocated by PyTorch, and 512.00 MiB is reserved by \
             PyTorch but unallocated.\n"
        )
    };
    let ids = |log: &str| -> Vec<_> { in_log(log).iter().map(|it| it.0).collect() };
    let much = starts(8) + &torch("60.11");
    assert_eq!(ids(&much), ["program-memory-full", "many-communicators"]);
    let little = starts(8) + &torch("76.00");
    assert_eq!(ids(&little), ["program-memory-full"]);
}

#[test]
fn a_buffer_counts_beside_a_communicator_of_one_rank() {
    let buffer = line(
        "n1",
        7,
        "transport/net.cc:656 Cuda Alloc Size 536870912 pointer 0x7f00",
    );
    let one = version("2.29.7") + &start("n1", 7, 1, [0, 1, 1], true) + &buffer;
    assert_eq!(in_log(&one), [("shared-net-buffer", Likely)]);
    let several = one.clone() + &start("n1", 7, 2, [0, 2, 2], true);
    assert_eq!(in_log(&several), [("shared-net-buffer", Possible)]);
    assert_eq!(in_log(&one.replace("2.29.7", "2.28.9")), NOTHING);
    assert_eq!(
        in_log(
            &one.replace("nranks 1 ", "nranks 2 ")
                .replace("nRanks 1 ", "nRanks 2 ")
        ),
        NOTHING
    );
    assert_eq!(in_log(&one.replace("536870912", "4194304")), NOTHING);
}

#[test]
fn a_profiler_counts_in_the_version_in_which_it_is_slow() {
    let log = |number| version(number) + &line("n1", 7, "PROFILER/Plugin: Loaded Example (v6)");
    assert_eq!(in_log(&log("2.31.2")), [("profiler-cost", Possible)]);
    assert_eq!(in_log(&log("2.29.7")), NOTHING);
    let none = version("2.31.2")
        + &line(
            "n1",
            7,
            "PROFILER/Plugin: Could not find: libnccl-profiler.so",
        );
    assert_eq!(in_log(&none), NOTHING);
}

#[test]
fn few_blocks_count_for_large_reduce_scatters_on_blackwell() {
    let kernel = |collective: &str, bytes: u32, blocks: u32| {
        line(
            "n1",
            7,
            &format!(
                "{collective} [Symmetric]: {bytes} Bytes -> Kernel {collective}_LD nchannels {blocks} nthreads 512 nWorks 1"
            ),
        )
    };
    let gpu = |name: &str| {
        version("2.30.7")
            + &format!("#  Rank  0 Group  0 Pid  77 on     n1 device  0 [0x10] NVIDIA {name}\n")
    };
    let few = kernel("ReduceScatter", 2 << 20, 11);
    assert_eq!(
        in_log(&(gpu("GB200") + &few)),
        [("symmetric-few-ctas", Possible)]
    );
    assert_eq!(in_log(&(gpu("H100 80GB HBM3") + &few)), NOTHING);
    for other in [
        kernel("ReduceScatter", 2 << 20, 64),
        kernel("ReduceScatter", 4 << 10, 1),
        kernel("AllGather", 2 << 20, 11),
    ] {
        assert_eq!(in_log(&(gpu("GB200") + &other)), NOTHING, "{other}");
    }
}

#[test]
fn cliques_of_one_cluster_are_named() {
    let fabric = |host: &str, cluster: &str, clique: &str| {
        let text = format!(
            "MNNVL busId 0x901000 fabric UUID {cluster} cliqueId {clique} state 3 healthMask 0x0"
        );
        line(host, 7, &text)
    };
    let apart = fabric("n1", "51b9.c45f", "0x1") + &fabric("n2", "51b9.c45f", "0x2");
    assert_eq!(in_log(&apart), [("clique", Possible)]);
    let set = line("n1", 7, "NCCL_MNNVL_CLIQUE_ID set by environment to 2.");
    assert_eq!(in_log(&(apart + &set)), NOTHING);
    assert_eq!(
        in_log(&(fabric("n1", "51b9.c45f", "0x1") + &fabric("n2", "51b9.c45f", "0x1"))),
        NOTHING
    );
    assert_eq!(
        in_log(&(fabric("n1", "51b9.c45f", "0x1") + &fabric("n2", "77aa.d011", "0x2"))),
        NOTHING
    );
    assert_eq!(
        in_log(&(fabric("n1", "0.0", "0x0") + &fabric("n2", "0.0", "0x1"))),
        NOTHING
    );
    let query = |clique: u32| {
        format!(
            "<nvidia_smi_log>\n<gpu id=\"00000000:1B:00.0\">\n<product_name>NVIDIA GB200</product_name>\n<fabric>\n\
             <state>Completed</state>\n<status>Success</status>\n<cliqueId>{clique}</cliqueId>\n\
             <clusterUuid>3183419e-9edc-4f0e-86e8-d895a9fb06be</clusterUuid>\n</fabric>\n</gpu>\n</nvidia_smi_log>\n"
        )
    };
    let [one, other] = [query(1), query(2)];
    assert_eq!(
        found(&[("n1/q.xml", &one), ("n2/q.xml", &other)]),
        [("clique", Possible)]
    );
    assert_eq!(found(&[("n1/q.xml", &one), ("n2/q.xml", &one)]), NOTHING);
}

#[test]
fn trees_that_do_not_connect_count_where_the_rings_do() {
    let failed = "n1:7:9 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev \
                  rocep1s0f1:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.1.1, remote \
                  GID ::ffff:10.0.2.3\n";
    let hosts = |nodes: u32| -> String {
        let all = 0..nodes;
        all.map(|rank| {
            let host = format!("n{}", rank + 1);
            start(&host, 7, 1, [rank, nodes, nodes], false)
                + &line(&host, 7, "Connected all rings, use ring PXN 0 GDR 0")
        })
        .collect()
    };
    let ids = |log: &str| -> Vec<_> { in_log(log).iter().map(|it| it.0).collect() };
    assert!(ids(&(hosts(3) + failed)).contains(&"switchless"));
    assert!(!ids(&(hosts(2) + failed)).contains(&"switchless"));
    let trees = line("n2", 7, "Connected all trees");
    assert!(!ids(&(hosts(3) + &trees + failed)).contains(&"switchless"));
    assert!(!ids(&hosts(3)).contains(&"switchless"));
}

#[test]
fn many_starts_that_do_not_end_are_a_race_in_some_versions() {
    let job = |number: &str, count: u32, ends: u32| -> String {
        let all = 0..count;
        let starts = all.map(|id| {
            let [one, other] =
                [0, 1].map(|rank| start("n1", 7 + rank, id, [rank, 2, 1], id < ends));
            one + &other
        });
        version(number) + &starts.collect::<String>()
    };
    assert_eq!(
        in_log(&job("2.29.7", 52, 49)),
        [("descriptor-race", Possible)]
    );
    assert_eq!(in_log(&job("2.29.7", 52, 52)), NOTHING);
    assert_eq!(in_log(&job("2.29.7", 4, 2)), NOTHING);
    assert_eq!(in_log(&job("2.28.9", 52, 49)), NOTHING);
    let off = line("n1", 7, "NCCL_CUMEM_ENABLE set by environment to 0.");
    assert_eq!(in_log(&(job("2.29.7", 52, 49) + &off)), NOTHING);
}

#[test]
fn peers_through_the_host_count_where_the_first_collective_hangs() {
    let timeout = |number: u32| {
        format!(
            "[rank0]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600024 \
             milliseconds before timing out.\n"
        )
    };
    let graph = |types: &str| {
        let text = format!(
            "Pattern 4, crossNic 0, nChannels 1, bw 24.0/24.0, type {types}, sameChannels 1"
        );
        line("n1", 7, &text)
    };
    let job = |types: &str| {
        start("n1", 7, 1, [0, 2, 1], false)
            + &graph(types)
            + &line("n1", 7, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
            + &start("n1", 7, 1, [0, 2, 1], true)
    };
    let ids = |log: &str| -> Vec<_> { in_log(log).iter().map(|it| it.0).collect() };
    let hangs = job("PHB/PIX") + &timeout(1);
    let named: Vec<_> = in_log(&hangs)
        .into_iter()
        .filter(|it| it.0 == "p2p-hangs")
        .collect();
    assert_eq!(named, [("p2p-hangs", Possible)]);
    let faults = hangs.clone()
        + "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 address=0xf0000000 flags=0x0020]\n";
    assert!(in_log(&faults).contains(&("p2p-hangs", Likely)));
    for other in [
        job("PIX/PIX") + &timeout(1),
        job("PHB/PIX") + &timeout(900),
        job("PHB/PIX"),
        hangs.clone() + &line("n1", 7, "NCCL_P2P_LEVEL set by environment to PXB."),
        hangs.replace("P2P/CUMEM", "SHM/direct/direct"),
    ] {
        assert!(!ids(&other).contains(&"p2p-hangs"), "{other}");
    }
}

/// A run of nccl-tests with settings.
fn run(settings: &[&str], bandwidth: f64) -> String {
    let settings: String = settings
        .iter()
        .map(|it| {
            line(
                "n1",
                7,
                &format!(
                    "{} set by environment to {}.",
                    it.split('=').next().unwrap_or(it),
                    it.split('=').nth(1).unwrap_or("")
                ),
            )
        })
        .collect();
    format!(
        "# Collective test starting: sendrecv_perf\n# nThread 1 nGpus 1 minBytes 536870912 maxBytes 536870912\n\
         #  Rank  0 Group  0 Pid  77 on     n1 device  0 [0x10] NVIDIA GH200\n{settings}# Avg bus bandwidth    : {bandwidth}\n"
    )
}

#[test]
fn two_runs_that_differ_in_one_setting_show_its_cause() {
    let slow = run(&["NCCL_IB_HCA=mlx5"], 18.3);
    let compared = |fast: &str| found(&[("slow.log", &slow), ("fast.log", fast)]);
    let peers = run(&["NCCL_IB_HCA=mlx5", "NCCL_NCHANNELS_PER_NET_PEER=4"], 24.2);
    assert_eq!(compared(&peers), [("few-peer-channels", Likely)]);
    let blocks = run(&["NCCL_IB_HCA=mlx5", "NCCL_SYM_CTAS=64"], 24.2);
    assert_eq!(compared(&blocks), [("symmetric-few-ctas", Likely)]);
    let profiler = run(&["NCCL_IB_HCA=mlx5", "NCCL_PROFILER_PLUGIN=example"], 15.0);
    assert_eq!(compared(&profiler), [("profiler-cost", Likely)]);
    let nic = run(&["NCCL_IB_HCA=mlx5", "NCCL_CROSS_NIC=0"], 60.0);
    assert_eq!(compared(&nic), [("nic-split", Likely)]);
    for other in [
        // As fast, slower with the setting, another job, two settings, and no log.
        run(&["NCCL_IB_HCA=mlx5", "NCCL_NCHANNELS_PER_NET_PEER=4"], 18.9),
        run(&["NCCL_IB_HCA=mlx5", "NCCL_NCHANNELS_PER_NET_PEER=4"], 12.0),
        peers.replace("minBytes 536870912", "minBytes 8"),
        peers.replace("sendrecv", "alltoall"),
        run(&["NCCL_NCHANNELS_PER_NET_PEER=4"], 24.2),
        run(&[], 24.2),
        peers.clone() + &peers,
    ] {
        assert_eq!(compared(&other), NOTHING, "{other}");
    }
}

#[test]
fn files_of_a_machine_are_looked_at_by_themselves() {
    let machine = |speed: u32| {
        format!(
            "<system version=\"1\">\n<cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" \
             vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n\
             <pci busid=\"0000:1b:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n\
             <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"><nvlink target=\"0000:1c:00.0\" count=\"18\" tclass=\"0x030200\"/></gpu></pci>\n\
             <pci busid=\"0000:1c:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n\
             <gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\"><nvlink target=\"0000:1b:00.0\" count=\"18\" tclass=\"0x030200\"/></gpu></pci>\n\
             <pci busid=\"0000:1d:00.0\" class=\"0x020700\" link_speed=\"{speed}.0 GT/s PCIe\" link_width=\"16\">\n\
             <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" latency=\"0\" guid=\"0x1\" maxconn=\"262144\" \
             gdr=\"1\"/></nic></pci>\n</cpu>\n</system>\n"
        )
    };
    let [fast, narrow] = [32, 8].map(machine);
    assert_eq!(found(&[("machine.xml", &fast)]), NOTHING);
    assert_eq!(
        found(&[("machine.xml", &narrow)]),
        [("narrow-nic", Possible)]
    );
    // Another cause is known.
    let log = line("n1", 7, "NCCL_P2P_DISABLE set by environment to 1.");
    let ids: Vec<_> = found(&[("machine.xml", &narrow), ("job.log", &log)]);
    assert_eq!(
        ids.iter().map(|it| it.0).collect::<Vec<_>>(),
        ["p2p-disabled"]
    );
    let graph = |last: u32| {
        format!(
            "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"20\" \
             speedinter=\"20\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">\n\
             <channel><gpu dev=\"0\"/><gpu dev=\"{last}\"/></channel>\n</graph>\n</graphs>\n"
        )
    };
    let [own, other] = [1, 5].map(graph);
    assert_eq!(
        found(&[("machine.xml", &fast), ("graph.xml", &other)]),
        [("graph-file", Likely)]
    );
    assert_eq!(
        found(&[("machine.xml", &fast), ("graph.xml", &own)]),
        NOTHING
    );
    let alone = diagnosed(&[("graph.xml", own)], "");
    assert!(
        alone.verdicts.is_empty() && alone.missing[0].how.contains("NCCL_GRAPH_FILE=graph.xml")
    );
    assert_eq!(alone.inputs[0].kind, "graphs of NCCL");
}
