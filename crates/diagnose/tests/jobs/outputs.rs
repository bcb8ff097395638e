//! Output of commands: what it says where all is well, and the causes where it is not.

use diagnose::{Diagnosis, Floor, Pile};

fn diagnosed(text: &str) -> Diagnosis {
    let mut pile = Pile::default();
    pile.read("output", text.as_bytes(), |_| {}).unwrap();
    pile.finish(&Floor)
}

const PORT: &str = "\tCA type: MT4129\n\tPort 1:\n\t\tState: ";

/// `ibstat` of ports with a rate and a state.
fn ibstat(ports: &[(&str, &str, u32)]) -> String {
    let port = |(name, state, rate): &(&str, &str, u32)| {
        format!("CA '{name}'\n{PORT}{state}\n\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n")
    };
    ports.iter().map(port).collect()
}

/// Each output says that all is well, and no cause.
#[test]
fn healthy_outputs_say_so() {
    let links =
        "GPU 0: NVIDIA H100 (UUID: GPU-7)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n";
    let up = ibstat(&[("mlx5_0", "Active", 400), ("mlx5_1", "Active", 400)]);
    let sparks = ibstat(&[
        ("rocep1s0f0", "Active", 200),
        ("rocep1s0f1", "Down", 40),
        ("roceP2p1s0f0", "Active", 200),
        ("roceP2p1s0f1", "Down", 40),
    ]);
    for (output, says) in [
        (links, "2 of 2 NVLinks up on GPU 0"),
        (&*up, "2 of 2 ports up: mlx5_0 (400 Gb/s), mlx5_1"),
        (&*sparks, "2 of 4 ports up: rocep1s0f0"),
        (
            "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n",
            "1 of 1 ports up: mlx5_0 (eth0)",
        ),
        (
            "mlx5_0 port 1 ==> eth0 (Up)\n",
            "1 of 1 ports up: mlx5_0 (eth0)",
        ),
        (
            "# Port counters: Lid 7 port 1 (CapMask: 0x5A00)\nCounterSelect:.....0x0000\n\
             PortXmitData:....7\nSymbolErrorCounter:....0\nPortXmitWait:....0\n",
            "LID 7 port 1: clean, 2 counters",
        ),
        (
            "NIC statistics:\n     rx_packets: 7\n     rx_prio3_pause: 0\n",
            "the NIC: clean, 1 counters",
        ),
        (
            "NIC statistics:\n     rx_packets: 7\n",
            "none of errors, drops or pauses",
        ),
        (
            "DEV\tPORT\tINDEX\tGID\nmlx5_0\t1\t2\tfe80:0000:0000:0000:0000:ccff:fe8b:0001\t\tv2\teth0\n\
             mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:000c\t10.0.0.12\tv2\teth0\n",
            "GID index 3 on mlx5_0",
        ),
        (
            "max locked memory       (kbytes, -l) unlimited\nopen files                      (-n) 1024\n",
            "locked memory unlimited, open files 1024",
        ),
        (
            "BOOT_IMAGE=/vmlinuz root=/dev/sda ro amd_iommu=off\n",
            "the IOMMU does not translate",
        ),
        (
            "| Diagnostic  | Result     |\n| DCGM Version | 4.4.1     |\n| PCIe        | Pass - All |\n",
            "DCGM: of 1 tests 1 passed",
        ),
        (
            "{\"DCGM GPU Diagnostic\": {\"test_categories\": [{\"tests\": [{\"name\": \"Inforom\", \"results\": \
             [{\"status\": \"Pass\"}]}]}]}}",
            "DCGM: of 1 tests 1 passed",
        ),
        (
            "#3  0x00007f in ncclProxyGetPostedOps (added=1) at proxy.cc:713\n",
            "NCCL's proxy waits for work",
        ),
        (
            "Thread 7 (idle): \"MainThread\"\n    c10d::ProcessGroupGloo::RecvWork::wait (libtorch_cpu.so)\n    \
             gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)\n",
            "1 thread: waits for data of another process over Gloo",
        ),
        (
            "nccl_bus_bandwidth_gbs{rank=\"0\",n_ranks=\"2\",collective=\"AllReduce\",message_size=\"1GB\"} 212.5\n",
            "AllReduce of 1GB, 2 ranks: bus bandwidth 212.5 GB/s (rank 0)",
        ),
    ] {
        let found = diagnosed(output);
        assert!(
            found.verdicts.is_empty(),
            "{output}: {}",
            crate::shown(&found.verdicts)
        );
        let said = found.inputs[0].says.join("\n");
        assert!(said.contains(says), "{output}: {said}");
    }
}

/// Each output shows one cause, at these devices.
#[test]
fn outputs_show_causes() {
    let slow = ibstat(&[
        ("mlx5_0", "Active", 200),
        ("mlx5_1", "Active", 200),
        ("mlx5_2", "Active", 200),
        ("mlx5_3", "Active", 40),
    ]);
    let down = ibstat(&[("mlx5_0", "Active", 400), ("mlx5_1", "Down", 10)]);
    for (output, cause, device) in [
        (&*slow, "port-slow", "mlx5_3"),
        (&*down, "port-down", "mlx5_1"),
        (
            "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t 1: DOWN\n\tphys state:\t 3: Disabled\n",
            "port-down",
            "mlx5_0",
        ),
        (
            "# Port counters: Lid 7 port 1\nSymbolErrorCounter:....4021\nPortRcvSwitchRelayErrors:....9\n",
            "port-errors",
            "LID 7 port 1",
        ),
        (
            "NIC statistics:\n     rx_prio3_pause: 9\n",
            "port-congested",
            "the NIC",
        ),
        (
            "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:255\n",
            "port-errors",
            "mlx5_0 port 1",
        ),
        (
            "max locked memory       (kbytes, -l) 64\n",
            "locked-memory",
            "max locked memory",
        ),
        (
            "| Diagnostic | Result |\n| pcie       | Fail   |\n|            | GPU3: Fail |\n\
             | Warning: GPU3 | Error: PCIe bandwidth for GPU 3 of 12 GB/s did not exceed |\n",
            "link-slow",
            "GPU 3",
        ),
        (
            "{\"DCGM GPU Diagnostic\": {\"test_categories\": [{\"tests\": [{\"name\": \"Memory\", \"results\": \
             [{\"gpu_id\": \"5\", \"status\": \"Fail\", \"warnings\": [{\"warning\": \"x\"}]}]}]}]}}",
            "gpu-memory-worn",
            "GPU 5",
        ),
    ] {
        let found = diagnosed(output).verdicts;
        let causes: Vec<&str> = found.iter().map(|it| it.cause.id).collect();
        assert_eq!(causes, [cause], "{output}: {}", crate::shown(&found));
        assert_eq!(found[0].devices, [device], "{output}");
        assert!(!found[0].lines.is_empty());
    }
}

/// A list of ranks below the number of operations that they launched, without a table before it.
#[test]
fn ranks_behind_in_a_report_of_ras_are_told() {
    let report = "#0-0 (27a0) MISMATCH\n  Communicator ranks have different collective operation counts\n  \
                  26 ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n  \
                  Rank 0 -- GPU 0 managed by process 48 on node n1\n  Rank 3 -- GPU 3 managed by process 49 on node n1\n";
    let found = diagnosed(report);
    assert!(
        found.verdicts.is_empty(),
        "{}",
        crate::shown(&found.verdicts)
    );
    let said = &found.inputs[0].says;
    assert!(
        said[0].contains("ranks 0, 3 of communicator #0-0 (27a0) launched 6649"),
        "{said:?}"
    );
}

#[test]
fn hostile_outputs_are_bounded() {
    let names: String = (0..10_000)
        .map(|it| format!("# x counters: Lid {it} port 1\nSymbolErrorCounter:{it}\n"))
        .collect();
    let gids: String = (0..10_000)
        .map(|it| format!("d{it} 1 9 {}:0 10.0.0.1 v2 e\n", ["0000"; 7].join(":")))
        .collect();
    for text in [
        &*names,
        &*gids,
        "|||\n| | |\n|a|GPU: Fail|\n",
        "DEV\tINDEX\tGID\n\u{1F600} 1 1 \u{1F600}\n",
    ] {
        let found = diagnosed(&format!(
            "| Diagnostic | NIC statistics: \tINDEX\tGID\n{text}"
        ));
        assert!(found.inputs[0].says.len() <= 16);
        assert!(found.verdicts.iter().all(|it| it.devices.len() <= 64));
    }
}
