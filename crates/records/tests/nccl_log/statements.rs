//! Lines of several versions, and what they mean.

use plan::Algorithm;
use program::{Collective, Protocol};
use records::nccl_log::decisions::{Local, Neighbors, Port};
use records::nccl_log::statement::{End, LineFault, Stage, Statement, Transport, read};
use records::nccl_log::{Collector, Log};

fn log(text: &str) -> Log {
    let mut collector = Collector::default();
    collector.read("log", text.as_bytes(), |_| {}).unwrap();
    collector.finish()
}

#[test]
fn connections_of_all_versions_are_read() {
    let port = |device, proxy, gdr| Port { device, proxy, gdr };
    let direct = |via, read| Local::Direct { via, read };
    let network = |name: &'static str, port| Transport::Network { name, port };
    let local = |how, kind: &'static str| Transport::Local { how, kind };
    for (text, end, transport) in [
        // 2.4
        (
            "Ring 00 : 3 -> 10 [send] via NET/IB/0/GDRDMA",
            End::Sender,
            network("IB", port(0, 3, true)),
        ),
        (
            "Ring 00 : 3[3] -> 10[4] via P2P/IPC",
            End::Unknown,
            local(direct(None, false), "IPC"),
        ),
        (
            "Ring 00 : 3[3] -> 10[4] via direct shared memory",
            End::Unknown,
            local(Local::SharedMemory, "direct shared memory"),
        ),
        // 2.8 to 2.18, with bus ids
        (
            "Channel 00 : 3[b1000] -> 10[5e000] via P2P/IPC/read",
            End::Unknown,
            local(direct(None, true), "IPC"),
        ),
        (
            "Channel 00 : 3[e000] -> 10[d000] [receive] via NET/AWS Libfabric/1",
            End::Receiver,
            network("AWS Libfabric", port(1, 10, false)),
        ),
        // 2.19 and later
        (
            "Channel 00/0 : 3[3] -> 10[2] [send] via NET/IBext/6(5)/GDRDMA",
            End::Sender,
            network("IBext", port(6, 5, true)),
        ),
        (
            "Channel 00/0 : 3[3] -> 10[2] [receive] via NET/IB/3/GDRDMA(PCI)/flush=None",
            End::Receiver,
            network("IB", port(3, 10, true)),
        ),
        (
            "Channel 00/0 : 3[3] -> 10[2] via P2P/indirect/0[0]",
            End::Unknown,
            local(direct(Some(0), false), "indirect"),
        ),
        (
            "Channel 00/0 : 3[3] -> 10[2] via P2P/direct pointer/read",
            End::Unknown,
            local(direct(None, true), "direct pointer"),
        ),
        (
            "Channel 00 : 3[3] -> 10[2] via SHM/direct/direct",
            End::Unknown,
            local(Local::SharedMemory, "direct/direct"),
        ),
        // AMD's library
        (
            "Channel 00 : 3[c1000] -> 10[c5000] via P2P/IPC comm 0x55 nRanks 08",
            End::Unknown,
            local(direct(None, false), "IPC"),
        ),
    ] {
        let Statement::Connection(found) = read(text) else {
            panic!("{text}: {:?}", read(text));
        };
        assert_eq!((found.channel, found.from, found.to), (0, 3, 10), "{text}");
        assert_eq!((found.end, found.transport), (end, transport), "{text}");
    }
}

#[test]
fn rings_and_trees_of_all_versions_are_read() {
    let ranks = vec![0, 1, 2];
    for text in [
        "Channel 00 :    0   1   2",
        "Ring 00 :    0   1   2",
        "Channel 00/0 : 0 1 2 comm 0x7f nRanks 03 busId c000",
        // Cut off by NCCL, perhaps within the last number.
        "Channel 00/0 :  0  1  2  3 ...",
    ] {
        let of = text.contains('/').then_some(0);
        let expected = Statement::Ring {
            channel: 0,
            of,
            ranks: ranks.clone(),
        };
        assert_eq!(read(text), expected, "{text}");
    }
    let neighbors = Statement::RingNeighbors {
        channel: 3,
        previous: Some(2),
        rank: 0,
        next: 1,
    };
    assert_eq!(read("Ring 03 : 2 -> 0 -> 1"), neighbors);
    assert_eq!(
        read("Ring 3 : 2 -> 0 -> 1 comm 0x7f nRanks 03 busId c000"),
        neighbors
    );
    let expected = Neighbors {
        up: Some(4),
        down: [Some(1), None, None],
    };
    for text in [
        "Trees [0] 4->0->1/-1/-1",
        "Trees [0] 1/-1/-1->0->4",
        "Trees [0] 1/-1/-1->0->4|4->0->1/-1/-1",
        "Tree 0 : 4 -> 0 -> 1/-1/-1",
        "Tree 0 : 4 -> 0 -> 1/-1/-1 comm 0x7f nRanks 03 busId c000",
    ] {
        let Statement::Trees { trees, .. } = read(text) else {
            panic!("{text}");
        };
        assert_eq!(trees, [(0, 0, expected)], "{text}");
    }
}

#[test]
fn damaged_and_unknown_channels_are_told_apart() {
    for (text, why) in [
        (
            "Channel 14/0 : 8[0] Setting up something",
            LineFault::Interleaved,
        ),
        (
            "Channel 15/0 : 4[4] -> 12[4] [seSetting up",
            LineFault::Interleaved,
        ),
        (
            "Channel 14/0 : 2[2] -> 10[2] [send] via NET/IB/6/GDSetting up",
            LineFault::Interleaved,
        ),
        ("Channel 14/0 : 2[2] -> 10[2] [se", LineFault::Cut),
        ("Channel 14", LineFault::Cut),
        ("Trees [0] 1/-1/-1->0->-1 [1] 1/-", LineFault::Cut),
        (
            "Channel 00/0 : 3[3] => 0[0] via P2P/IPC",
            LineFault::Unknown,
        ),
        ("Trees [0] 1/-1/-1=>0=>-1", LineFault::Unknown),
        ("Ring 00 : 1 <- 0", LineFault::Unknown),
    ] {
        assert_eq!(read(text), Statement::Broken(why), "{text}");
    }
    let log = log("a\nn:1:2 [0] NCCL INFO Ring 00 : 1 <- 0\n");
    assert_eq!((log.counts.broken, log.broken[0].line), (1, 2));
}

#[test]
fn choices_have_names_or_numbers() {
    let names = "AllReduce: 1024 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..0}";
    let numbers = "AllReduce: 1024 Bytes -> Algo 5 proto 2 time 12.300000";
    let choice = |channels| Statement::Choice {
        collective: Collective::AllReduce,
        bytes: 1024,
        algorithm: Algorithm::NvlsTree,
        protocol: Protocol::Simple,
        channels,
    };
    assert_eq!(read(names), choice(Some([0, 0])));
    assert_eq!(read(numbers), choice(None));
}

#[test]
fn kernels_for_windows_are_read() {
    let line = "AllGather [Symmetric]: 4608 Bytes -> Kernel AllGather_STMC nchannels 2 nthreads 512 nWorks 9";
    let kernel = Statement::WindowKernel {
        collective: Collective::AllGather,
        bytes: 4608,
        kernel: "AllGather_STMC",
        blocks: 2,
        calls: 9,
    };
    assert_eq!(read(line), kernel);
    let cut = "AllGather [Symmetric]: 4608 Bytes -> Kernel AllGather_STMC nchan";
    assert_eq!(read(cut), Statement::Ignored);
}

#[test]
fn two_communicators_of_one_process_are_told_apart() {
    let mut text = String::new();
    for (thread, id, nranks) in [(7, "0xa", 2), (8, "0xb", 1)] {
        for rank in 0..nranks {
            let pid = 10 + rank;
            let head = format!("n1:{pid}:{thread} [{rank}] NCCL INFO");
            let comm = format!("comm 0x{thread}{rank} rank {rank} nranks {nranks}");
            let rest = format!("cudaDev {rank} nvmlDev {rank} busId 1000 commId {id}");
            text += &format!("{head} {comm} {rest} - Init START\n");
            text += &format!(
                "{head} Channel 00/01 : {}\n",
                if nranks == 2 { "0 1" } else { "0" }
            );
            text += &format!("{head} {comm} {rest} - Init COMPLETE\n");
        }
    }
    let log = log(&text);
    let shapes: Vec<_> = log
        .communicators
        .iter()
        .map(|it| (it.ranks, it.members.len()))
        .collect();
    assert_eq!(shapes, [(2, 2), (1, 1)]);
    assert_eq!(log.communicators[0].members[1].stage, Some(Stage::Complete));
}

#[test]
fn a_cut_ring_is_completed_by_its_ranks() {
    let mut text = String::new();
    for rank in 0..30 {
        let (before, after) = ((rank + 29) % 30, (rank + 1) % 30);
        let head = format!("n1:{rank}:1 [0] NCCL INFO");
        if rank == 0 {
            let ranks: Vec<String> = (0..20).map(|it: u32| it.to_string()).collect();
            text += &format!("{head} Channel 00/01 : {}\n", ranks.join(" "));
        }
        text += &format!("{head} Ring 00 : {before} -> {rank} -> {after}\n");
        text +=
            &format!("{head} comm 0x1 rank {rank} nranks 30 cudaDev 0 busId 10 - Init COMPLETE\n");
    }
    let log = log(&text);
    let decisions = &log.communicators[0].decisions;
    assert_eq!(decisions.rings[&0], (0..30).collect::<Vec<_>>());
    assert!(decisions.cut_rings.is_empty());
}

#[test]
fn the_host_that_differs_is_named() {
    let mut text = String::new();
    for host in 0..4 {
        let head = format!("node{host}:1:1 [0] NCCL INFO");
        let hca = if host == 2 { "mlx5_0" } else { "mlx5" };
        text += &format!("{head} NCCL_IB_HCA set by environment to {hca}\n");
        text += &format!(
            "{head} NCCL version 2.27.{}+cuda12.9\n",
            if host == 1 { 5 } else { 7 }
        );
    }
    let log = log(&text);
    let odd = |what: &str| {
        let found = log.odd_hosts.iter().find(|it| it.what == what).unwrap();
        found.others[0].1.clone()
    };
    assert_eq!(odd("NCCL_IB_HCA"), ["node2"]);
    assert_eq!(odd("version"), ["node1"]);
}
