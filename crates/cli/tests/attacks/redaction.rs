//! Names, addresses and secrets in the archive of `topo diagnose --collect --redact`: none may be
//! left.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::program::{LONG, Running, topo};

/// Lines with identifiers, and the identifier of each that must not stay.
const PLANTED: [(&str, &str); 57] = [
    ("██gpu-node-31:1:2 [0] NCCL INFO", "gpu-node-31"),
    ("SLURM_JOB_NODELIST=node[07-09]", "node08"),
    ("reached node08 at last", "node08"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNz"),
    ("fe80::1:2-fe80::9a03:9bff", "9a03:9bff"),
    ("peer_fe80::b859:9fff", "b859:9fff"),
    ("peer fe80::b8ce:f6ff:fe3d:3a72:29500", "b8ce:f6ff"),
    ("Serial Number : ABC-123-456789", "ABC-123-456789"),
    ("0: gpu-node-08:100:200 [0] NCCL INFO comm", "gpu-node-08"),
    (
        "[1,0]<stdout>:dgx-a-10:100:200 [0] NCCL INFO comm",
        "dgx-a-10",
    ),
    (
        "[2026-11-28 10:00:00] worker-11:100:200 [0] NCCL INFO comm",
        "worker-11",
    ),
    ("  host      : trainer-13.cluster.example.com", "trainer-13"),
    ("domain trainer-14.cluster.example.com", "example.com"),
    ("MASTER_ADDR=head-77", "head-77"),
    ("SLURM_NODELIST=rack-[01-20]", "rack-["),
    ("then rack-07 failed", "rack-07"),
    ("SLURM_JOB_NODELIST=blade[3-5],sled9", "blade"),
    ("and sled9 too", "sled9"),
    ("srun: error: hgx-15: task 3: Killed", "hgx-15"),
    ("HGX-15 in capitals", "HGX-15"),
    ("from ip-10-1-2-4.ec2.internal", "10-1-2-4"),
    ("Process 55 on node n17 managing GPU 3", "n17"),
    ("NCCL_COMM_ID=meet-14:29500", "meet-14"),
    ("slot-23 slots=8", "slot-23"),
    ("OOB eth0:10.1.2.3<0>", "10.1.2.3"),
    ("OOB eth0:fe80::b8ce:f6ff:fe3d:3a72%eth0<0>", "fe80::b8ce"),
    ("GID fe80:0000:0000:0000:b8ce:f6ff:fe3d:3a73", "fe3d:3a73"),
    (
        "<net name=\"mlx5_0\" guid=\"0x8011e0003ae6d94\"/>",
        "8011e0003ae6d94",
    ),
    (
        "<net name=\"mlx5_1\" guid=\"0xb8cef603003d3a72\"/>",
        "b8cef603003d3a72",
    ),
    ("\tNode GUID: 0x11e0003ae6d94", "11e0003ae6d94"),
    ("node_guid: b8ce:f603:003d:3a74", "b8ce:f603"),
    (
        "ClusterUUID : 5d3f1a2b-aaaa-2233-4455-66778899aabb",
        "5d3f1a2b-aaaa",
    ),
    ("GPU-6d3f1a2b-0011-2233-4455-66778899aabb", "6d3f1a2b-0011"),
    ("link/ether b8:ce:f6:3d:3a:75", "b8:ce:f6"),
    ("mac b8-ce-f6-3d-3a-75 here", "b8-ce-f6"),
    ("mac b8cef63d3a75 here", "b8cef63d3a75"),
    ("[SN] Serial number: MT2245T00123", "MT2245T00123"),
    (
        "[V3] Vendor specific: 2b57e4be6b35ed118000b8cef63d3a75",
        "2b57e4be6b35",
    ),
    ("[VU] Vendor specific: MT2245T00123MLNXS0D0F0", "MLNXS0D0F0"),
    (
        "Name : /opt/bin/python --key hidden-argument",
        "hidden-argument",
    ),
    ("cd /home/alice/run", "alice"),
    ("HF hf_AbCdEfGhIjKl", "hf_AbCd"),
    ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7"),
    ("get ?token=abc123secret&x=1", "abc123secret"),
    ("password: hunter22", "hunter22"),
    ("http://bob:letmein@10.1.2.9/x", "letmein"),
    ("SLURM_NODELIST=node[1-3]", "node["),
    ("and node3 too", "node3 too"),
    ("node2: it stopped", "node2"),
    ("MASTER_ADDR=gpu4", "_ADDR=gpu4"),
    ("gpu4: Killed", "gpu4"),
    ("[1,0]<stdout>:node5: out of memory", "node5"),
    ("[node6:12345] *** Process received signal ***", "node6"),
    ("node7 slots=8", "node7"),
    ("at node8.example", "node8"),
    ("at node9 and node10", "node9"),
    ("at host12", "host12"),
];

/// A file of hosts for a launcher, and one like `/etc/hosts`.
const MACHINES: &str = "# ranks\nnode9:8\nnode10 slots=8\n";
const HOSTS: &str =
    "127.0.0.1 localhost\n10.1.2.30\tnode8.example host12 # a host\n::1 ip6-localhost\n";

/// What diagnoses need.
const KEPT: [&str; 16] = [
    "[12] NCCL INFO Channel 00 : 0[0]",
    "2026-11-28T10:00:00 cancelled",
    "NCCL version 2.28.3+cuda12.9",
    "busid=\"0000:3b:00.0\"",
    "00000000:1B:00.0",
    "mlx5_0:1/RoCE",
    "rank 5 nranks 64 cudaDev 5",
    "NCCL_IB_HCA=mlx5_0,mlx5_1",
    "NCCL_SOCKET_IFNAME=eth0",
    "driver 580.65.06 firmware 28.39.1002",
    "comm 0x7f8c496ae9f6",
    "2026-11-28 10:00:00",
    "127.0.0.1",
    "GPU3 NIC0 NVLink NUMA node0",
    "GPU4 NUMA node3 CPU(s)",
    "localhost",
];

/// Programs whose output is collected.
const PROGRAMS: [&str; 6] = [
    "nvidia-smi",
    "lspci",
    "ibstat",
    "ibv_devinfo",
    "rdma",
    "ncclras",
];

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

/// Plants every identifier into logs, a packed log, a log with a bad byte, and what programs print.
fn plant(folder: &Path) -> String {
    let lines: Vec<&str> = PLANTED.iter().map(|it| it.0).chain(KEPT).collect();
    let text = lines.join("\n") + "\n";
    let damaged = [text.as_bytes(), b"\xff\n"].concat();
    fs::write(folder.join("job.log"), &text).unwrap();
    fs::write(folder.join("bad.log"), damaged).unwrap();
    fs::write(folder.join("job.log.gz"), gzip(&text)).unwrap();
    fs::write(folder.join("topology.xml"), &text).unwrap();
    fs::write(folder.join("machines"), MACHINES).unwrap();
    fs::write(folder.join("hosts"), HOSTS).unwrap();
    fs::write(folder.join("rank_0"), b"\x80\x02X\x05\0\0\0n17:5e.").unwrap();
    for program in PROGRAMS {
        let path = folder.join(program);
        let job = folder.join("job.log");
        fs::write(&path, format!("#!/bin/sh\ncat {}\n", job.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    text
}

/// The files of an archive, those that are packed unpacked.
fn unpacked(archive: &Path) -> Vec<(String, String)> {
    let file = fs::File::open(archive).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().unwrap();
    let files = entries.map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        if name.ends_with(".gz") {
            let packed = std::mem::take(&mut bytes);
            let mut content = flate2::read::GzDecoder::new(&*packed);
            std::io::Read::read_to_end(&mut content, &mut bytes).unwrap();
        }
        (name, String::from_utf8(bytes).unwrap())
    });
    files.collect()
}

pub(crate) fn no_identifier_stays_in_a_redacted_archive() {
    let folder = tempfile::tempdir().unwrap();
    plant(folder.path());
    let archive = folder.path().join("out.tgz");
    let mut command: Command = topo();
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("NCCL_COMM_ID", "meet-15:29500")
        .args(["diagnose", "--collect", "--redact", "word", "-o"])
        .arg(&archive);
    for name in [
        "job.log",
        "bad.log",
        "job.log.gz",
        "topology.xml",
        "machines",
        "hosts",
        "rank_0",
    ] {
        command.arg(folder.path().join(name));
    }
    let said = Running::start(&mut command).within(LONG);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(said.out.contains("rank_0: it is no text"), "{}", said.out);
    let files = unpacked(&archive);
    let has = |end: &str| files.iter().any(|it| it.0.ends_with(end));
    assert!(has("/job.log") && has("/bad.log") && has("/job.log.gz") && !has("/rank_0"));
    let mut found = Vec::new();
    for (name, text) in &files {
        let planted = PLANTED.iter().map(|it| it.1).chain(["meet-15"]);
        found.extend(planted.filter(|it| text.contains(it)).map(|it| (name, it)));
    }
    let full = files.iter().filter(|it| it.1.contains(KEPT[0])).count();
    println!(
        "planted {} / found {}",
        full * PLANTED.len() + 1,
        found.len()
    );
    assert!(found.is_empty(), "{found:?}");
    assert!(full >= 4 + PROGRAMS.len(), "{full}");
    let log = files.iter().find(|it| it.0.ends_with("/job.log")).unwrap();
    for kept in KEPT {
        assert!(log.1.contains(kept), "{kept} in {}", log.1);
    }
}
